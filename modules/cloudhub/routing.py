"""Where a message from a node goes (spec/04 §3, in KubeEdge's order)."""

import re
from enum import Enum

from beehive.message import Message
from beehive.names import Group, ModuleName, Operation

_VOLUME = re.compile(r"^\w[-\w.+]*/volume/\w[-\w.+]*", re.ASCII)
_TASK_OPERATIONS = ("prepull", "upgrade", Operation.NODE_ACTION_STATUS)
_CLOUD_SOURCES = (
    ModuleName.CLOUDHUB,
    "cloudStream",
    ModuleName.DEVICECONTROLLER,
    ModuleName.EDGECONTROLLER,
    ModuleName.SYNCCONTROLLER,
)
CA_RESOURCE = "k8s/ca.crt"
"""An edge asks for the certificate of the Kubernetes API's CA under this resource."""


class Destination(Enum):
    """What cloudhub does with a message from a node."""

    KEEPALIVE = "refresh the session"
    WAITER = "resolve a waiting request"
    ACKNOWLEDGE = "acknowledge a delivery"
    LOG = "log it: not an acknowledgement"
    ROUTER = "send to the router"
    TASKS = "broadcast to the task manager"
    CA = "answer with the CA certificate"
    DISCARD = "discard: an echo of the cloud's own"
    DYNAMIC = "send to the dynamic controller"
    DEVICES = "broadcast to the device controller"
    OBJECTS = "broadcast to the edge controller"


_BY_OPERATION = {
    Operation.RESPONSE: Destination.ACKNOWLEDGE,
    Operation.ERROR: Destination.LOG,
    **dict.fromkeys(_TASK_OPERATIONS, Destination.TASKS),
}
_BY_SOURCE = {
    **dict.fromkeys(_CLOUD_SOURCES, Destination.DISCARD),
    ModuleName.METASERVER: Destination.DYNAMIC,
    ModuleName.DEVICETWIN: Destination.DEVICES,
}


def destination_of(message: Message) -> Destination:
    """Where a message from a node goes; its resource is as the node sent it."""
    route = message.route
    if route.operation == Operation.KEEPALIVE:
        return Destination.KEEPALIVE
    if _VOLUME.match(route.resource):
        return Destination.WAITER
    if route.operation in _BY_OPERATION:
        return _BY_OPERATION[route.operation]
    if route.operation == Operation.UPLOAD and route.group == Group.USER:
        return Destination.ROUTER
    if route.resource == CA_RESOURCE:
        return Destination.CA
    return _BY_SOURCE.get(route.source, Destination.OBJECTS)


def on_node(message: Message, node: str) -> Message:
    """The message as cloud modules get it: the resource prefixed with the node of the connection."""
    return message.with_route(resource=f"node/{node}/{message.route.resource}")
