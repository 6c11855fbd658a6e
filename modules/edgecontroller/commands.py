"""What people and programs ask of the stub beside the edges: kubectl's verbs, as messages to edgecontroller.

They come from module `control` (cloudcore's command line) as requests; what is answered is a `Result`.
"""

from enum import StrEnum
from typing import Any

import msgspec

from modules.edgecontroller.cluster import Cluster
from modules.edgecontroller.errors import ApiError, BadRequestError
from modules.edgecontroller.kinds import JsonObject, ObjectKey, key_for, key_of, kind_called
from modules.edgecontroller.manifests import items_of

SOURCE = "control"
"""`route.source` of commands, and the group that gets every change of the store, if it has members."""
RESOURCE = "cloudcore/objects"


class Verb(StrEnum):
    """`route.operation` of a command."""

    APPLY = "apply"
    GET = "get"
    DELETE = "remove"
    CALL = "call"
    """One of the Kubernetes API's verbs, as `edgecontroller.api_calls` has them."""
    CHANGED = "changed"
    """The other way: one change of the store, as `Changed`."""


class Apply(msgspec.Struct, frozen=True):
    """Make objects as these manifests want them."""

    documents: list[Any]
    namespace: str = "default"
    """Of documents that name none."""


class Get(msgspec.Struct, frozen=True):
    """Read objects."""

    kind: str
    name: str = ""
    """Empty: all."""
    namespace: str | None = "default"
    """None: all namespaces."""


class Delete(msgspec.Struct, frozen=True):
    """Delete one object."""

    kind: str
    name: str
    namespace: str = "default"
    grace: int | None = None
    """Seconds that a pod is given; None as its spec says."""


class Item(msgspec.Struct, frozen=True, omit_defaults=True):
    """One object that a command was about: the object and what was done, or why not."""

    object: JsonObject | None = None
    outcome: str = ""
    error: str = ""
    unchanged_for: float = 0.0
    """Of an object that was read: seconds since the cloud saw it change."""


class Result(msgspec.Struct, frozen=True):
    """The answer to a command."""

    items: list[Item]


class Changed(msgspec.Struct, frozen=True):
    """One change of the store."""

    change: str
    """ADDED, MODIFIED or DELETED."""
    object: JsonObject


def apply(cluster: Cluster, command: Apply) -> Result:
    """Applies each document; one that is refused does not keep the others from being applied (as kubectl)."""
    return Result([_apply_one(cluster, document, command.namespace) for document in items_of(command.documents)])


def _apply_one(cluster: Cluster, document: Any, namespace: str) -> Item:
    try:
        obj, outcome = cluster.apply(_in_namespace(document, namespace))
    except ApiError as error:
        return Item(error=str(error))
    return Item(obj, outcome)


def _in_namespace(document: Any, namespace: str) -> Any:
    """The document with a namespace, if it is of a form that can have one; what is not is refused later."""
    if not isinstance(document, dict) or not isinstance(document.get("metadata"), dict):
        return document
    return {**document, "metadata": {"namespace": namespace, **document["metadata"]}}


def get(cluster: Cluster, command: Get) -> Result:
    """The objects asked for; an error item when the one named is not there."""
    try:
        kind = kind_called(command.kind)
        if command.name:
            cluster.store.get(key := key_for(kind, command.namespace or "", command.name))
            return Result([_read(cluster, key)])
    except ApiError as error:
        return Result([Item(error=str(error))])
    namespace = command.namespace if kind.namespaced else None
    return Result([_read(cluster, key_of(obj)) for obj in cluster.store.list(kind, namespace)])


def _read(cluster: Cluster, key: ObjectKey) -> Item:
    return Item(cluster.store.find(key), unchanged_for=round(cluster.store.unchanged_for(key), 3))


def delete(cluster: Cluster, command: Delete) -> Result:
    """Deletes the object named."""
    try:
        if command.grace is not None and command.grace < 0:
            raise BadRequestError("the grace period is a number of seconds, 0 or more")
        key = key_for(kind_called(command.kind), command.namespace, command.name)
        obj = cluster.delete(key, command.grace)
        gone = cluster.store.find(key) is None
        return Result([Item(obj, "deleted" if gone else "is being deleted")])
    except ApiError as error:
        return Result([Item(error=str(error))])
