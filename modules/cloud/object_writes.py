"""The writes of objects that the change journal keeps: who changed which fields of what, and when; and, as entries of
the same form, who let whom in or locked whom out.

The embedded API server tells the journal of each one, after the commit. Left out are statuses, which nodes and
controllers report all the time, the kinds of `UNKEPT`, and fields that the API server sets itself. Values are left out,
too, except `_SHOWN`: fields of a manifest may hold secrets.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from beehive.clock import Clock
from beehive.printable import clipped
from beehive.whole_numbers import whole_number
from modules.apimachinery.api_errors import UnknownKindError
from modules.apimachinery.kinds import kind_called
from modules.cloud.client.calls import ApiCall

JOURNAL: Final = "journal"
"""The module that keeps the journals of links and of writes, and its group."""

WRITTEN: Final = "written"
"""Operation: the API server tells the journal of the committed writes of a transaction, a list of `ObjectWrite`."""
NOTED: Final = "noted"
"""Operation: modules tell the journal of accesses that were given, taken or used, a list of `ObjectWrite` that
`access_entry` makes.
"""
WRITES: Final = "writes"
"""Operation: `control` asks the journal for writes (`WriteQuery`); the reply is a `WriteList`."""
WRITES_RESOURCE: Final = "journal/writes"

CLOUDCORE: Final = "cloudcore"
"""The user of what cloudcore changes by itself."""
ADMINISTRATOR: Final = "administrator"
"""The user of a request that comes through the control socket, or the port that asks for no credentials."""
UNKEPT: Final = frozenset({"Event", "Lease", "Endpoints", "EndpointSlice", "ControllerRevision"})
"""Kinds whose writes are not kept: they follow from others, or repeat all the time."""

CREATED: Final = "created"
CHANGED: Final = "changed"
DELETING: Final = "deleting"
"""The deletion has begun; a node or a finalizer must let the object go."""
DELETED: Final = "deleted"

REVOKED: Final = "revoked"
ALLOWED: Final = "allowed"
TOKEN_MADE: Final = "token made"  # noqa: S105 - a word
TOKEN_WITHDRAWN: Final = "token withdrawn"  # noqa: S105 - a word
REPLACED: Final = "replaced"
"""Another machine has joined with the node's name, by a token that an administrator made for that."""
RESTORED: Final = "restored"
SIGNED_IN: Final = "signed in"
SIGN_IN_REFUSED: Final = "sign-in refused"

NO_JOURNAL: Final = (
    "In front of a cluster cloudcore keeps no journal of changes, except of who let in or locked out whom: it does not "
    "see who makes them. The cluster's audit log does (kube-apiserver --audit-log-path)."
)
MOST_FIELDS: Final = 8
"""Changed fields that are named."""
_LONGEST_FIELD: Final = 120
_LONGEST_REASON: Final = 253
_DEEPEST: Final = 12
_SHOWN: Final = ("image", "nodeName", "paused", "replicas", "suspend", "unschedulable")
"""Fields whose values are shown, unless it is of a kind of `_CLOSED`."""
_CLOSED: Final = ("Secret", "ConfigMap")
_METADATA: Final = "metadata"
_STATUS: Final = "status"
_APPROVAL: Final = "approval"
_OWN_METADATA: Final = frozenset(
    {"resourceVersion", "generation", "managedFields", "deletionTimestamp", "deletionGracePeriodSeconds"}
)
_OWN_ANNOTATIONS: Final = ("kubectl.kubernetes.io/last-applied-configuration", "deployment.kubernetes.io/")
_MAPS: Final = ("metadata.annotations", "metadata.labels", "data", "spec", "spec.nodeSelector")
"""Maps that may be missing: their entries are named all the same."""

_Object = Mapping[str, Any]


class ObjectWriter(msgspec.Struct, frozen=True):
    """Maker of a request."""

    user: str = CLOUDCORE
    manager: str = ""
    """The field manager that the client names, or its program; the part of cloudcore for its own writes."""
    writes_status: bool = False
    """Whether the status is what the request is about: an approval of a certificate."""


