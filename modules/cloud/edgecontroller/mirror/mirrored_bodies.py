"""Objects in memory as compact JSON, whole or in part; an API server in the same process shares its objects instead."""

import logging
from collections import defaultdict
from typing import Final

import msgspec

from beehive.decoding import decode_json, encode_to_keep, json_decoder
from modules.apimachinery.kinds import JsonObject, Kind, ObjectKey
from modules.apimachinery.pod_references import other_references_of, references_of
from modules.apimachinery.pods.static import CONFIG_MIRROR
from modules.cloud.client.reflector.observations import ObservedObject

_AT_HAND: Final = 64
"""Objects that are kept both decoded and as JSON: a request looks at its object several times."""
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


class Mirrored(msgspec.Struct, frozen=True, gc=False):
    """An object in memory."""

    uid: str
    version: str
    kept: bytes | JsonObject
    """JSON, or the object itself, if the API server in the same process has it in memory all the same."""
    is_whole: bool = True
    """Whether it is the object, and not its part."""

    @property
    def body(self) -> bytes:
        """JSON of the object, or of its part."""
        return self.kept if isinstance(self.kept, bytes) else msgspec.json.encode(self.kept)

    @property
    def obj(self) -> JsonObject:
        """The object, or its part."""
        decoded: JsonObject = decode_json(self.kept) if isinstance(self.kept, bytes) else self.kept
        return decoded


def partial_object(obj: JsonObject) -> JsonObject:
    """Return the kept part of an object of one of `HAVE_PARTS`: its names and version, and of a pod also its node, its
    references and its address, and whether it is a mirror pod.
    """
    part = {"kind": obj["kind"], "apiVersion": obj["apiVersion"]}
    if obj["kind"] != "Pod":
        return {**part, "metadata": _of(obj["metadata"], _METADATA)}
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    containers = [_of(each, _CONTAINER) for each in spec.get("containers") or []]
    conditions = [_of(each, _CONDITION) for each in status.get("conditions") or []]
    mark = {"annotations": {CONFIG_MIRROR: ""}} if CONFIG_MIRROR in (obj["metadata"].get("annotations") or {}) else {}
    return {
        **part,
        "metadata": _of(obj["metadata"], _POD_METADATA) | mark,
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


class MirroredBodies:
    """The objects of the mirror, whole or in part.

    Each is kept as the JSON that was sent, without `managedFields`, and decoded when it is used: decoded objects need
    four to six times the memory. Objects of the same process are kept as they are, and encoded when they are sent.
    """

    def __init__(self) -> None:
        self._objects: defaultdict[str, dict[ObjectKey, Mirrored]] = defaultdict(dict)
        """By kind."""
        self._at_hand: dict[ObjectKey, JsonObject | bytes] = {}
        """The other form of the objects that were used last."""

    def get(self, key: ObjectKey) -> Mirrored | None:
        """Return an object as it is kept, or None."""
        return self._objects[key.kind].get(key)

    def put(self, key: ObjectKey, mirrored: Mirrored | None, other: JsonObject | bytes | None = None) -> None:
        """Keep a state of an object, or forget the object.

        Args:
            key: the object.
            mirrored: its state; None forgets it.
            other: the same state in the form that is not kept, if it is at hand.
        """
        self._at_hand.pop(key, None)
        if mirrored is None:
            self._objects[key.kind].pop(key, None)
            return
        self._objects[key.kind][key] = mirrored
        if other is not None:
            self._keep_at_hand(key, other)

    def find(self, key: ObjectKey) -> JsonObject | None:
        """Return the object, or its kept part, or None. It must not be changed."""
        mirrored = self._objects[key.kind].get(key)
        if mirrored is None:
            return None
        if not isinstance(mirrored.kept, bytes):
            return mirrored.kept
        obj = self._at_hand.get(key)
        if not isinstance(obj, dict):
            obj = mirrored.obj
            self._keep_at_hand(key, obj)
        return obj

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
        if mirrored is None or not mirrored.is_whole or mirrored.version != version:
            return None
        if isinstance(mirrored.kept, bytes):
            return mirrored.kept
        body = self._at_hand.get(key)
        if not isinstance(body, bytes):
            body = mirrored.body
            self._keep_at_hand(key, body)
        return body

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
            self.put(key, Mirrored(known.uid, known.version, read[observed.shared is None]))
        return read is not None

    def drop(self, key: ObjectKey) -> None:
        """Keep only a part of an object; nothing if it is not here, or no more of it."""
        known, obj = self._objects[key.kind].get(key), self.find_whole(key)
        if known is not None and obj is not None and key.kind in HAVE_PARTS:
            body = encode_to_keep(partial_object(obj))
            self.put(key, Mirrored(known.uid, known.version, body, is_whole=False))

    def list(self, kind: Kind, namespace: str | None = None) -> list[JsonObject]:
        """Return the objects of a kind, in all namespaces or in one, ordered by namespace and name."""
        objects = self._objects[kind.key_name]
        keys = sorted(key for key in objects if namespace in (None, key.namespace))
        return [objects[key].obj for key in keys]

    def _keep_at_hand(self, key: ObjectKey, other: JsonObject | bytes) -> None:
        if len(self._at_hand) >= _AT_HAND:
            del self._at_hand[next(iter(self._at_hand))]
        self._at_hand[key] = other


def compact(kind: Kind, observed: ObservedObject) -> tuple[JsonObject, bytes] | None:
    """Return an object without its `managedFields`, decoded and as JSON; None if it is not an object."""
    own = observed.shared
    if own is not None:
        if "managedFields" in own["metadata"]:
            metadata = {name: value for name, value in own["metadata"].items() if name != "managedFields"}
            own = {**own, "metadata": metadata}
        if own.get("kind") == kind.name and own.get("apiVersion") == kind.api_version:
            return own, observed.body or msgspec.json.encode(own)
        own = {**own, "kind": kind.name, "apiVersion": kind.api_version}
        return own, msgspec.json.encode(own)
    body = observed.body
    try:
        if _MANAGED in body:
            body = _without_managed_fields(body)
        obj = decode_json(body) if body else None
        if not isinstance(obj, dict) or not isinstance(obj.get("metadata"), dict):
            return None
        if (obj.get("kind"), obj.get("apiVersion")) == (kind.name, kind.api_version):
            return obj, body
        obj = {**obj, "kind": kind.name, "apiVersion": kind.api_version}
        return obj, encode_to_keep(obj)
    except (msgspec.DecodeError, UnicodeError) as error:
        _log.warning("one of the %s cannot be read: %s", kind.plural, error)
        return None


def _without_managed_fields(body: bytes) -> bytes:
    """Return an object's JSON without `metadata.managedFields`; they are often its larger half, and not decoded."""
    parts = _PARTS.decode(body)
    metadata = _PARTS.decode(parts.get("metadata", b"{}"))
    if metadata.pop("managedFields", None) is not None:
        parts["metadata"] = msgspec.Raw(msgspec.json.encode(metadata))
    return encode_to_keep(parts)
