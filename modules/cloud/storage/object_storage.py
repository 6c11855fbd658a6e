"""The API server's objects in memory; `database` holds their durable copy."""

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from enum import StrEnum
from functools import cached_property
from heapq import merge
from operator import attrgetter
from typing import TYPE_CHECKING, Final

import msgspec

from beehive.decoding import decode_json, encode_to_keep
from beehive.nesting import LEVELS, NestingError, check_nesting
from modules.apimachinery.api_errors import (
    AlreadyExistsError,
    BadRequestError,
    ConflictError,
    NotFoundError,
    TooLargeError,
)
from modules.apimachinery.conversion import validate_schema
from modules.apimachinery.kinds import (
    LAST_APPLIED,
    JsonObject,
    Kind,
    ObjectKey,
    is_being_deleted,
    key_of,
    metadata_of,
    uid_of,
    version_of,
)
from modules.apimachinery.limits import OBJECT_BYTES
from modules.apimachinery.lister import Revision
from modules.apimachinery.pods.objects import node_of
from modules.apimachinery.selectors import are_selected_alike
from modules.cloud.apiextensions.kinds import ServedKinds
from modules.cloud.storage.namespace_sizes import NamespaceSizes
from modules.cloud.storage.object_meta import prepared_for_create, prepared_for_update
from modules.cloud.storage.past_states import PastStates
from modules.cloud.storage.service_numbers import ServiceNumbers
from modules.cloud.storage.shared_texts import SharedTexts
from modules.cloud.storage.unbound_pods import UnboundPods

if TYPE_CHECKING:
    from beehive.clock import Clock


_POD = "Pod"
_SERVICE = "Service"
_MANAGED = "managedFields"
NOTHING_DELETED: Final[Mapping[ObjectKey, int]] = {}
_NO_FIELDS: Final = frozenset[str]()
LARGE: Final = 32 * 1024
"""An object with so many bytes of JSON is large: a request about it takes up to 40 ms."""
OBJECT_LEVELS: Final = LEVELS - 16
"""Maximum of the levels of an object: the list or message around it has some, and its reader takes `LEVELS`."""


class EventType(StrEnum):
    """The type of a change, with the values of Kubernetes' watch events."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


class ObjectEvent(msgspec.Struct, frozen=True, dict=True):
    """One change of one object."""

    type: EventType
    key: ObjectKey
    new: JsonObject
    """The object after the change; after a deletion its last state, with the deletion's resourceVersion."""
    old: JsonObject | None = None
    body: bytes = b""
    """The new object as JSON; empty after a deletion, and where another cloudcore's change was not read as JSON."""
    size: int = 0
    """Bytes of the new object as JSON, for bounds; 0 outside of the storage."""
    bare: bytes = b""
    """The body without `managedFields`, as nodes get it; empty where it was not made."""
    selectable_fields: frozenset[str] = frozenset()
    """Of an object of a custom kind."""
    is_selected_alike: bool = False
    """Whether it is known that each selector selects both states of a changed object, or none."""
    is_of_status: bool = False
    """Whether it is known that nothing but a pod's status was changed, and the version with it."""

    @cached_property
    def keeps_spec(self) -> bool:
        """Whether an object was changed, but not its spec: most changes are of a status."""
        if self.type is not EventType.MODIFIED or self.old is None:
            return False
        before, after = self.old.get("spec"), self.new.get("spec")
        return before is after or before == after


class StoredChange(msgspec.Struct, frozen=True):
    """One change, as a row of the database has it."""

    version: int
    key: ObjectKey
    type: EventType
    body: bytes | None
    """The object after the change as JSON, of a deleted one its last state; None for a Secret that exists: its values
    are kept only while they are its present ones."""
    old: bytes | None = None
    """The object before the change, if a selector could tell the two apart."""


class _State(msgspec.Struct, frozen=True, gc=False):
    """The last state of an object; None if it was deleted."""

    version: int
    key: ObjectKey
    obj: JsonObject | None


