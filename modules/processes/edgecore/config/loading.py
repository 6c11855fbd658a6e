"""Reads and checks a configuration file."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from edged.eviction_api.thresholds import ThresholdError, parse_thresholds
from modules.edge.eventbus.internal_broker import SOCKET
from modules.processes.common.loopback import is_loopback
from modules.processes.edgecore.config.dangers import dangers
from modules.processes.edgecore.config.errors import (
    ConfigError,
    Problem,
    Remark,
)
from modules.processes.edgecore.config.model import SOCKET_PATH_LIMIT, EdgeCoreConfig
from modules.processes.edgecore.config.names import INSIDE, NODE_NAME
from modules.processes.edgecore.config.reading import read
from modules.processes.edgecore.config.value_kinds import UnfitError
from modules.processes.edgecore.config.without_effect import KNOWN
from modules.processes.edgecore.config.yaml_text import ConfigDocument, join, parse

MAX_FILE_BYTES: Final = 1024 * 1024
"""Largest file that is read. KubeEdge's own has 6 KiB."""

_NO_MODULES: Final = Problem(
    path="modules",
    text="has no settings, and with KubeEdge's defaults this would be another node",
    hint="restore the file if it was cut off; `edgecore config minimal` and `edgecore config default` print new ones",
)
"""The problem of a file that is empty or cut off, as after a full disk or a power cut."""

Broken = tuple[tuple[str, ...], str, str]
"""Path of the setting to change, problem, remedy."""


class LoadResult(msgspec.Struct, frozen=True, kw_only=True):
    """A usable file."""

    config: EdgeCoreConfig
    """The settings; keys that the file leaves out have their defaults."""

    source: str
    """Name of the file, for messages."""

    has_file: bool = True
    """Whether there is a file; without one the node has defaults."""

    warnings: tuple[Remark, ...] = ()
    """Unknown keys, keys in odd spelling, and dangerous combinations of settings."""

    without_effect: tuple[Remark, ...] = ()
    """Keys of KubeEdge's with a chosen value that this edgecore does not use."""


def load(path: Path) -> LoadResult:
    """Read a file. Raises ConfigError with all its problems if it cannot be used."""
    source = str(path)
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            raise _unreadable(source, f"larger than {MAX_FILE_BYTES // 1024} KiB", "this is no configuration")
        text = content.decode("utf-8-sig")
    except FileNotFoundError:
        raise _unreadable(source, "there is no such file", "`edgecore config minimal` prints one") from None
    except IsADirectoryError:
        raise _unreadable(source, "is a directory, and a file is wanted", "--root names a directory") from None
    except PermissionError:
        raise _unreadable(
            source, "this user may not read it", "run this as its owner; `ls -l` says who that is"
        ) from None
    except OSError as error:
        raise _unreadable(source, f"cannot be read: {error.strerror}", "") from None
    except UnicodeDecodeError as error:
        raise _unreadable(source, f"is not UTF-8 text, at byte {error.start}", "") from None
    return loads(text, source, is_file=True)


def loads(text: str, source: str = "configuration", *, is_file: bool = False) -> LoadResult:
    """Read a text; `source` names it in messages. Raises ConfigError as `load` does.

    Only a file must have settings in `modules`: KubeEdge's defaults would make another node of one that was lost.
    """
    document = parse(text)
    if isinstance(document, Problem):
        raise ConfigError(source, (document,))
    config, findings = read(EdgeCoreConfig, KNOWN, document)
    lacking = [_NO_MODULES] if is_file and _lacks_modules(document.value) else []
    problems = findings.problems or lacking or _broken(config, document)
    told, fatal = _dangers(config, document, findings.without_effect)
    problems = [*problems, *fatal]
    warnings = (*findings.warnings, *told)
    if problems:
        raise ConfigError(source, tuple(sorted(problems, key=lambda problem: problem.line or 0)), warnings)
    return LoadResult(
        config=config,
        source=source,
        warnings=warnings,
        without_effect=tuple(findings.without_effect),
    )


def _lacks_modules(value: object) -> bool:
    """Return whether a document says nothing about the node's modules: it is empty, or ends before them."""
    if not isinstance(value, dict):
        return value is None
    modules = [entry for name, entry in value.items() if name.lower() == "modules"]
    return not any(any(each.values()) if isinstance(each, dict) else each for each in modules)


