"""The objects that controllers read, with their indexes."""

from collections.abc import Iterator, Mapping, Set
from typing import Final, TypeVar

import msgspec

from modules.apimachinery.kinds import JsonObject, ObjectKey, key_of, uid_of, version_of
from modules.apimachinery.pods.objects import node_of
from modules.apimachinery.types import Taint
from modules.cloud.authorization.trusted_labels import TrustedLabels
from modules.cloud.client.calls import ApiResult
from modules.cloud.controllers.failure_pauses import FailurePauses

_POD: Final = "Pod"
_SERVICE: Final = "Service"
_Label = tuple[str, str, str]
"""Namespace, name and value."""
_Place = TypeVar("_Place")


class RefusedWrite(msgspec.Struct, frozen=True):
    """The last write for an object, which the API server has refused."""

    reason: str
    """FailedCreate or FailedDelete."""
    message: str


class View:
    """A mirror of the API server's objects: its own ones, not copies. They must not be changed."""

    def __init__(self) -> None:
        self._objects: dict[ObjectKey, JsonObject] = {}
        self._by_namespace: dict[tuple[str, str], dict[ObjectKey, None]] = {}
        self._by_owner: dict[str, set[ObjectKey]] = {}
        """The objects by the uid of their controller."""
        self._loose: dict[tuple[str, str], set[ObjectKey]] = {}
        """The objects without a controller, by kind and namespace."""
        self._pods_on: dict[str, set[ObjectKey]] = {}
        self._pods_labelled: dict[_Label, set[ObjectKey]] = {}
        self._services: dict[_Label, set[ObjectKey]] = {}
        """The Services by the first pair of their selectors."""
        self.versions: dict[str, int] = {}
        """The newest resourceVersion that was seen of each kind."""
        self.pauses = FailurePauses()
        self.labels = TrustedLabels(self.find)
        """The labels of Nodes that count."""
        self.gone_since: dict[str, float] = {}
        """Names of Nodes that are not there and have pods, with the time when that was noticed."""
        self.marked_silent: dict[str, float] = {}
        """Names of Nodes that do not answer and whose pods were marked, with the time since when they do not."""
        self.tainted_since: dict[str, dict[Taint, float]] = {}
        """Names of Nodes with taints of the effect NoExecute, with the time when each was noticed."""
        self.refusals: dict[ObjectKey, RefusedWrite] = {}
        """The last refusal of a write for an object, until one succeeds."""
        self.scales: dict[ObjectKey, dict[str, ApiResult]] = {}
        """The scales that were read for the next look at an object, by the uid of their owners."""

    def put(self, obj: JsonObject) -> tuple[bool, JsonObject | None]:
        """Take an object that exists; return whether it is news, and the former state."""
        key, version = key_of(obj), int(version_of(obj) or 0)
        old = self._objects.get(key)
        if old is not None:
            if version <= int(version_of(old) or 0):
                self._record_version(key.kind, version)
                return False, old
            self._unindex(key, old)
        self._objects[key] = obj
        self._index(key, obj)
        self._record_version(key.kind, version)
        return True, old

    def remove(self, obj: JsonObject) -> bool:
        """Take that an object was deleted, whose last state is given; return whether it was there."""
        key, version = key_of(obj), int(version_of(obj) or 0)
        self._record_version(key.kind, version)
        old = self._objects.get(key)
        if old is None or int(version_of(old) or 0) > version:
            return False
        del self._objects[key]
        self._unindex(key, old)
        self.refusals.pop(key, None)
        return True

    def find(self, key: ObjectKey) -> JsonObject | None:
        """Return an object, or None."""
        return self._objects.get(key)

    def all_of(self, kind: str) -> Iterator[JsonObject]:
        """Yield the objects of a kind in all namespaces, in no order."""
        for (of, _), keys in self._by_namespace.items():
            if of == kind:
                yield from (self._objects[key] for key in keys)

    def in_namespace(self, kind: str, namespace: str) -> list[JsonObject]:
        """Return the objects of a kind in a namespace, in no order."""
        return [self._objects[key] for key in self._by_namespace.get((kind, namespace), ())]

    def owned_by(self, owner: JsonObject, kind: str) -> list[JsonObject]:
        """Return the objects of a kind whose controller an object of their namespace is, by name."""
        return self.of_owner(uid_of(owner), owner["metadata"]["namespace"], kind)

    def of_owner(self, uid: str, namespace: str, kind: str) -> list[JsonObject]:
        """Return the objects of a kind and namespace whose controller has a uid, by name. Whoever may write in another
        namespace may name the uid there, and adds nothing here.
        """
        owned = self._by_owner.get(uid, ())
        return [self._objects[key] for key in sorted(owned) if key.kind == kind and key.namespace == namespace]

    def without_controller(self, kind: str, namespace: str) -> list[JsonObject]:
        """Return the objects of a kind in a namespace that have no controller, by name."""
        return [self._objects[key] for key in sorted(self._loose.get((kind, namespace), ()))]

    def pods_on(self, node: str) -> list[JsonObject]:
        """Return the pods of a node, by namespace and name."""
        return [self._objects[key] for key in sorted(self._pods_on.get(node, ()))]

    def pods_with(self, namespace: str, labels: Mapping[str, str]) -> list[JsonObject]:
        """Return the pods of a namespace that have labels, by name; without labels all pods."""
        if not labels:
            return sorted(self.in_namespace(_POD, namespace), key=lambda pod: str(pod["metadata"]["name"]))
        found = [self._pods_labelled.get((namespace, *pair), frozenset[ObjectKey]()) for pair in labels.items()]
        fewest = min(found, key=len)
        return [self._objects[key] for key in sorted(fewest.intersection(*found))]

    def services_of(self, namespace: str, labels: Mapping[str, str]) -> Iterator[JsonObject]:
        """Yield the Services of a namespace whose selectors may match labels, and surely all that do."""
        for pair in labels.items():
            yield from (self._objects[key] for key in self._services.get((namespace, *pair), ()))

    def keys(self, kind: str) -> Set[ObjectKey]:
        """Return the keys of a kind's objects."""
        return {key for (of, _), keys in self._by_namespace.items() if of == kind for key in keys}

    def _record_version(self, kind: str, version: int) -> None:
        self.versions[kind] = max(self.versions.get(kind, 0), version)

    def _index(self, key: ObjectKey, obj: JsonObject) -> None:
        self._by_namespace.setdefault((key.kind, key.namespace), {})[key] = None
        owner = controller_of(obj)
        if owner is None:
            self._loose.setdefault((key.kind, key.namespace), set()).add(key)
        else:
            self._by_owner.setdefault(str(owner.get("uid")), set()).add(key)
        if key.kind == _POD:
            self._pods_on.setdefault(node_of(obj), set()).add(key)
        for index, label in self._labels_of(key, obj):
            index.setdefault(label, set()).add(key)

    def _labels_of(self, key: ObjectKey, obj: JsonObject) -> Iterator[tuple[dict[_Label, set[ObjectKey]], _Label]]:
        """Yield the places of an object in the indexes by labels."""
        if key.kind == _POD:
            for name, value in (obj["metadata"].get("labels") or {}).items():
                yield self._pods_labelled, (key.namespace, name, value)
        elif key.kind == _SERVICE:
            pair = min(((obj.get("spec") or {}).get("selector") or {}).items(), default=None)
            if pair is not None:
                yield self._services, (key.namespace, *pair)

    def _unindex(self, key: ObjectKey, obj: JsonObject) -> None:
        place = key.kind, key.namespace
        if key not in self._objects:
            self._by_namespace[place].pop(key)
            if not self._by_namespace[place]:
                del self._by_namespace[place]
        owner = controller_of(obj)
        if owner is None:
            _discard(self._loose, place, key)
        else:
            _discard(self._by_owner, str(owner.get("uid")), key)
        if key.kind == _POD:
            _discard(self._pods_on, node_of(obj), key)
        for index, label in self._labels_of(key, obj):
            _discard(index, label, key)


def _discard(index: dict[_Place, set[ObjectKey]], place: _Place, key: ObjectKey) -> None:
    index[place].discard(key)
    if not index[place]:
        del index[place]


def controller_of(obj: JsonObject) -> JsonObject | None:
    """Return the owner reference of an object's controller, or None."""
    references = obj["metadata"].get("ownerReferences") or ()
    return next((one for one in references if isinstance(one, dict) and one.get("controller")), None)


def is_controlled_by(obj: JsonObject, owner: JsonObject) -> bool:
    """Return whether an owner is the controller of an object; its uid decides, not its name."""
    reference = controller_of(obj)
    return reference is not None and reference.get("uid") == uid_of(owner)