class Storage:
    """Objects by key. Each change of any object increases one counter, the resourceVersion.

    Objects are JSON dictionaries, so unknown fields are kept. A stored object is never changed in place: each change
    stores a new one, and the old one stays valid for its holders (a message to another thread, the old half of an
    event). Only edgecontroller's thread calls this, so there are no locks.

    Args:
        clock: time and uids.
        first_version: the counter's start. A cloud without a durable database must continue above the versions that
            it has sent before, because edges compare versions.
    """

    def __init__(self, clock: "Clock", first_version: int = 1) -> None:
        self._clock = clock
        self.began_at: Final = clock.now()
        """When it was made, in seconds since 1970."""
        self.first_version: Final = first_version
        self.version = first_version
        """The resourceVersion of the latest change."""
        self._objects: dict[ObjectKey, JsonObject] = {}
        self._of_kind: defaultdict[str, dict[ObjectKey, JsonObject]] = defaultdict(dict)
        """The objects by kind."""
        self.kinds = ServedKinds(self._of_kind["CustomResourceDefinition"])
        """The API server's own kinds and the custom ones."""
        self._pods_of: dict[str, set[ObjectKey]] = {}
        """The pods by their node, "" for those without one; an index of kube-apiserver's, too."""
        self.unbound = UnboundPods()
        """The pods without a node, in order."""
        self.service_numbers = ServiceNumbers()
        """The addresses and ports of Services."""
        self.sizes = NamespaceSizes()
        """The memory that the objects take."""
        self._nominated = set[ObjectKey]()
        """The pods without a node that others make room for on one."""
        self._pods_changed: dict[str, int] = {}
        """The number of the latest change of each node's pods; nodes without pods are left out."""
        self._pod_changes = 0
        self._sorted: dict[str, list[ObjectKey]] = {}
        """The keys of each kind that has been listed, in order."""
        self.large: set[ObjectKey] = set()
        """The large objects."""
        self._changed_at: dict[ObjectKey, float] = {}
        """Monotonic seconds of each object's last change by this cloudcore, or of reading another's change."""
        self.events: deque[ObjectEvent] = deque()
        self._since: deque[ObjectEvent] = deque()
        """The changes since the savepoint, in order."""
        self._saved_version = first_version
        self._past = PastStates(first_version)
        self._texts = SharedTexts()
        self.unknown_until: dict[str, int] = {}
        """By kind ("" for all), the version until which only the last change of each object is known, where others have
        made several.
        """

    def drain_events(self) -> list[ObjectEvent]:
        """Return the changes since the last call, in order."""
        events = list(self.events)
        self.events.clear()
        return events

    def set_savepoint(self) -> None:
        """Set the savepoint of `roll_back`. All events must have been taken."""
        self._since.clear()
        self._saved_version = self.version

    def roll_back(self) -> list[ObjectEvent]:
        """Undo the changes since the savepoint, and return them, newest first."""
        undone = list(reversed(self._since))
        self.undo(undone, self._saved_version)
        return undone

    def undo(self, changes: Iterable[ObjectEvent], version: int) -> None:
        """Undo changes, newest first, and go back to the version before them, which becomes the savepoint."""
        for event in changes:
            if event.old is None:
                self._unset(event.key)
            else:
                self._set(event.key, event.old, msgspec.json.encode(event.old))
            self._past.undo(event.key.kind)
        self.version = self._saved_version = version
        self.events.clear()
        self._since.clear()

    def __iter__(self) -> Iterator[ObjectKey]:
        """Return an iterator over the keys of all objects."""
        return iter(list(self._objects))

    def find(self, key: ObjectKey) -> JsonObject | None:
        """Return the object, or None. It must not be changed."""
        return self._objects.get(key)

    def revision_of(self, key: ObjectKey) -> Revision | None:
        """Return the uid and resourceVersion of an object, or None."""
        obj = self._objects.get(key)
        return None if obj is None else Revision(uid_of(obj), version_of(obj))

    def unchanged_for(self, key: ObjectKey) -> float:
        """Return the seconds since an object's last change, by this cloud's clock and not by times in the object."""
        now = self._clock.monotonic()
        return now - self._changed_at.get(key, now)

    def get(self, key: ObjectKey, uid: str = "") -> JsonObject:
        """Return the object. It must not be changed.

        Raises:
            NotFoundError: no such object.
            ConflictError: a uid is given, and the object has another.
        """
        obj = self._objects.get(key)
        if obj is None:
            kind = self.kinds.of_key(key)
            raise NotFoundError(kind.plural, key.name, kind.api_group)
        if uid and uid != uid_of(obj):
            raise _uid_conflict(self.kinds.of_key(key), uid, obj)
        return obj

    def nominated_pods(self) -> list[JsonObject]:
        """Return the pods that wait until others have made room for them on a node, ordered by namespace and name."""
        return [self._objects[key] for key in sorted(self._nominated)]

    def pods_of(self, node: str) -> Set[ObjectKey]:
        """Return the keys of a node's pods, "" for the pods without one. They must not be changed."""
        return self._pods_of.get(node, frozenset())

    @property
    def changes_of_pods(self) -> Mapping[str, int]:
        """The number of the latest change of the pods of each node that has pods; another one each time."""
        return self._pods_changed

    def nodes_of_pods(self) -> Set[str]:
        """Return the nodes that pods have, "" for no node."""
        return self._pods_of.keys()

    def list(self, kind: Kind, namespace: str | None = None) -> list[JsonObject]:
        """Return the objects of a kind, in all namespaces or in one, ordered by namespace and name."""
        if namespace is None:
            objects = self._of_kind[kind.key_name]
            return [objects[key] for key in self._range_of(ObjectKey(kind.key_name, "", ""), None)[0]]
        return [*self.list_after(kind, namespace, ("", ""))]

    def list_after(
        self,
        kind: Kind,
        namespace: str | None,
        place: tuple[str, str],
        version: int | None = None,
        among: Set[ObjectKey] | None = None,
    ) -> Iterator[JsonObject]:
        """Yield the objects of a kind in order, beginning after a namespace and name. None may change meanwhile.

        Args:
            kind: the kind.
            namespace: None is all namespaces.
            place: namespace and name.
            version: of the wanted state; None is the present one.
            among: the keys of the present objects that can be wanted; None is all. Objects that have changed since
                `version` are yielded in any case.

        Raises:
            ForgottenError: that state is no longer known.
        """
        at = self.version if version is None else version
        past = self._past.changed_since(kind.key_name, at, self.version)
        start = ObjectKey(kind.key_name, *place)
        if among is None:
            keys, begin, end = self._range_of(start, namespace)
            present: Iterator[ObjectKey] = (keys[number] for number in range(begin, end))
        else:
            present = iter(sorted(key for key in among | past.keys() if key in self._objects and key > start))
        return self._objects_at(present, start, namespace, past)

    def count_after(self, kind: Kind, namespace: str | None, place: tuple[str, str], version: int) -> int:
        """Return the number of objects that `list_after` yields, without going through them.

        Raises:
            ForgottenError: that state is no longer known.
        """
        past = self._past.changed_since(kind.key_name, version, self.version)
        start = ObjectKey(kind.key_name, *place)
        _, begin, end = self._range_of(start, namespace)
        changed = (
            (obj is not None) - (key in self._objects)
            for key, obj in past.items()
            if key > start and namespace in (None, key.namespace)
        )
        return end - begin + sum(changed)

    def count(self, kind: Kind) -> int:
        """Return the number of a kind's objects."""
        return len(self._of_kind[kind.key_name])

    def in_namespace(self, namespace: str) -> Iterator[JsonObject]:
        """Yield the objects of all kinds in a namespace."""
        for kind, objects in tuple(self._of_kind.items()):
            keys, begin, end = self._range_of(ObjectKey(kind, "", ""), namespace)
            yield from (objects[keys[number]] for number in range(begin, end))

    def keys_in(self, kind: Kind, namespace: str) -> Sequence[ObjectKey]:
        """Return the keys of a kind's objects in one namespace, in order."""
        keys, begin, end = self._range_of(ObjectKey(kind.key_name, "", ""), namespace)
        return keys[begin:end]

    def _range_of(self, start: ObjectKey, namespace: str | None) -> tuple[Sequence[ObjectKey], int, int]:
        """Return the keys of a kind in order, and the range of those after a key and of a namespace (None: of all)."""
        keys = self._sorted.get(start.kind)
        if keys is None:
            keys = self._sorted[start.kind] = sorted(self._of_kind[start.kind])
        if namespace is None:
            return keys, bisect_right(keys, start), len(keys)
        begin = bisect_right(keys, max(start, ObjectKey(start.kind, namespace, "")))
        return keys, begin, max(begin, bisect_left(keys, ObjectKey(start.kind, f"{namespace}\0", "")))

    def _objects_at(
        self,
        present: Iterator[ObjectKey],
        start: ObjectKey,
        namespace: str | None,
        past: Mapping[ObjectKey, JsonObject | None],
    ) -> Iterator[JsonObject]:
        objects = self._of_kind[start.kind]
        gone = sorted(key for key, obj in past.items() if obj is not None and key not in objects and key > start)
        for key in merge(present, gone) if gone else present:
            obj = past[key] if key in past else objects[key]
            if obj is not None and namespace in (None, key.namespace):
                yield obj

    def forget_past(self) -> None:
        """Forget all earlier states, as an API server does whose etcd is compacted."""
        self._past = PastStates(self.version)

    def compact(self) -> None:
        """Forget states that are some minutes old; called every `COMPACTION_SECONDS`."""
        self._past.compact(self.version)

    def create(self, obj: JsonObject, uid: str = "") -> JsonObject:
        """Store a new object with a new uid, creation time and resourceVersion, and return it.

        Args:
            obj: the object.
            uid: its uid; "" is one of the clock's.

        Raises:
            AlreadyExistsError: an object of that name exists.
            BadRequestError: the object does not have its kind's schema.
            TooLargeError: the object is too large.
        """
        validate_schema(obj)
        key, kind = key_of(obj), self.kinds.of_object(obj)
        if (live := self._objects.get(key)) is not None:
            is_generated = bool(obj["metadata"].get("generateName"))
            raise AlreadyExistsError(
                kind.plural, key.name, kind.api_group,
                is_generated=is_generated, is_being_deleted=is_being_deleted(live),
            )  # fmt: skip
        new = prepared_for_create(obj, key, kind, uid or self._clock.new_id(), self._clock.now())
        return self._store(EventType.ADDED, key, new, None)

    def replace(self, obj: JsonObject, *, is_checked: bool = False) -> JsonObject:
        """Store a new state of an object, and return it. An equal state changes nothing, as in Kubernetes.

        The uid and resourceVersion of the given object, if it has them, must be the stored ones.

        Args:
            obj: the new state.
            is_checked: whether it is known to have its kind's schema.

        Raises:
            NotFoundError: no such object.
            ConflictError: the stored object has another uid or resourceVersion.
            BadRequestError: the object does not have its kind's schema.
            TooLargeError: the object is too large.
        """
        key = key_of(obj)
        return self.change(key, self.get(key, uid_of(obj)), obj, is_checked=is_checked)

    def change(self, key: ObjectKey, old: JsonObject, obj: JsonObject, *, is_checked: bool = False) -> JsonObject:
        """Store a new state of the object of a key, whose present state is given; see `replace`."""
        if not is_checked:
            validate_schema(obj, old)
        if obj["metadata"] is not old["metadata"]:
            check_version(self.kinds.of_key(key), old, obj)
        new = prepared_for_update(obj, old)
        return old if new == old else self._store(EventType.MODIFIED, key, new, old)

    def change_status(self, key: ObjectKey, old: JsonObject, status: JsonObject) -> JsonObject:
        """Store a new status of a pod, whose present state is given, as `change` does. It is known to have its schema,
        and nobody changes it later.

        Raises:
            BadRequestError, TooLargeError: as there.
        """
        if status == old["status"]:
            return old
        if len(status) > len(old["status"]):  # the first whole one, whose texts stay
            self._texts.share(status)
        metadata = {**old["metadata"], "resourceVersion": str(self.version + 1)}
        new = {**old, "metadata": metadata, "status": status}
        bare = body = _body_of(new)
        if _MANAGED in metadata:
            others = {name: value for name, value in metadata.items() if name != _MANAGED}
            bare = msgspec.json.encode({**new, "metadata": others}) if metadata[_MANAGED] else b""
        self.version += 1
        self._record(EventType.MODIFIED, key, new, old, body, bare, is_of_status=True)
        return new

    def remove(self, key: ObjectKey) -> JsonObject:
        """Remove an object immediately, and return its last state.

        Raises:
            NotFoundError: no such object.
        """
        old = self.get(key)
        return self._store(EventType.DELETED, key, {**old, "metadata": {**old["metadata"]}}, old)

    def restore(self, objects: Iterable[JsonObject]) -> None:
        """Add objects with their uids and versions, without events."""
        for obj in map(self._compacted, objects):
            self._set(key_of(obj), obj, msgspec.json.encode(obj))
            self.version = max(self.version, int(version_of(obj) or 0))
        self.forget_past()

    def adopt(
        self,
        found: Iterable[tuple[ObjectKey, JsonObject | None]],
        version: int,
        *,
        complete: bool,
        changes: Iterable[StoredChange] = (),
        deleted: Mapping[ObjectKey, int] = NOTHING_DELETED,
        has_gap: bool = False,
    ) -> None:
        """Apply the changes of other cloudcores, with an event for each, in the order of their versions: a watch that
        ends within them begins again after the last one that it has seen.

        Args:
            found: the changed objects; None for a deleted one.
            version: the newest resourceVersion.
            complete: whether `found` holds all objects, so that any other is deleted.
            changes: each change in order. `found` has the objects that these do not lead to: Secrets, whose values no
                change has, and what a cloudcore of an earlier version has changed.
            deleted: the versions of deletions in `found`.
            has_gap: whether there may have been further changes, even of objects that were made and deleted.
        """
        adopted = {key: obj and self._compacted(obj) for key, obj in found}
        for key in [key for key in self._objects if key not in adopted] if complete else ():
            self._adopt_state(key, None, self.version)  # when is not known: before all that is
        unknown: set[str] = {""} if complete or has_gap else set()
        states = _states_of(adopted, deleted, version)
        ordered: Iterator[StoredChange | _State] = merge(changes, states, key=attrgetter("version"))
        for change in ordered:
            if not isinstance(change, _State):
                self._adopt_change(change)
            elif self._adopt_state(change.key, change.obj, change.version):
                unknown.add(change.key.kind)
        if unknown:
            self._past.record_adoption(self.version, version)
            self.unknown_until |= dict.fromkeys(unknown, version)
        self.version = max(self.version, version)
        self.set_savepoint()

    def _adopt_state(self, key: ObjectKey, obj: JsonObject | None, version: int) -> bool:
        """Apply the last state of an object, None for a deleted one, and return whether that is news. Of an object that
        another one of its name has followed, the deletion has the version before.
        """
        events, old = len(self.events), self._objects.get(key)
        if old is not None and (obj is None or uid_of(old) != uid_of(obj)):
            meta = {**old["metadata"], "resourceVersion": str(version if obj is None else version - 1)}
            self._record(EventType.DELETED, key, {**old, "metadata": meta}, old)
            old = None
        if obj is not None and obj != old:
            self._record(EventType.MODIFIED if old else EventType.ADDED, key, obj, old)
        return len(self.events) > events

    def _adopt_change(self, change: StoredChange) -> None:
        """Apply one change of another cloudcore, if its row has the object."""
        key, old = change.key, self._objects.get(change.key)
        if old is not None and int(version_of(old) or 0) >= change.version:
            return
        if change.type is EventType.DELETED:
            if old is not None:
                meta = {**old["metadata"], "resourceVersion": str(change.version)}
                self._record(EventType.DELETED, key, {**old, "metadata": meta}, old)
        elif change.body is not None:
            new = self._compacted(decode_json(change.body))
            self._record(EventType.ADDED if old is None else EventType.MODIFIED, key, new, old, change.body)

    def _compacted(self, obj: JsonObject) -> JsonObject:
        """Return a loaded object, with its `managedFields` as JSON."""
        managed = metadata_of(obj).get(_MANAGED)
        if managed and not isinstance(managed, msgspec.Raw):
            obj["metadata"][_MANAGED] = _raw(managed)
        self._texts.share(obj)
        return obj

    def next_version(self) -> int:
        """Return a new resourceVersion for a row that is not an object."""
        self.version += 1
        return self.version

    def _store(self, change: EventType, key: ObjectKey, new: JsonObject, old: JsonObject | None) -> JsonObject:
        """Store a new state, whose metadata are its own, and return it; the caller may change the rest of it."""
        new["metadata"]["resourceVersion"] = str(self.version + 1)
        body = bare = b""
        if change is not EventType.DELETED:
            body, bare, new = _stored(new, old or {}, self._texts)
        self.version += 1
        self._record(change, key, new, old, body, bare)
        return new

    def _record(
        self,
        change: EventType,
        key: ObjectKey,
        new: JsonObject,
        old: JsonObject | None,
        body: bytes = b"",
        bare: bytes = b"",
        *,
        is_of_status: bool = False,
    ) -> None:
        text = body or msgspec.json.encode(new)
        size = len(text)
        if change is EventType.DELETED:
            self._unset(key)
        else:
            self._set(key, new, text)
        self._past.record(int(new["metadata"]["resourceVersion"]), key, old, size)
        selectable = self.kinds.selectable_fields_of(key.kind) if "." in key.kind else _NO_FIELDS
        is_alike = change is EventType.MODIFIED and are_selected_alike(key.kind, old or {}, new, selectable)
        event = ObjectEvent(change, key, new, old, body, size, bare, selectable, is_alike, is_of_status)
        self.events.append(event)
        self._since.append(event)

    def _unset(self, key: ObjectKey) -> None:
        if key.kind == _POD:
            self._unindex(key, node_of(self._objects[key]))
        elif key.kind == _SERVICE:
            self.service_numbers.remove(key)
        self.large.discard(key)
        del self._objects[key], self._of_kind[key.kind][key]
        if (keys := self._sorted.get(key.kind)) is not None:
            del keys[bisect_left(keys, key)]
        self._changed_at.pop(key, None)
        self.sizes.remove(key)

    def _set(self, key: ObjectKey, obj: JsonObject, text: bytes) -> None:
        before = self._objects.get(key)
        if before is None and (keys := self._sorted.get(key.kind)) is not None:
            insort(keys, key)
        self._objects[key] = self._of_kind[key.kind][key] = obj
        if len(text) >= LARGE:
            self.large.add(key)
        else:
            self.large.discard(key)
        if key.kind == _POD:
            node = node_of(obj)
            is_other = before is not None and before.get("spec") is not obj.get("spec")
            if before is not None and is_other and (left := node_of(before)) != node:
                self._unindex(key, left)
            self._pods_of.setdefault(node, set()).add(key)
            self._pods_changed[node] = self._pod_changes = self._pod_changes + 1
            if not node:
                self.unbound.put(key, obj)
            if not node and (obj.get("status") or {}).get("nominatedNodeName"):
                self._nominated.add(key)
            else:
                self._nominated.discard(key)
        elif key.kind == _SERVICE:
            self.service_numbers.put(key, obj)
        self._changed_at[key] = self._clock.monotonic()
        self.sizes.put(key, text)

    def _unindex(self, key: ObjectKey, node: str) -> None:
        """Take a pod out of a node's pods."""
        pods = self._pods_of[node]
        pods.remove(key)
        self.unbound.drop(key)
        self._nominated.discard(key)
        self._pods_changed[node] = self._pod_changes = self._pod_changes + 1
        if not pods:
            del self._pods_of[node], self._pods_changed[node]


