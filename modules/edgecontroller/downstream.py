"""From a change in the store to the messages that the edge must get (spec/07 §2).

Decisions only: what is returned is sent by the module.
"""

from collections.abc import Iterable

import msgspec

from beehive.names import Operation
from beehive.resource import Resource
from modules.edgecontroller.kinds import (
    JsonObject,
    ObjectKey,
    is_being_deleted,
    kind_named,
    uid_of,
    version_of,
    wire_namespace,
)
from modules.edgecontroller.store import Change, ObjectEvent

_OPERATIONS = {
    Change.ADDED: Operation.INSERT,
    Change.MODIFIED: Operation.UPDATE,
    Change.DELETED: Operation.DELETE,
}
_SENT_TO_HOLDERS = ("ConfigMap", "Secret", "PersistentVolumeClaim", "PersistentVolume", "VolumeAttachment", "CSIDriver")
"""KubeEdge sends configmaps and secrets; a node that waits for storage has to ask it again and again."""


class Downstream(msgspec.Struct, frozen=True):
    """One message to one node, before it has an id and a time."""

    node: str
    operation: Operation
    key: ObjectKey
    content: JsonObject
    version: str

    @property
    def resource(self) -> str:
        """The cloud's resource string: `node/NODE/NAMESPACE/TYPE/NAME`."""
        kind = kind_named(self.key.kind)
        return str(Resource.of(kind.singular, wire_namespace(self.key), self.key.name).on_node(self.node))


def for_event(event: ObjectEvent, holders: Iterable[str]) -> list[Downstream]:
    """The messages for one change.

    Args:
        event: the change.
        holders: for what nodes hold beside pods, those that hold it.
    """
    if event.key.kind == "Pod":
        return _for_pod(event)
    if event.key.kind == "Node":
        return _for_node(event)
    if event.key.kind in _SENT_TO_HOLDERS:
        operation = _OPERATIONS[event.change]
        if event.key.kind == "Secret" and event.change is Change.ADDED:
            operation = Operation.UPDATE  # KubeEdge's secret handler has one case for both
        return [message(node, operation, event.key, event.new) for node in holders]
    return []


def message(node: str, operation: Operation, key: ObjectKey, obj: JsonObject) -> Downstream:
    """The message that brings an object, or its deletion, to a node."""
    return Downstream(node, operation, key, obj, version_of(obj))


def deletion_of_unknown(node: str, key: ObjectKey, uid: str = "") -> Downstream:
    """The deletion of an object that the cloud does not know, of which only the name (and perhaps the uid)
    is known.
    """
    meta = {"name": key.name, "namespace": key.namespace} | ({"uid": uid} if uid else {})
    return Downstream(node, Operation.DELETE, key, {"metadata": {k: v for k, v in meta.items() if v}}, "")


def _for_pod(event: ObjectEvent) -> list[Downstream]:
    """Every change goes down, a mere status too, although KubeEdge's isPodUpdated means to keep those back.

    It compares metadata, and an API server notes the time of each status in `managedFields`: the recorded cloud echoes
    every status that it was sent. A Go edge needs that: while the pod it was last sent has another status than the
    one it reported, its kubelet reconciles the pod every ten seconds (needsReconcile).
    """
    node = (event.new.get("spec") or {}).get("nodeName")
    if not node:
        return []
    operation = _OPERATIONS[event.change]
    if event.old is not None and not (event.old.get("spec") or {}).get("nodeName"):
        operation = Operation.INSERT
    elif event.change is Change.ADDED and is_being_deleted(event.new):
        operation = Operation.UPDATE
    return [message(node, operation, event.key, event.new)]


def _for_node(event: ObjectEvent) -> list[Downstream]:
    if event.change is Change.DELETED:
        skeleton = {"metadata": {"name": event.key.name, "uid": uid_of(event.new)}}
        return [Downstream(event.key.name, Operation.DELETE, event.key, skeleton, version_of(event.new))]
    return [message(event.key.name, Operation.UPDATE, event.key, event.new)]
