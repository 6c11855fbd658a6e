"""Rules between settings that are valid each by itself. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edged.eviction_api.thresholds import ThresholdError, parse_thresholds
from modules.edge.eventbus.internal_broker import SOCKET
from modules.processes.common.loopback import is_loopback
from modules.processes.edgecore.config.model import SOCKET_PATH_LIMIT, EdgeCoreConfig
from modules.processes.edgecore.config.names import INSIDE, NODE_NAME
from modules.processes.edgecore.config.value_kinds import UnfitError

if TYPE_CHECKING:
    from collections.abc import Iterator

Broken = tuple[tuple[str, ...], str, str]
"""Path of the setting to change, problem, remedy."""


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
