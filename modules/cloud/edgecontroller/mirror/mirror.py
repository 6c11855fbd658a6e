"""The objects of a cluster, as compact JSON in memory."""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from beehive.decoding import json_decoder
from modules.apimachinery.kinds import JsonObject, Kind, ObjectKey
from modules.apimachinery.lister import Revision
from modules.apimachinery.pod_references import other_references_of, references_of
from modules.cloud.client.reflector.observations import ObservedObject
from modules.cloud.storage.object_storage import EventType, ObjectEvent
from modules.cloud.storage.stored_changes import StoredChange

_DECODED: Final = 64
"""Objects that are kept decoded: a request looks at its object several times."""
_MANAGED: Final = b'"managedFields"'
_PARTS: Final = json_decoder(dict[str, msgspec.Raw])
_log = logging.getLogger(__name__)

_METADATA: Final = ("name", "namespace", "uid", "resourceVersion")
_POD_METADATA: Final = (*_METADATA, "labels", "deletionTimestamp")
_POD_SPEC: Final = ("nodeName", "hostNetwork", "serviceAccountName", "serviceAccount")
_POD_STATUS: Final = ("phase", "hostIP", "podIP")
_CONTAINER: Final = ("name", "ports")
_CONDITION: Final = ("type", "status")

HAVE_PARTS: Final = frozenset({"Pod", "ConfigMap", "Secret"})
"""The kinds of most objects of a cluster. Of others the whole object is kept."""


class _Mirrored(msgspec.Struct, frozen=True, gc=False):
    uid: str
    version: str
    body: bytes
    is_whole: bool = True
    """Whether the body is the object's, and not the JSON of its part."""


def _always(_key: ObjectKey, _obj: JsonObject, _size: int) -> bool:
    return True


def partial_object(obj: JsonObject) -> JsonObject:
    """Return the kept part of an object of one of `HAVE_PARTS`: its names and version, and of a pod also its node, its
    references and its address.
    """
    part = {"kind": obj["kind"], "apiVersion": obj["apiVersion"]}
    if obj["kind"] != "Pod":
        return {**part, "metadata": _of(obj["metadata"], _METADATA)}
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    containers = [_of(each, _CONTAINER) for each in spec.get("containers") or []]
    conditions = [_of(each, _CONDITION) for each in status.get("conditions") or []]
    return {
        **part,
        "metadata": _of(obj["metadata"], _POD_METADATA),
        "spec": _of(spec, _POD_SPEC) | {"containers": containers, "volumes": _references(obj)},
        "status": _of(status, _POD_STATUS) | {"conditions": conditions},
    }


def _references(pod: JsonObject) -> list[JsonObject]:
    """Return volumes that have the references of a pod, wherever its spec names them: `references_of` and
    `other_references_of` find the same in them.
    """
    sent, volumes = references_of(pod), []
    for key in sent:
        is_secret = key.kind == "Secret"
        volumes.append({"secret": {"secretName": key.name}} if is_secret else {"configMap": {"name": key.name}})
    for key in other_references_of(pod):
        if key.kind == "PersistentVolumeClaim":
            volumes.append({"persistentVolumeClaim": {"claimName": key.name}})
        elif key.kind == "Secret":
            volumes.append({"azureFile": {"secretName": key.name}})
    return volumes


def _of(obj: JsonObject, names: tuple[str, ...]) -> JsonObject:
    return {name: obj[name] for name in names if name in obj}


