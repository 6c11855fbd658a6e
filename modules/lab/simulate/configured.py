"""Makes the configuration of a simulated node's trace, so that the trace can be replayed."""

from typing import Any, Final

from edged.settings import EdgedSettings
from modules.processes.edgecore.config import EdgeCoreConfig
from modules.processes.edgecore.config.devices import EventBusOptions
from modules.processes.edgecore.config.edged import Edged
from modules.processes.edgecore.config.edgehub import EdgeHub, WebSocket
from modules.processes.edgecore.config.kubelet import TailoredKubeletConfig
from modules.processes.edgecore.config.model import Modules
from modules.processes.edgecore.config.section import plain

REPORT_EVENTS: Final = False
"""Whether simulated nodes send their events, which would hide more important messages in a log."""


def configuration_of(edged: EdgedSettings, *, mqtt: bool = False) -> dict[str, Any]:
    """Return the configuration for the header of a trace; `mqtt`: whether eventbus runs."""
    section = Edged(
        hostname_override=edged.node_name,
        root_directory=edged.root,
        node_ip=edged.node_ip,
        report_event=REPORT_EVENTS,
        tailored_kubelet_config=TailoredKubeletConfig(pod_logs_dir=edged.pod_logs, read_only_port=edged.server_port),
    )
    hub = EdgeHub(websocket=WebSocket(server="ws://cloud.simulated:10000"))
    bus = EventBusOptions(enable=mqtt)
    return plain(EdgeCoreConfig(modules=Modules(edged=section, edge_hub=hub, event_bus=bus)))