def _states_of(
    objects: Mapping[ObjectKey, JsonObject | None], deleted: Mapping[ObjectKey, int], newest: int
) -> Sequence[_State]:
    """Return the states of objects, the oldest first; a deletion whose version is not known is the newest."""
    found = (
        _State(deleted.get(key, newest) if obj is None else int(version_of(obj) or 0), key, obj)
        for key, obj in objects.items()
    )
    return sorted(found, key=attrgetter("version"))


def _stored(obj: JsonObject, old: JsonObject, texts: SharedTexts) -> tuple[bytes, bytes, JsonObject]:
    """Return an object as JSON, the same without `managedFields` (empty where these are an empty list), and a copy of
    it, whose `managedFields` are JSON (`msgspec.Raw`): they are often its larger half, and most changes leave them as
    they are. Parts that are the old state's own, such as the spec beside a new status, are not copied: both have them.
    The copy shares `texts`.
    """
    managed = obj["metadata"].get(_MANAGED)
    bare = obj
    if managed:
        bare = {**obj, "metadata": {name: value for name, value in obj["metadata"].items() if name != _MANAGED}}
    bare_body = _body_of(bare)
    shared = {name: value for name, value in obj.items() if isinstance(value, dict) and value is old.get(name)}
    if shared:
        own = {name: value for name, value in bare.items() if name not in shared}
        copy: JsonObject = decode_json(msgspec.json.encode(own))
    else:
        copy = decode_json(bare_body)  # in a fraction of deepcopy's time
    texts.share(copy)
    if shared:
        copy = {**bare, **copy}
    if not managed:
        return bare_body, b"" if _MANAGED in obj["metadata"] else bare_body, copy
    copy["metadata"][_MANAGED] = managed if isinstance(managed, msgspec.Raw) else _raw(managed)
    body = msgspec.json.encode(copy)
    _check_size(body, obj)
    return body, bare_body, copy