def writer_of(call: ApiCall) -> ObjectWriter:
    """Return who makes an API call."""
    user = call.author or call.user or (node_user(call.node) if call.node else CLOUDCORE)
    manager = str(call.options.get("fieldManager") or "") or ("controllers" if call.fence else "")
    return ObjectWriter(user, manager, call.subresource == _APPROVAL)


def node_user(node: str) -> str:
    """Return the user name of a node, as Kubernetes has it."""
    return f"system:node:{node}"


class ObjectWrite(msgspec.Struct, frozen=True):
    """A write of an object."""

    at: float
    """Seconds since 1970."""
    user: str
    manager: str
    verb: str
    """The change: created, changed, deleting or deleted."""
    kind: str
    """As in keys of objects."""
    namespace: str
    name: str
    uid: str
    version: int
    """The resourceVersion of the write."""
    node: str = ""
    """The node that the object is bound to, or is."""
    fields: tuple[str, ...] = ()
    """The changed fields, as paths, some with their values."""
    more: int = 0
    """1 if there are more changed fields."""
    part: int = 0
    """Of an access: its place, from 1, among those since the write of this version, the newest at its time; both are
    given by the journal. 0 for a write."""
    id: str = ""
    """Of an access: unique."""

    @property
    def order(self) -> tuple[int, int]:
        """The place in the journal."""
        return self.version, self.part


def access_entry(
    clock: Clock, user: str, via: str, verb: str, kind: str, name: str, *, node: str = "", reason: str = "",
    facts: Sequence[str] = (),
) -> ObjectWrite:  # fmt: skip
    """Return the entry of an access that was given, taken or used.

    Args:
        clock: for its time and its id.
        user: who did it.
        via: the way on which it was done.
        verb: one of the words above, such as `REVOKED`.
        kind: of what it was done to: Node, Certificate, User, Token, Database or Page.
        name: of that.
        node: the node that it is about.
        reason: why, in the user's words.
        facts: more about it.
    """
    fields = (*([f"reason: {clipped(reason, _LONGEST_REASON)}"] if reason else []), *facts)
    return ObjectWrite(clock.now(), user, via, verb, kind, "", name, "", 0, node, fields, id=clock.new_id())


class WriteQuery(msgspec.Struct, frozen=True):
    """Choice of writes, the newest first. Empty fields select nothing."""

    kind: str = ""
    """In any case; of a custom kind, the part before the group is enough."""
    namespace: str = ""
    name: str = ""
    node: str = ""
    """Writes by this node, of objects that are bound to it, and of objects that it has."""
    words: tuple[str, ...] = ()
    """Each is in the kind, namespace, name, user, manager or fields."""
    since: float = 0.0
    """Seconds since 1970."""
    before: int = 0
    """Only writes of lower resourceVersions, and accesses before them: the next page. 0 for the first."""
    before_part: int = 0
    """Only accesses before this `ObjectWrite.part` of that version, and its write; 0 leaves these out."""
    limit: int = 100
    people_only: bool = False
    """Leave out what cloudcore and nodes did by themselves."""


def place_asked(text: str) -> tuple[int, int] | None:
    """Return `WriteQuery.before` and `before_part` of a place such as `120` or `120.3`; None for another text."""
    version, _, part = text.partition(".")
    places = whole_number(version), whole_number(part or "0")
    return None if None in places else (places[0] or 0, places[1] or 0)


def place_of(version: int, part: int) -> str:
    """Return a place as `place_asked` reads it."""
    return f"{version}.{part}" if part else str(version)


def kind_asked(word: str) -> str:
    """Return the kind of a word such as `deploy`, for a `WriteQuery`; a custom kind, or an unknown one, as it is."""
    try:
        return kind_called(word).name if word else ""
    except UnknownKindError:
        return word


