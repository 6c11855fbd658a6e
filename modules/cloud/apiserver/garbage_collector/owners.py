"""Owner references, and an index of the objects that have them."""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from modules.apimachinery.kinds import JsonObject, ObjectKey
from modules.cloud.indexes import discard

_IGNORED: Final = "Event"
"""The kind that is never collected."""


class OwnerReference(msgspec.Struct, frozen=True):
    """One readable element of `metadata.ownerReferences`."""

    api_version: str
    kind: str
    name: str
    uid: str
    blocks: bool = False
    """Whether it keeps the owner until the dependent is deleted, if the owner is deleted in the foreground
    (`blockOwnerDeletion`)."""


def references_of(obj: JsonObject | None) -> tuple[OwnerReference, ...]:
    """Return the owner references of an object; an element that names no owner is left out."""
    found = (obj or {}).get("metadata", {}).get("ownerReferences")
    if not found or not isinstance(found, list):
        return ()
    read = (_reference(one) for one in found if isinstance(one, dict))
    return tuple(one for one in read if one.uid and one.kind and one.name)


def _reference(element: JsonObject) -> OwnerReference:
    version, kind, name, uid = (str(element.get(field) or "") for field in ("apiVersion", "kind", "name", "uid"))
    return OwnerReference(version, kind, name, uid, blocks=element.get("blockOwnerDeletion") is True)


def without_owners(obj: JsonObject, uids: Iterable[str]) -> JsonObject:
    """Return an object without its references to some owners."""
    gone, metadata = set(uids), dict(obj["metadata"])
    kept = [one for one in metadata.pop("ownerReferences") if not (isinstance(one, dict) and one.get("uid") in gone)]
    return {**obj, "metadata": {**metadata, "ownerReferences": kept} if kept else metadata}


def without_blocking(obj: JsonObject) -> JsonObject:
    """Return an object whose references keep no owner."""
    kept = [
        {**one, "blockOwnerDeletion": False} if isinstance(one, dict) and one.get("blockOwnerDeletion") else one
        for one in obj["metadata"]["ownerReferences"]
    ]
    return {**obj, "metadata": {**obj["metadata"], "ownerReferences": kept}}


class OwnerIndex:
    """The dependents of owners, by the owner's uid. A change costs as much as the object has references."""

    def __init__(self) -> None:
        self._dependents: dict[str, dict[ObjectKey, None]] = {}
        self._blocking: dict[tuple[str, str], dict[ObjectKey, None]] = {}
        """The dependents that keep an owner, by its uid and their namespace; under the namespace "" all of them."""

    def dependents_of(self, uid: str) -> Mapping[ObjectKey, None]:
        """Return the objects that have a reference to an owner."""
        return self._dependents.get(uid, {})

    def is_blocked(self, uid: str, namespace: str) -> bool:
        """Return whether an owner, in a namespace or "" for none, has a dependent that keeps it. A dependent in
        another namespace does not, regardless of its reference.
        """
        return (uid, namespace) in self._blocking

    def change(self, key: ObjectKey, old: JsonObject | None, new: JsonObject | None) -> None:
        """Take over a change of an object; None: it is not there."""
        if key.kind == _IGNORED:
            return
        for reference in references_of(old):
            discard(self._dependents, reference.uid, key)
            for namespace in {key.namespace, ""}:
                discard(self._blocking, (reference.uid, namespace), key)
        for reference in references_of(new):
            self._dependents.setdefault(reference.uid, {})[key] = None
            for namespace in {key.namespace, ""} if reference.blocks else ():
                self._blocking.setdefault((reference.uid, namespace), {})[key] = None
