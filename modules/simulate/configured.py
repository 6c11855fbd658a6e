"""A simulated node's settings as a configuration file would have them, so that its traces can be replayed."""

from typing import Any

from edged.settings import EdgedSettings
from modules.edgecore.config import EdgeCoreConfig
from modules.edgecore.config.edged import Edged
from modules.edgecore.config.edgehub import EdgeHub, WebSocket
from modules.edgecore.config.kubelet import TailoredKubeletConfig
from modules.edgecore.config.model import Modules
from modules.edgecore.tracing import configuration


def configuration_of(edged: EdgedSettings) -> dict[str, Any]:
    """What the header of its trace says."""
    section = Edged(
        hostname_override=edged.node_name,
        root_directory=edged.root,
        node_ip=edged.node_ip,
        tailored_kubelet_config=TailoredKubeletConfig(pod_logs_dir=edged.pod_logs, read_only_port=edged.server_port),
    )
    hub = EdgeHub(websocket=WebSocket(server="ws://cloud.simulated:10000"))
    return configuration(EdgeCoreConfig(modules=Modules(edged=section, edge_hub=hub)))
