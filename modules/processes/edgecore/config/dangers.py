"""Finds combinations of settings that are dangerous; `config check`, `run` and `doctor` warn of them. Pure.

Each has a name, which ends the message. A protection that the file demands and this edgecore lacks is an error, because
a warning could go unnoticed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from modules.processes.common.loopback import is_loopback

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from modules.processes.edgecore.config.model import EdgeCoreConfig

_KUBELET: Final = ("modules", "edged", "tailoredKubeletConfig")
_META_SERVER: Final = ("modules", "metaManager", "metaServer")
_GATE: Final = "requireauthorization"
CHECKS: Final = {
    "plain-websocket": "the websocket is `ws://` to another host: nobody proves who he is, all can be read",
    "process-runtime-with-cloud": "the process runtime, which isolates nothing, runs what another host sends",
    "unisolated-root": "`allowUnisolatedRoot` with the process runtime and a cloud without TLS; without the key "
    "`edgecore run` refuses that to root",
    "open-read-only-port": "`address` lets other machines reach `readOnlyPort`, which asks for no credentials",
    "exec-on-read-only-port": "`streamingOnReadOnlyPort`: commands in containers without credentials",
    "open-metaserver": "the metaserver, which asks for no credentials, can be reached by other machines",
    "open-metaserver-secrets": "`serveSecrets`: the metaserver, which asks for no credentials, serves secrets",
    "open-servicebus": "the servicebus, which asks for no credentials, can be reached by other machines",
    "metaserver-without-tls": "keys of KubeEdge's for its TLS and tokens are set and have no effect",
    "authorization-without-effect": "the feature gate `requireAuthorization`: an error when the metaserver is enabled",
}
"""Description of every check, by name."""

_TLS_KEYS: Final = (
    "tlsCaFile", "tlsCertFile", "tlsPrivateKeyFile", "apiAudiences", "serviceAccountKeyFiles", "serviceAccountIssuers",
)  # fmt: skip


class Danger(msgspec.Struct, frozen=True):
    """A dangerous combination."""

    check: str
    """Name of the check."""
    path: tuple[str, ...]
    """Setting to change."""
    text: str
    hint: str
    fatal: bool = False
    """Whether the file cannot be used."""


def dangers(config: EdgeCoreConfig, value: object = None, without_effect: Collection[str] = ()) -> Iterator[Danger]:
    """Yield every danger of a configuration.

    Args:
        config: the settings.
        value: the file's content, for keys that this edgecore does not have.
        without_effect: dotted paths of keys that are set and have no effect.
    """
    yield from _link(config)
    yield from _runtime(config)
    yield from _port(config)
    yield from _meta_server(config, {path.lower() for path in without_effect})
    yield from _service_bus(config)
    yield from _authorization(config, value)


def is_unisolated_root(config: EdgeCoreConfig, user: int, *, has_file: bool = True) -> bool:
    """Return whether any server that answers on the cloud's address would be root here: with the process runtime, and
    by a privileged pod with others, which nobody has chosen who has no file.

    Args:
        config: the settings.
        user: effective user id of the process.
        has_file: whether they are from a file.
    """
    plain = config.modules.edge_hub.enable and config.websocket_url.startswith("ws:")
    is_open = config.uses_process_runtime or not has_file
    return user == 0 and config.modules.edged.enable and is_open and plain


def _link(config: EdgeCoreConfig) -> Iterator[Danger]:
    far = (host for scheme, host in _clouds(config) if scheme == "ws" and not is_loopback(host))
    host = next(far, "") if config.modules.edge_hub.enable else ""
    if host:
        text = f"nothing proves who {host} is, and everybody on the way reads along, secrets included"
        hint = "`edgecore join` gets a certificate; then leave out ws://"
        yield Danger("plain-websocket", ("modules", "edgeHub", "websocket", "server"), text, hint)


def _runtime(config: EdgeCoreConfig) -> Iterator[Danger]:
    edged = config.modules.edged
    isolates_nothing = edged.enable and config.uses_process_runtime
    is_far = not all(is_loopback(host) for _, host in _clouds(config))
    if isolates_nothing and config.modules.edge_hub.enable and is_far:
        text = "the process runtime isolates nothing: each pod of this cloud can do what edgecore's user can"
        hint = "use embedded://oci or containerd, or a user of its own that may do nothing else"
        yield Danger("process-runtime-with-cloud", (*_KUBELET, "containerRuntimeEndpoint"), text, hint)
    if edged.allow_unisolated_root and is_unisolated_root(config, user=0):
        text = "as root, whoever answers on the cloud's address runs what it likes as root"
        path = ("modules", "edged", "allowUnisolatedRoot")
        yield Danger("unisolated-root", path, text, "for throw-away machines only")


def _port(config: EdgeCoreConfig) -> Iterator[Danger]:
    kubelet = config.modules.edged.tailored_kubelet_config
    if not kubelet.read_only_port:
        return
    if not is_loopback(kubelet.address):
        text = f"everybody who reaches {kubelet.address} reads pods and logs: the port asks for no credentials"
        yield Danger("open-read-only-port", (*_KUBELET, "address"), text, "127.0.0.1, or readOnlyPort: 0")
    if config.modules.edged.streaming_on_read_only_port:
        text = "everybody who reaches the port does what he likes in every container: it asks for no credentials"
        hint = "`edgecore exec` needs no port"
        yield Danger("exec-on-read-only-port", ("modules", "edged", "streamingOnReadOnlyPort"), text, hint)


def _meta_server(config: EdgeCoreConfig, without_effect: Collection[str]) -> Iterator[Danger]:
    server = config.modules.meta_manager.meta_server
    if not server.enable:
        return
    address = server.server.rpartition(":")[0]
    who = "every user and pod of this machine" if is_loopback(address) else f"everybody who reaches {address}"
    if not is_loopback(address):
        text = f"{who} reads what the node has, and writes with the node's rights: it asks for no credentials"
        yield Danger("open-metaserver", (*_META_SERVER, "server"), text, "127.0.0.1:10550")
    if server.serve_secrets:
        text = f"{who} reads the node's secrets: the metaserver asks for no credentials"
        yield Danger("open-metaserver-secrets", (*_META_SERVER, "serveSecrets"), text, "leave it out")
    for key in _TLS_KEYS:
        if ".".join((*_META_SERVER, key)).lower() in without_effect:
            text = "has no effect: the metaserver speaks plain HTTP and asks for no credentials"
            yield Danger("metaserver-without-tls", (*_META_SERVER, key), text, "listen on 127.0.0.1 only")


def _service_bus(config: EdgeCoreConfig) -> Iterator[Danger]:
    bus = config.modules.service_bus
    if bus.enable and not is_loopback(bus.server):
        text = f"everybody who reaches {bus.server} asks the cloud in the node's name: it asks for no credentials"
        yield Danger("open-servicebus", ("modules", "serviceBus", "server"), text, "127.0.0.1")


def _authorization(config: EdgeCoreConfig, value: object) -> Iterator[Danger]:
    """Check KubeEdge's feature gate, for authentication and authorization in its metaserver."""
    path = _demanded(value)
    if not path:
        return
    served = config.modules.meta_manager.meta_server.enable
    text = "is demanded and cannot be had: this metaserver asks for no credentials"
    hint = "leave the gate out to go without, or set modules.metaManager.metaServer.enable: false"
    yield Danger("authorization-without-effect", path, text, hint if served else "the metaserver is off", fatal=served)


def _demanded(value: object) -> tuple[str, ...]:
    """Return the path of the gate in a file that enables it; keys in any case, as they are read."""
    if not isinstance(value, dict):
        return ()
    for name, gates in value.items():
        if name.lower() == "featuregates" and isinstance(gates, dict):
            for gate, wanted in gates.items():
                if str(gate).lower() == _GATE and wanted is True:
                    return name, str(gate)
    return ()


def _clouds(config: EdgeCoreConfig) -> Iterator[tuple[str, str]]:
    """Yield scheme and host of each cloudcore's websocket."""
    for url in config.websocket_urls:
        scheme, _, rest = url.partition("://")
        yield scheme, rest.partition("/")[0].rpartition(":")[0]