def verify(config: EdgeCoreConfig, source: str) -> None:
    """Raise ConfigError if a configuration that was not read from a file breaks a rule between settings."""
    problems = _broken(config, ConfigDocument(None, {}, ()))
    if problems:
        raise ConfigError(source, tuple(problems))


def broken_rules(config: EdgeCoreConfig) -> Iterator[Broken]:
    """Yield every rule that `config` breaks."""
    yield from _node_name(config)
    yield from _transport(config)
    yield from _certificates(config)
    yield from _container_runtime(config)
    yield from _event_bus(config)
    yield from _service_bus(config)
    yield from _kubelet_settings(config)


def _node_name(config: EdgeCoreConfig) -> Iterator[Broken]:
    """Check that the host name is allowed for a Node; KubeEdge fails later, when it registers."""
    try:
        NODE_NAME.read(config.node_name)
    except UnfitError:
        path = ("modules", "edged", "hostnameOverride")
        yield path, f'the host name "{config.node_name}" cannot name a node', "set another name here"


def _transport(config: EdgeCoreConfig) -> Iterator[Broken]:
    """Check the transport; KubeEdge demands exactly one, and here it must be the websocket."""
    hub = config.modules.edge_hub
    if hub.enable and hub.quic.enable:
        hint = "KubeEdge's QUIC is gQUIC of 2018, which this edgecore does not speak: use the websocket"
        yield ("modules", "edgeHub", "quic", "enable"), "got true, want false", hint
    if hub.enable and not hub.websocket.enable:
        hint = "to run without a cloud set modules.edgeHub.enable: false"
        yield ("modules", "edgeHub", "websocket", "enable"), "got false, want true", hint
    schemes = {url.partition("://")[0] for url in config.websocket_urls}
    if hub.enable and len(schemes) > 1:
        path = ("modules", "edgeHub", "websocket", "backupServers")
        yield path, "some servers have TLS and others not", "write ws:// before all of them, or before none"


def _certificates(config: EdgeCoreConfig) -> Iterator[Broken]:
    """Check that the server of certificates has TLS: token and certificate must not go to an impostor."""
    hub = config.modules.edge_hub
    if hub.enable and config.websocket_url.startswith("wss:") and not hub.http_server.startswith("https:"):
        path = ("modules", "edgeHub", "httpServer")
        yield path, f'got "{hub.http_server}", want https, because the websocket has TLS', "KubeEdge's port is 10002"


def _container_runtime(config: EdgeCoreConfig) -> Iterator[Broken]:
    kubelet = config.modules.edged.tailored_kubelet_config
    if config.runs_container_runtime:
        length = len(bytes(config.container_runtime_socket))
        if length > SOCKET_PATH_LIMIT:
            text = f"too long by {length - SOCKET_PATH_LIMIT} bytes for a socket in it"
            yield ("modules", "edged", "rootDirectory"), text, "choose a shorter path"
    image, runtime = kubelet.image_service_endpoint, kubelet.container_runtime_endpoint
    if image in INSIDE and image != runtime:
        path = ("modules", "edged", "tailoredKubeletConfig", "imageServiceEndpoint")
        text = f"got {image}, but containerRuntimeEndpoint names another runtime"
        yield path, text, "remove this key"


def _event_bus(config: EdgeCoreConfig) -> Iterator[Broken]:
    """Check that the URLs of the brokers say whether they have TLS, and whom the internal one lets in."""
    bus, section = config.modules.event_bus, ("modules", "eventBus")
    if not bus.enable:
        return
    scheme = "ssl" if bus.event_bus_tls.enable else "tcp"
    if bus.mqtt_mode != 0 and not bus.mqtt_server_external.startswith(f"{scheme}:"):
        text = f"got {bus.mqtt_server_external}, but eventBusTLS.enable is {str(bus.event_bus_tls.enable).lower()}"
        yield (*section, "mqttServerExternal"), text, f"change one of the two: it is {scheme}://host:port then"
    if bus.mqtt_mode != 2:
        yield from _internal_broker(config)


