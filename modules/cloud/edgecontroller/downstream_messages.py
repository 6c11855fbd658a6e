"""The messages to nodes that follow from a change of an object (docs/protocol.md, "Downstream")."""

from collections.abc import Iterable
from typing import Final

import msgspec

from beehive.names import Operation
from beehive.resource import NULL_NAMESPACE, Resource
from beehive.whole_numbers import whole_number
from modules.apimachinery.kinds import (
    JsonObject,
    ObjectKey,
    is_being_deleted,
    uid_of,
    version_of,
    wire_namespace,
)
from modules.cloud.devices import KEY_NAMES as DEVICES
from modules.cloud.storage.object_storage import EventType, ObjectEvent

SENT_BY_WATCH: Final = ("Service", "Endpoints", "EndpointSlice", "Namespace")
"""Kinds that a node gets only when it watches them, and so it is with a cluster's other kinds. Without a watch it gets
its pods, its Node, CSIDrivers, devices, and the objects that its pods refer to.
"""

_OPERATIONS = {
    EventType.ADDED: Operation.INSERT,
    EventType.MODIFIED: Operation.UPDATE,
    EventType.DELETED: Operation.DELETE,
}
_FIRST_AS_UPDATE = ("Secret", "Node")
_SENT_TO_HOLDERS = (
    "ConfigMap", "Secret", "PersistentVolumeClaim", "PersistentVolume", "VolumeAttachment", "CSIDriver", *SENT_BY_WATCH,
)  # fmt: skip
"""KubeEdge sends only configmaps and secrets; a node that waits for a volume must repeat its query there."""


def is_sent_by_watch(kind: str) -> bool:
    """Return whether nodes get a kind only when they watch it; with its name as in keys."""
    return kind in SENT_BY_WATCH or is_other(kind)


def is_other(kind: str) -> bool:
    """Return whether a kind is neither a device nor one of the kinds that edgecontroller knows from the start."""
    return "." in kind and kind not in DEVICES


class DownstreamMessage(msgspec.Struct, frozen=True):
    """A message to one node, without id and time."""

    node: str
    operation: Operation
    key: ObjectKey
    content: JsonObject | list[JsonObject]
    version: str
    source: str = ""
    """The module in whose name it is sent; empty: by its kind."""
    uid: str = ""
    """The uid of its object; empty for a list."""
    number: int = 0
    """The version as edges compare it; 0 if it is no number."""

    @property
    def resource(self) -> str:
        """The cloud's resource string: `node/NODE/NAMESPACE/TYPE/NAME`."""
        resource_type, name = self.key.kind.partition(".")[0].lower(), self.key.name
        namespace = self.key.namespace or NULL_NAMESPACE
        if self.node and name and "/" not in self.node + namespace + name:
            return f"node/{self.node}/{namespace}/{resource_type}/{name}"
        return str(Resource.of(resource_type, wire_namespace(self.key), self.key.name).on_node(self.node))


def messages_for_event(event: ObjectEvent, holders: Iterable[str]) -> list[DownstreamMessage]:
    """Return the messages for one change.

    Args:
        event: the change.
        holders: the nodes that hold the object, if it is no pod or node.
    """
    if event.key.kind == "Pod":
        return _for_pod(event)
    if event.key.kind == "Node":
        return _for_node(event)
    if event.key.kind in _SENT_TO_HOLDERS or is_other(event.key.kind):
        operation = _OPERATIONS[event.type]
        if event.key.kind == "Secret" and event.type is EventType.ADDED:
            operation = Operation.UPDATE  # KubeEdge's secret handler has one case for both
        return [object_message(node, operation, event.key, event.new) for node in holders]
    return []


def object_message(node: str, operation: Operation, key: ObjectKey, obj: JsonObject) -> DownstreamMessage:
    """Return the message with an object, or its deletion, for a node."""
    version = version_of(obj)
    return DownstreamMessage(node, operation, key, obj, version, "", uid_of(obj), whole_number(version) or 0)


def present_message(node: str, key: ObjectKey, obj: JsonObject, *, has_older: bool) -> DownstreamMessage:
    """Return the message with an object that a node lacks: an insert, or an update if it has an older version."""
    is_update = has_older or key.kind in _FIRST_AS_UPDATE or is_being_deleted(obj)
    return object_message(node, Operation.UPDATE if is_update else Operation.INSERT, key, obj)


def deletion_of_unknown(node: str, key: ObjectKey, uid: str = "") -> DownstreamMessage:
    """Return the deletion of an object that is not stored, by its name and perhaps its uid."""
    meta = {"name": key.name, "namespace": key.namespace} | ({"uid": uid} if uid else {})
    content = {"metadata": {name: value for name, value in meta.items() if value}}
    return DownstreamMessage(node, Operation.DELETE, key, content, "", uid=uid)


def _for_pod(event: ObjectEvent) -> list[DownstreamMessage]:
    """Return the message for a changed pod. Changes of the status alone are sent, too.

    KubeEdge's isPodUpdated is meant to omit them. But it compares metadata, and an API server records the time of each
    status in `managedFields`, so a recorded cloud echoes every status. A Go edge needs the echo: while the pod that it
    was last sent has another status than it reported, its kubelet reconciles the pod every ten seconds
    (needsReconcile).
    """
    node = (event.new.get("spec") or {}).get("nodeName")
    if not node:
        return []
    operation = _OPERATIONS[event.type]
    if event.old is not None and not (event.old.get("spec") or {}).get("nodeName"):
        operation = Operation.INSERT
    elif event.type is EventType.ADDED and is_being_deleted(event.new):
        operation = Operation.UPDATE
    return [object_message(node, operation, event.key, event.new)]


def _for_node(event: ObjectEvent) -> list[DownstreamMessage]:
    if event.type is EventType.DELETED:
        gone = object_message(event.key.name, Operation.DELETE, event.key, event.new)
        return [msgspec.structs.replace(gone, content={"metadata": {"name": event.key.name, "uid": gone.uid}})]
    return [object_message(event.key.name, Operation.UPDATE, event.key, event.new)]