class KnownWrite(msgspec.Struct, frozen=True):
    """A write, and which nodes have its object."""

    write: ObjectWrite
    holders: int = 0
    """Nodes that have the object, or are to have it; -1 if that is not known: the database is in memory."""
    acknowledged: int = 0
    """Of these, the nodes that have stored this version or a later one."""
    behind: tuple[str, ...] = ()
    """Some of the others."""


class WriteList(msgspec.Struct, frozen=True):
    """The reply to a `WriteQuery`."""

    writes: list[KnownWrite]
    more: int = 0
    """Writes beyond these."""
    is_kept: bool = True
    """False in front of a cluster: its API server knows who writes, and cloudcore knows the accesses only."""


def is_status_only(old: _Object, new: _Object) -> bool:
    """Return whether only the status differs, besides the fields that every write changes. It is asked for each status
    of a pod.
    """
    for name, value in new.items():
        if name not in (_STATUS, _METADATA) and (before := old.get(name)) is not value and before != value:
            return False
    before, after = old[_METADATA], new[_METADATA]
    if len(old) != len(new) or (before is not after and before.keys() - _OWN_METADATA != after.keys() - _OWN_METADATA):
        return False
    return not [name for name, value in after.items() if name not in _OWN_METADATA and before[name] != value]


def changed_fields(kind: str, old: _Object, new: _Object, *, status: bool = False) -> tuple[tuple[str, ...], bool]:
    """Return the paths of changed fields, at most `MOST_FIELDS`, and whether there are more.

    Entries of lists are named by their `name`, where all have one; another list is one field.

    Args:
        kind: of the object, as in its key.
        old: the object before.
        new: the object after.
        status: whether fields of the status count.
    """
    found: list[str] = []
    for path, before, after in _differences(old, new, "", 0):
        if not status and (path == _STATUS or path.startswith(f"{_STATUS}.")):
            continue
        if len(found) == MOST_FIELDS:
            return tuple(found), True
        found.append(_shown(kind, path, before, after))
    return tuple(found), False


def _differences(old: Any, new: Any, path: str, depth: int) -> Iterator[tuple[str, Any, Any]]:
    """Yield the path, the old and the new value of each difference; None stands for a field that is not there."""
    if path in _MAPS:
        old, new = {} if old is None else old, {} if new is None else new
    entries = None if depth == _DEEPEST else _entries(old, new)
    if entries is None:
        yield path, old, new
        return
    before, after, is_list = entries
    for name in (*after, *(name for name in before if name not in after)):
        if path.startswith(_METADATA) and (name in _OWN_METADATA or name.startswith(_OWN_ANNOTATIONS)):
            continue
        had, has = before.get(name), after.get(name)
        if had is not has and had != has:
            is_plain = not is_list and "." not in name and "/" not in name
            at = f"{path}.{name}" if is_plain and path else name if not path else f"{path}[{name}]"
            yield from _differences(had, has, at, depth + 1)


def _entries(old: Any, new: Any) -> tuple[_Object, _Object, bool] | None:
    """Return the entries to compare, and whether they are a list; None for values."""
    if isinstance(old, dict) and isinstance(new, dict):
        return old, new, False
    if isinstance(old, list) and isinstance(new, list):
        before, after = _by_name(old), _by_name(new)
        return (before, after, True) if before is not None and after is not None else None
    return None


def _by_name(entries: list[Any]) -> dict[str, Any] | None:
    named = {each["name"]: each for each in entries if isinstance(each, dict) and isinstance(each.get("name"), str)}
    return named if len(named) == len(entries) and named else None


def _shown(kind: str, path: str, old: Any, new: Any) -> str:
    if kind not in _CLOSED and path.rpartition(".")[2] in _SHOWN and not isinstance(old or new, dict | list):
        absent = "False" if isinstance(old or new, bool) else "none"  # Kubernetes' JSON leaves out a false
        values = [clipped(absent if each is None else str(each), _LONGEST_FIELD // 2) for each in (old, new)]
        return f"{clipped(path, _LONGEST_FIELD)}: {values[0]} → {values[1]}"
    return clipped(path, _LONGEST_FIELD)