def _raw(managed: object) -> msgspec.Raw:
    try:
        return msgspec.Raw(encode_to_keep(managed))
    except (TypeError, ValueError, OverflowError) as error:
        raise BadRequestError(f"metadata.managedFields has no JSON form: {error}") from error


def _body_of(obj: JsonObject) -> bytes:
    try:
        body = msgspec.json.encode(obj)
    except (TypeError, ValueError, OverflowError) as error:
        raise BadRequestError(f"{obj['kind']}: it has no JSON form: {error}") from error
    if len(body) > OBJECT_BYTES or len(body) - len(body.translate(None, b"[{")) > OBJECT_LEVELS:
        _check_size(body, obj)
    return body


def _check_size(body: bytes, obj: JsonObject) -> None:
    """Check that an object is neither larger nor deeper than its readers take."""
    if len(body) > OBJECT_BYTES and len(body) - _length_of_last_applied(obj) > OBJECT_BYTES:
        raise TooLargeError(f"an object has at most {OBJECT_BYTES} bytes")
    try:
        check_nesting(body, levels=OBJECT_LEVELS)
    except NestingError:
        raise BadRequestError(f"{obj['kind']}: it is nested more than {OBJECT_LEVELS} levels deep") from None


def _length_of_last_applied(obj: JsonObject) -> int:
    """Return the bytes of kubectl's annotation; the manifest in it is within the limits itself."""
    return len(msgspec.json.encode((metadata_of(obj).get("annotations") or {}).get(LAST_APPLIED, "")))


def check_version(kind: Kind, old: JsonObject, new: JsonObject) -> None:
    """Check that a new state of an object names its present version, or none.

    Raises:
        ConflictError: it names another.
    """
    if version_of(new) and version_of(new) != version_of(old):
        why = "the object has been modified; please apply your changes to the latest version and try again"
        raise ConflictError(kind.plural, old["metadata"]["name"], why, kind.api_group)


def _uid_conflict(kind: Kind, uid: str, old: JsonObject) -> ConflictError:
    why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {uid_of(old)}"
    return ConflictError(kind.plural, old["metadata"]["name"], why, kind.api_group)