class Mirror:
    """The objects that an API server has told of, with an event for each change (`ObjectStore`).

    Each object is kept as the JSON that was sent, without `managedFields`, and decoded when it is used: decoded objects
    need four to six times the memory. Of pods, configmaps and secrets that no node needs here only a part is kept
    (`partial_object`). Only edgecontroller's thread calls this.

    Args:
        keeps: returns whether the body of a pod, configmap or secret, of so many bytes, is kept when the API server
            sends it.
    """

    def __init__(self, keeps: Callable[[ObjectKey, JsonObject, int], bool] = _always) -> None:
        self._keeps = keeps
        self._version = 1
        self._objects: defaultdict[str, dict[ObjectKey, _Mirrored]] = defaultdict(dict)
        """By kind."""
        self._decoded: dict[ObjectKey, JsonObject] = {}
        """The decoded objects that were used last."""
        self._events: list[ObjectEvent] = []
        self._since: list[tuple[ObjectEvent, _Mirrored | None]] = []
        """The changes since the savepoint, in order, each with the earlier object."""
        self._saved_version = self._version

    @property
    def version(self) -> int:
        """The latest version that was given; the versions of objects are the API server's."""
        return self._version

    def next_version(self) -> int:
        """Return a new version for a row of the database."""
        self._version += 1
        return self._version

    def find(self, key: ObjectKey) -> JsonObject | None:
        """Return the object, or its kept part, or None. It must not be changed."""
        obj = self._decoded.get(key)
        if obj is None:
            mirrored = self._objects[key.kind].get(key)
            if mirrored is None:
                return None
            obj = msgspec.json.decode(mirrored.body)
            self._keep_decoded(key, obj)
        return obj

    def revision_of(self, key: ObjectKey) -> Revision | None:
        """Return the uid and resourceVersion of an object, or None."""
        mirrored = self._objects[key.kind].get(key)
        return None if mirrored is None else Revision(mirrored.uid, mirrored.version)

    def find_whole(self, key: ObjectKey) -> JsonObject | None:
        """Return the object; None if it is not here, or only a part of it. It must not be changed."""
        return None if self.is_partial(key) else self.find(key)

    def is_partial(self, key: ObjectKey) -> bool:
        """Return whether an object is here, but without its body."""
        mirrored = self._objects[key.kind].get(key)
        return mirrored is not None and not mirrored.is_whole

    def whole(self, kind: str) -> list[ObjectKey]:
        """Return the objects of a kind whose bodies are here."""
        return [key for key, mirrored in self._objects[kind].items() if mirrored.is_whole]

    def body_of(self, key: ObjectKey, version: str) -> bytes | None:
        """Return the JSON of a version of an object, None if that is not the present one, or only a part of it."""
        mirrored = self._objects[key.kind].get(key)
        is_wanted = mirrored is not None and mirrored.is_whole and mirrored.version == version
        return mirrored.body if mirrored is not None and is_wanted else None

    def observe(self, kind: Kind, observed: ObservedObject) -> None:
        """Take over an object that exists. An equal state is no change. An object that cannot be read is dropped, with
        a line in the log. An object that was here in part, and comes with its body now, is added with the part as its
        earlier state.
        """
        read = compact(kind, observed)
        if read is None:
            return
        obj, body = read
        key = ObjectKey(kind.key_name, observed.namespace, observed.name)
        is_whole = key.kind not in HAVE_PARTS or self._keeps(key, obj, len(body))
        if not is_whole:
            obj = partial_object(obj)
            body = msgspec.json.encode(obj)
        was_partial, old = self.is_partial(key), self.find(key)
        if old is not None and self._objects[key.kind][key].uid != observed.uid:
            self._remove(key, old, "")
            old = None
        now = _Mirrored(observed.uid, observed.resource_version, body, is_whole)
        if obj != old:
            change = EventType.ADDED if old is None or (was_partial and is_whole) else EventType.MODIFIED
            self._note(ObjectEvent(change, key, obj, old), now)
            self._keep_decoded(key, obj)
        elif was_partial:
            self._set(key, now)

    def complete(self, kind: Kind, observed: ObservedObject) -> bool:
        """Take the body of an object that is here in part, and return whether it was one. A body of another
        version is not taken: the watch tells of that version, too.
        """
        key = ObjectKey(kind.key_name, observed.namespace, observed.name)
        known = self._objects[key.kind].get(key)
        if known is None or known.is_whole or (known.uid, known.version) != (observed.uid, observed.resource_version):
            return False
        read = compact(kind, observed)
        if read is not None:
            self._set(key, _Mirrored(known.uid, known.version, read[1]))
        return read is not None

    def drop_body(self, key: ObjectKey) -> None:
        """Keep only a part of an object; nothing if it is not here, or no more of it."""
        known, obj = self._objects[key.kind].get(key), self.find_whole(key)
        if known is not None and obj is not None and key.kind in HAVE_PARTS:
            body = msgspec.json.encode(partial_object(obj))
            self._set(key, _Mirrored(known.uid, known.version, body, is_whole=False))

    def remove(self, key: ObjectKey, version: str = "") -> None:
        """Take over that an object is gone; nothing if it is not here.

        Args:
            key: the object.
            version: the resourceVersion of the deletion; "" leaves the last one.
        """
        old = self.find(key)
        if old is not None:
            self._remove(key, old, version)

    def take_events(self) -> list[ObjectEvent]:
        """Return the changes since the last call, in order."""
        events, self._events = self._events, []
        return events

    def set_savepoint(self) -> None:
        """Set the savepoint to which `roll_back` returns. All events must have been taken."""
        self._since.clear()
        self._saved_version = self._version

    def roll_back(self) -> list[ObjectEvent]:
        """Undo the changes since the savepoint, and return them, newest first."""
        undone = list(reversed(self._since))
        for event, before in undone:
            self._set(event.key, before)
        self._version = self._saved_version
        self._events.clear()
        self._since.clear()
        return [event for event, _ in undone]

    def adopt(
        self,
        found: Iterable[tuple[ObjectKey, JsonObject | None]],
        version: int,
        *,
        complete: bool,
        changes: Iterable[StoredChange] = (),  # noqa: ARG002 - with the changes of objects
    ) -> None:
        """Go on with a version of other cloudcores. The database has no objects of a cluster."""
        if complete or any(True for _ in found):
            _log.error("the database has objects, but they are the cluster's: they are not used")
        self._version = max(self._version, version)
        self.set_savepoint()

    def list(self, kind: Kind, namespace: str | None = None) -> list[JsonObject]:
        """Return the objects of a kind, in all namespaces or in one, ordered by namespace and name."""
        objects = self._objects[kind.key_name]
        keys = sorted(key for key in objects if namespace in (None, key.namespace))
        return [msgspec.json.decode(objects[key].body) for key in keys]

    def _remove(self, key: ObjectKey, old: JsonObject, version: str) -> None:
        last = {**old["metadata"], "resourceVersion": version or self._objects[key.kind][key].version}
        self._note(ObjectEvent(EventType.DELETED, key, {**old, "metadata": last}, old), None)

    def _note(self, event: ObjectEvent, now: _Mirrored | None) -> None:
        self._events.append(event)
        self._since.append((event, self._objects[event.key.kind].get(event.key)))
        self._set(event.key, now)

    def _set(self, key: ObjectKey, mirrored: _Mirrored | None) -> None:
        self._decoded.pop(key, None)
        if mirrored is None:
            self._objects[key.kind].pop(key, None)
        else:
            self._objects[key.kind][key] = mirrored

    def _keep_decoded(self, key: ObjectKey, obj: JsonObject) -> None:
        if len(self._decoded) >= _DECODED:
            del self._decoded[next(iter(self._decoded))]
        self._decoded[key] = obj


