"""What the Kubernetes API needs of the stream tunnels."""

from typing import Protocol

from modules.cloud.apiserver.endpoints.pod_proxies import PodServers
from modules.cloud.apiserver.endpoints.pod_streams import NodeServer


class NodeServers(NodeServer, PodServers, Protocol):
    """The servers of nodes, and the ports of their pods."""
