"""The objects as the controllers read them."""

from typing import Protocol

from modules.cloud.apiserver.kinds import JsonObject, Kind, ObjectKey


class Lister(Protocol):
    """Reads objects, in the manner of client-go's listers. Returned objects must not be changed."""

    def find(self, key: ObjectKey) -> JsonObject | None:
        """Return an object, or None."""

    def list(self, kind: Kind, namespace: str | None = None) -> list[JsonObject]:
        """Return the objects of a kind, in all namespaces or in one, ordered by namespace and name."""