def compact(kind: Kind, observed: ObservedObject) -> tuple[JsonObject, bytes] | None:
    """Return an object without its `managedFields`, decoded and as JSON; None if it is not an object."""
    if observed.shared is not None:
        metadata = {name: value for name, value in observed.shared["metadata"].items() if name != "managedFields"}
        own = {**observed.shared, "metadata": metadata, "kind": kind.name, "apiVersion": kind.api_version}
        return own, msgspec.json.encode(own)
    body = observed.body
    try:
        if _MANAGED in body:
            body = _without_managed_fields(body)
        obj = msgspec.json.decode(body) if body else None
        if not isinstance(obj, dict) or not isinstance(obj.get("metadata"), dict):
            return None
        if (obj.get("kind"), obj.get("apiVersion")) == (kind.name, kind.api_version):
            return obj, body
        obj = {**obj, "kind": kind.name, "apiVersion": kind.api_version}
        return obj, msgspec.json.encode(obj)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        _log.warning("one of the %s cannot be read: %s", kind.plural, error)
        return None


def _without_managed_fields(body: bytes) -> bytes:
    """Return an object's JSON without `metadata.managedFields`; they are often its larger half, and not decoded."""
    parts = _PARTS.decode(body)
    metadata = _PARTS.decode(parts.get("metadata", b"{}"))
    if metadata.pop("managedFields", None) is not None:
        parts["metadata"] = msgspec.Raw(msgspec.json.encode(metadata))
    return msgspec.json.encode(parts)
