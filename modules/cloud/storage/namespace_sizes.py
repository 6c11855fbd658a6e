"""How much memory the objects of each namespace take."""

from collections import Counter
from typing import Final

from modules.apimachinery.kinds import ObjectKey
from modules.apimachinery.limits import memory_of

_LEAST: Final = 2048
"""Bytes of memory of the smallest object: its keys, its indexes, and its last change."""
_EVENT: Final = "Event"
"""Has a limit of its own."""


def counts(key: ObjectKey) -> bool:
    """Return whether an object counts for its namespace."""
    return bool(key.namespace) and key.kind != _EVENT


class NamespaceSizes:
    """The memory that the objects of each namespace take, about; Events are left out."""

    def __init__(self) -> None:
        self._of_object: dict[ObjectKey, int] = {}
        self._of_namespace = Counter[str]()

    def of(self, namespace: str) -> int:
        """Return the bytes of a namespace."""
        return self._of_namespace[namespace]

    def put(self, key: ObjectKey, text: bytes) -> None:
        """Take a stored object, as JSON."""
        if key in self._of_object or counts(key):
            size = _LEAST + memory_of(text)
            self._of_namespace[key.namespace] += size - self._of_object.get(key, 0)
            self._of_object[key] = size

    def remove(self, key: ObjectKey) -> None:
        """Take an object that is removed."""
        size = self._of_object.pop(key, 0)
        if size:
            self._of_namespace[key.namespace] -= size
            if not self._of_namespace[key.namespace]:
                del self._of_namespace[key.namespace]
