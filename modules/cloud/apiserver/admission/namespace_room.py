"""The memory that one namespace may take, so that no user fills the API server's, or the disk."""

from typing import Final

import msgspec

from modules.apimachinery.api_errors import ForbiddenError
from modules.apimachinery.kinds import JsonObject, ObjectKey
from modules.apimachinery.limits import memory_of
from modules.cloud.storage.namespace_sizes import counts
from modules.cloud.storage.object_storage import Storage

LEAST: Final = 256 * 1024 * 1024
"""Bytes of memory that each namespace may take."""
BYTES_OF_NODE: Final = 512 * 1024
"""Bytes for each node that may be connected, if that is more."""

_GIVEN: Final = ("labels", "annotations", "finalizers", "ownerReferences")


def room_of_namespaces(nodes: int) -> int:
    """Return how many bytes of memory the objects of a namespace may take.

    Args:
        nodes: that may be connected.
    """
    return max(LEAST, nodes * BYTES_OF_NODE)


def check_room(storage: Storage, most: int, key: ObjectKey, new: JsonObject, live: JsonObject | None) -> None:
    """Check that a namespace has room for an object, or that the object does not grow.

    Args:
        storage: has the objects.
        most: bytes of memory that a namespace may take.
        key: the object's.
        new: the object.
        live: its stored state; None: it is created.

    Raises:
        ForbiddenError: there is no room.
    """
    taken = storage.sizes.of(key.namespace) if counts(key) else 0
    if taken < most or (live is not None and _size_of(new) <= _size_of(live)):
        return
    kind = storage.kinds.of_object(new)
    why = f"exceeded quota: memory of the namespace's objects, used: {taken}, limited: {most}"
    raise ForbiddenError(kind.plural, key.name, why, kind.api_group)


def _size_of(obj: JsonObject) -> int:
    """Return the size of what a user gives an object."""
    metadata = {name: obj["metadata"].get(name) for name in _GIVEN}
    return memory_of(msgspec.json.encode({**obj, "metadata": metadata}))
