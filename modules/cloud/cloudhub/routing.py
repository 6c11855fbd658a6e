"""The destination of a message from a node: KubeEdge's dispatcher, in its order, as an allow-list.

KubeEdge passes on unknown messages with the source and operation that the node wrote. Here a node can send only the
messages of KubeEdge's edges, and no internal message of the cloud's bus: commands, connect events, acknowledgements,
calls of dynamiccontroller. The source of a passed message is the node of the connection.
"""

import re
from enum import StrEnum

from beehive.message import Message, Route
from beehive.names import Group, ModuleName, Operation, ResourceType

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
"""The resource of a query for the certificate of the Kubernetes API's CA."""


class Destination(StrEnum):
    """How cloudhub handles a message from a node."""

    KEEPALIVE = "refresh the session"
    WAITER = "resolve a waiting request"
    ACKNOWLEDGE = "acknowledge a delivery"
    LOG = "log it: not an acknowledgement"
    ROUTER = "send to the router"
    TASKS = "broadcast to the task manager"
    CA = "answer with the CA certificate"
    DISCARD = "discard: an echo of the cloud's own"
    NOTHING = "nothing: an edge is stopping"
    DYNAMIC = "send to the dynamic controller"
    DEVICES = "broadcast to the device controller"
    OBJECTS = "broadcast to the edge controller"
    REFUSED = "refuse: nothing that an edge says"


GROUPS = {
    Destination.OBJECTS: Group.EDGECONTROLLER,
    Destination.DEVICES: Group.DEVICECONTROLLER,
    Destination.DYNAMIC: Group.DYNAMICCONTROLLER,
    Destination.TASKS: Group.TASKMANAGER,
    Destination.ROUTER: Group.ROUTER,
}
"""The controllers that handle messages of nodes."""

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


_APPLICATIONS = ("null", "watchapp/sync")
"""Resources of a metaserver's messages: API requests, and its list of watches."""
_OBJECT_GROUPS = (Group.META, Group.RESOURCE)
OBJECT_REQUESTS = frozenset(
    {
        (ResourceType.NODE, Operation.INSERT),
        (ResourceType.NODE, Operation.QUERY),
        (ResourceType.NODE, Operation.UPDATE),
        (ResourceType.NODEPATCH, Operation.PATCH),
        (ResourceType.NODESTATUS, Operation.INSERT),
        (ResourceType.NODESTATUS, Operation.UPDATE),
        (ResourceType.POD, Operation.INSERT),
        (ResourceType.POD, Operation.DELETE),
        (ResourceType.PODPATCH, Operation.PATCH),
        (ResourceType.PODSTATUS, Operation.UPDATE),
        (ResourceType.LEASE, Operation.INSERT),
        (ResourceType.LEASE, Operation.QUERY),
        (ResourceType.LEASE, Operation.UPDATE),
        (ResourceType.CONFIGMAP, Operation.QUERY),
        (ResourceType.SECRET, Operation.QUERY),
        (ResourceType.PERSISTENT_VOLUME, Operation.QUERY),
        (ResourceType.PERSISTENT_VOLUME_CLAIM, Operation.QUERY),
        (ResourceType.VOLUME_ATTACHMENT, Operation.QUERY),
        (ResourceType.SERVICE, Operation.QUERY),
        (ResourceType.ENDPOINTS, Operation.QUERY),
        (ResourceType.DEVICE, Operation.QUERY),
        (ResourceType.DEVICE_MODEL, Operation.QUERY),
        (ResourceType.SERVICE_ACCOUNT_TOKEN, Operation.QUERY),
        (ResourceType.CERTIFICATE_SIGNING_REQUEST, Operation.INSERT),
        (ResourceType.CERTIFICATE_SIGNING_REQUEST, Operation.QUERY),
        (ResourceType.EVENT, Operation.INSERT),
        (ResourceType.EVENT, Operation.UPDATE),
        (ResourceType.EVENT, Operation.PATCH),
    }
)
"""Resource type and operation of an edge's queries and reports (KubeEdge's upstream controller)."""

_ASKING = (Operation.QUERY, Operation.INSERT, Operation.UPDATE, Operation.PATCH, Operation.DELETE)
_USER = "system:node:"


def destination_of(message: Message) -> Destination:
    """Return the destination of a message from a node, with its resource as the node sent it."""
    route = message.route
    if route.operation == Operation.KEEPALIVE:
        return Destination.KEEPALIVE
    if not route.operation and _is_empty(route):
        return Destination.NOTHING
    if route.group == Group.USER and (route.operation == Operation.UPLOAD or _is_failed_call(message)):
        return Destination.ROUTER  # first: nobody else may read an upload, whose values are not counted
    if _VOLUME.match(route.resource):
        return Destination.WAITER
    if route.operation in _BY_OPERATION:
        return _BY_OPERATION[route.operation]
    if route.resource == CA_RESOURCE:
        return Destination.CA
    destination = _BY_SOURCE.get(route.source, Destination.OBJECTS)
    return destination if _is_allowed(message, destination) else Destination.REFUSED


def _is_empty(route: Route) -> bool:
    """Return whether a message says nothing: KubeEdge's edgehub reads it from its closed inbox, and sends it, when
    edgecore stops.
    """
    return not (route.source or route.group or route.operation or route.resource)


def _is_failed_call(message: Message) -> bool:
    """Return whether KubeEdge's servicebus reports with this message that a call has failed: it writes no operation, so
    KubeEdge's cloud passes it to no module, and the caller waits until the time is over.
    """
    route = message.route
    is_answer = route.source == ModuleName.SERVICEBUS and bool(message.parent_id)
    return is_answer and route.group == Group.USER and not route.operation


def _is_allowed(message: Message, destination: Destination) -> bool:
    route = message.route
    if destination is Destination.DYNAMIC:
        return route.resource in _APPLICATIONS
    if destination is Destination.OBJECTS:
        asked = (message.subject.type, route.operation)
        return route.group in _OBJECT_GROUPS and asked in OBJECT_REQUESTS
    return True


def resource_type_of(message: Message) -> str:
    """Return the resource type of a refused message, for its counter; `other` for types that no edge sends."""
    kind = message.subject.type
    return kind if kind in {known for known, _ in OBJECT_REQUESTS} else "other"


def wants_answer(message: Message) -> bool:
    """Return whether the sender may wait for a response; the wire does not say whether it does."""
    return message.header.sync or message.route.operation in _ASKING


def on_node(message: Message, node: str) -> Message:
    """Return the message as the cloud's modules receive it: the resource has the prefix of the connection's node, and
    the source is the node's Kubernetes user, which is no module's name. An answer of servicebus is always an upload.
    """
    was = message.route
    operation = Operation.UPLOAD if was.group == Group.USER and _is_failed_call(message) else was.operation
    route = Route(f"{_USER}{node}", was.destination, was.group, operation, f"node/{node}/{was.resource}")
    return Message(message.header, route, message.content)


def node_of(message: Message) -> str:
    """Return the node that a controller's message goes to; "" when its resource names no node."""
    if message.route.group == Group.USER:  # the rest is a topic, a URL or a path, perhaps with empty parts
        tokens = message.route.resource.split("/", 2)
        return tokens[1] if len(tokens) == 3 and tokens[0] == "node" else ""
    return message.subject_on_cloud.node


def is_deletion_of_node(message: Message) -> bool:
    """Return whether a message reports that a Node was deleted."""
    if message.route.group == Group.USER:
        return False
    resource = message.subject_on_cloud
    return resource.type == ResourceType.NODE and message.route.operation == Operation.DELETE