def _internal_broker(config: EdgeCoreConfig) -> Iterator[Broken]:
    bus, section = config.modules.event_bus, ("modules", "eventBus")
    scheme, _, where = bus.mqtt_server_internal.partition("://")
    if scheme != "tcp":
        hint = "the internal broker has no TLS: use tcp://127.0.0.1:1884, or an external broker"
        yield (*section, "mqttServerInternal"), f"got {bus.mqtt_server_internal}, want tcp", hint
    if not is_loopback(where.rpartition(":")[0]) and not bus.mqtt_username:
        hint = "set it and mqttPassword, or listen on 127.0.0.1"
        yield (*section, "mqttUsername"), f"empty, and {bus.mqtt_server_internal} is open to the network", hint
    if bus.mqtt_username and (":" in bus.mqtt_username or not bus.mqtt_username.isprintable()):
        yield (*section, "mqttUsername"), "has a colon or a control character", "the internal broker takes none"
    if bus.mqtt_username and not bus.mqtt_password:
        yield (*section, "mqttPassword"), "empty, but mqttUsername is set", "set a password"
    length = len(bytes(config.internal_broker / SOCKET))
    if length > SOCKET_PATH_LIMIT:
        text = f"too long by {length - SOCKET_PATH_LIMIT} bytes for the internal broker's socket in it"
        yield ("modules", "edged", "rootDirectory"), text, "choose a shorter path"


def _service_bus(config: EdgeCoreConfig) -> Iterator[Broken]:
    """Check that a certificate has a key: there is no way back to plain HTTP."""
    bus, section = config.modules.service_bus, ("modules", "serviceBus")
    if bus.enable and bool(bus.tls_cert_file) != bool(bus.tls_private_key_file):
        missing = "tlsPrivateKeyFile" if bus.tls_cert_file else "tlsCertFile"
        yield (*section, missing), "is empty, but its counterpart is set", "set both, or none for plain HTTP"


def _kubelet_settings(config: EdgeCoreConfig) -> Iterator[Broken]:
    """Check thresholds and periods as the kubelet's validation does."""
    kubelet = config.modules.edged.tailored_kubelet_config
    section = ("modules", "edged", "tailoredKubeletConfig")
    for key, written in (("evictionHard", kubelet.eviction_hard), ("evictionSoft", kubelet.eviction_soft)):
        graces = dict.fromkeys(written, 0.0)
        try:
            parse_thresholds({}, written, graces, kubelet.eviction_minimum_reclaim)
        except ThresholdError as error:
            yield (*section, key), str(error), ""
    for signal in sorted(kubelet.eviction_soft.keys() - kubelet.eviction_soft_grace_period.keys()):
        yield (*section, "evictionSoft"), f"{signal} has no grace period", "name it in evictionSoftGracePeriod too"
    periods = (
        ("shutdownGracePeriod", kubelet.shutdown_grace_period),
        ("shutdownGracePeriodCriticalPods", kubelet.shutdown_grace_period_critical_pods),
    )
    for key, period in periods:
        if 0 < period < 1:
            yield (*section, key), f"got {period:g} s, want 0s or at least 1s", ""
    if kubelet.shutdown_grace_period_critical_pods > kubelet.shutdown_grace_period:
        text = "got more than shutdownGracePeriod, of which it is a part"
        yield (*section, "shutdownGracePeriodCriticalPods"), text, ""
    high, low = kubelet.image_gc_high_threshold_percent, kubelet.image_gc_low_threshold_percent
    if low >= high:
        path = (*section, "imageGCLowThresholdPercent")
        yield path, f"got {low}, want less than imageGCHighThresholdPercent, which is {high}", ""


def _broken(config: EdgeCoreConfig, document: ConfigDocument) -> list[Problem]:
    return [
        Problem(path=join(path), text=what, hint=hint, line=document.line_of(path))
        for path, what, hint in broken_rules(config)
    ]


def _dangers(
    config: EdgeCoreConfig, document: ConfigDocument, without_effect: list[Remark]
) -> tuple[list[Remark], list[Problem]]:
    """Return the warnings of dangerous combinations, and of combinations that make the file unusable."""
    told: list[Remark] = []
    fatal: list[Problem] = []
    for each in dangers(config, document.value, [remark.path for remark in without_effect]):
        path, line = join(each.path), document.line_of(each.path)
        if each.fatal:
            fatal.append(Problem(path=path, text=each.text, hint=each.hint, line=line, check=each.check))
        else:
            told.append(Remark(path=path, text=each.text, hint=each.hint, line=line, check=each.check))
    return told, fatal


def _unreadable(source: str, text: str, hint: str) -> ConfigError:
    return ConfigError(source, (Problem(path="", text=text, hint=hint),))
