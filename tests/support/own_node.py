"""A node's directory for a process of its own: the process runtime, no fixed port."""

from pathlib import Path

import msgspec

from modules.processes.edgecore.config import EdgeCoreConfig
from modules.processes.edgecore.config.writing import render
from tests.support.ports import free_port

_replace = msgspec.structs.replace


def alone(config: EdgeCoreConfig) -> EdgeCoreConfig:
    """Return the configuration with a cloud where nobody listens: on the default port may be a person's own."""
    hub = config.modules.edge_hub
    hub = _replace(hub, websocket=_replace(hub.websocket, server="ws://127.0.0.1:1"))
    return _replace(config, modules=_replace(config.modules, edge_hub=hub))


def write_node(root: Path, cloud: str = "", *, all_modules: bool = False) -> None:
    """Write the configuration of a node, which `run --root` reads; without a cloud, or with one at a URL, and with all
    modules that need no other node, or those alone that are on by default.
    """
    config = EdgeCoreConfig.below(root)
    modules = config.modules
    kubelet = _replace(modules.edged.tailored_kubelet_config, read_only_port=0)
    edged = _replace(modules.edged, hostname_override="n1", allow_unisolated_root=True, tailored_kubelet_config=kubelet)
    hub = _replace(modules.edge_hub, enable=bool(cloud))
    if cloud:
        hub = _replace(hub, websocket=_replace(hub.websocket, server=cloud))
    modules = _replace(modules, edge_hub=hub, edged=edged)
    if all_modules:
        modules = _replace(
            modules,
            event_bus=_replace(
                modules.event_bus, enable=True, mqtt_mode=0, mqtt_server_internal=f"tcp://127.0.0.1:{free_port()}"
            ),
            meta_manager=_replace(
                modules.meta_manager,
                meta_server=_replace(modules.meta_manager.meta_server, enable=True, server=f"127.0.0.1:{free_port()}"),
            ),
            service_bus=_replace(modules.service_bus, enable=True, port=free_port()),
        )
    root.mkdir(parents=True, exist_ok=True)
    (root / "edgecore.yaml").write_text(render(_replace(config, modules=modules)))
