"""Tells cloudstream which port of a kubelet the Nodes have."""

from beehive.module import Module
from beehive.names import Group
from modules.apimachinery.kinds import JsonObject, kind_named
from modules.cloud.messages import KUBELET_PORTS, KUBELET_PORTS_RESOURCE
from modules.cloud.storage.object_storage import EventType, ObjectEvent

_NODE = kind_named("Node").name


class KubeletPorts:
    """The kubelet's ports in the statuses of Nodes that are new, or have another port than before.

    Args:
        module: edgecontroller.
    """

    def __init__(self, module: Module) -> None:
        self._module = module
        self.noted: dict[str, int] = {}
        """The ports that cloudstream has not been told yet, by node."""

    def observe(self, event: ObjectEvent) -> None:
        """Take note of a change."""
        if event.key.kind != _NODE or event.type is EventType.DELETED:
            return
        port = kubelet_port(event.new)
        if event.old is None or port != kubelet_port(event.old):
            self.noted[event.key.name] = port

    def notify(self) -> None:
        """Tell cloudstream, if it is part of this process, the ports that were noted since the last call."""
        noted, self.noted = self.noted, {}
        if self._module.hive.members(Group.CLOUDSTREAM):
            message = self._module.message(KUBELET_PORTS_RESOURCE, KUBELET_PORTS, noted)
            self._module.broadcast(Group.CLOUDSTREAM, message)


def kubelet_port(node: JsonObject) -> int:
    """Return the kubelet's port in a Node's status; 0 if it has no port."""
    endpoints = (node.get("status") or {}).get("daemonEndpoints") or {}
    port = (endpoints.get("kubeletEndpoint") or {}).get("Port")
    return port if isinstance(port, int) else 0
