"""kubectl's verbs as messages to edgecontroller, from cloudcore's command line by its module `control`."""

from enum import StrEnum
from typing import Any

import msgspec

from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.errors import ApiError, BadRequestError
from modules.cloud.apiserver.kinds import JsonObject, ObjectKey, key_for, key_of, kind_called
from modules.cloud.apiserver.manifests import items_of

SOURCE = "control"
"""`route.source` of commands, and the group that receives every change of an object."""
RESOURCE = "cloudcore/objects"


class Verb(StrEnum):
    """`route.operation` of a command."""

    APPLY = "apply"
    GET = "get"
    DELETE = "remove"
    CALL = "call"
    """One of the Kubernetes API's verbs; see `api_calls`."""
    CHANGED = "changed"
    """To `control`: a changed object, as `ObjectChanged`."""


class Apply(msgspec.Struct, frozen=True):
    """The command to create or update objects by manifests."""

    documents: list[Any]
    namespace: str = "default"
    """The namespace of documents without one."""


class Get(msgspec.Struct, frozen=True):
    """The command to read objects."""

    kind: str
    name: str = ""
    """Empty: all objects."""
    namespace: str | None = "default"
    """None: all namespaces."""


class Delete(msgspec.Struct, frozen=True):
    """The command to delete one object."""

    kind: str
    name: str
    namespace: str = "default"
    grace: int | None = None
    """A pod's grace period in seconds; None: its spec's."""


class CommandItem(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result of a command for one object: the object and the outcome, or an error."""

    object: JsonObject | None = None
    outcome: str = ""
    error: str = ""
    unchanged_for: float = 0.0
    """Of `get`: seconds since the object's last change."""


class CommandReply(msgspec.Struct, frozen=True):
    """The reply to a command."""

    items: list[CommandItem]


class ObjectChanged(msgspec.Struct, frozen=True):
    """A change of an object, for watches of the command line."""

    change: str
    """ADDED, MODIFIED or DELETED."""
    object: JsonObject


def apply(cluster: Cluster, command: Apply) -> CommandReply:
    """Apply each document, also after a refused one, as kubectl does."""
    return CommandReply([_apply_one(cluster, document, command.namespace) for document in items_of(command.documents)])


def _apply_one(cluster: Cluster, document: Any, namespace: str) -> CommandItem:
    try:
        obj, outcome = cluster.apply(_in_namespace(document, namespace))
    except ApiError as error:
        return CommandItem(error=str(error))
    return CommandItem(obj, outcome)


def _in_namespace(document: Any, namespace: str) -> Any:
    """Return the document with a namespace; malformed documents, which are refused later, stay unchanged."""
    if not isinstance(document, dict) or not isinstance(document.get("metadata"), dict):
        return document
    return {**document, "metadata": {"namespace": namespace, **document["metadata"]}}


def get(cluster: Cluster, command: Get) -> CommandReply:
    """Return the selected objects, or an error item when the named one does not exist."""
    try:
        kind = kind_called(command.kind)
        if command.name:
            cluster.storage.get(key := key_for(kind, command.namespace or "", command.name))
            return CommandReply([_read(cluster, key)])
    except ApiError as error:
        return CommandReply([CommandItem(error=str(error))])
    namespace = command.namespace if kind.namespaced else None
    return CommandReply([_read(cluster, key_of(obj)) for obj in cluster.storage.list(kind, namespace)])


def _read(cluster: Cluster, key: ObjectKey) -> CommandItem:
    return CommandItem(cluster.storage.find(key), unchanged_for=round(cluster.storage.unchanged_for(key), 3))


def delete(cluster: Cluster, command: Delete) -> CommandReply:
    """Delete the named object."""
    try:
        if command.grace is not None and command.grace < 0:
            raise BadRequestError("the grace period is a number of seconds, 0 or more")
        key = key_for(kind_called(command.kind), command.namespace, command.name)
        obj = cluster.delete(key, command.grace)
        gone = cluster.storage.find(key) is None
        return CommandReply([CommandItem(obj, "deleted" if gone else "is being deleted")])
    except ApiError as error:
        return CommandReply([CommandItem(error=str(error))])
