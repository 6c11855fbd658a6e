"""The objects as the controllers read them."""

from typing import Protocol

import msgspec

from modules.apimachinery.kinds import JsonObject, Kind, ObjectKey


class Revision(msgspec.Struct, frozen=True, gc=False):
    """The uid and the resourceVersion of the object that has a name."""

    uid: str
    version: str
    """The resourceVersion."""


class Lister(Protocol):
    """A reader of objects, in the manner of client-go's listers. Returned objects must not be changed."""

    def find(self, key: ObjectKey) -> JsonObject | None:
        """Return an object, or None."""

    def revision_of(self, key: ObjectKey) -> Revision | None:
        """Return the uid and version of an object, or None; cheaper than the object."""

    def list(self, kind: Kind, namespace: str | None = None) -> list[JsonObject]:
        """Return the objects of a kind, in all namespaces or in one, ordered by namespace and name."""
