"""Which node's pods refer to what (the node authorizer's graph), kept up with each change of a pod or a volume.

A change costs what the pod or the volume refers to; a question costs a look or two, however many pods there are.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

from modules.edgecontroller.kinds import JsonObject, ObjectKey, key_of
from modules.edgecontroller.references import other_references_of, references_of
from modules.edgecontroller.store import Change, ObjectEvent, ObjectStore

_VOLUME: Final = "PersistentVolume"
_CLAIM: Final = "PersistentVolumeClaim"
_SECRET: Final = "Secret"  # noqa: S105 - a kind, not a password
_NAMESPACE: Final = "default"


class Graph:
    """Knows what the pods of each node refer to, and which volumes name which secrets.

    Args:
        store: the objects.
    """

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._pods: dict[ObjectKey, tuple[str, tuple[ObjectKey, ...]]] = {}
        """The node of each pod, and what it refers to."""
        self._referred: defaultdict[str, Counter[ObjectKey]] = defaultdict(Counter)
        """How many of a node's pods refer to an object."""
        self._secrets: dict[str, tuple[ObjectKey, ...]] = {}
        """Which secrets each volume names."""
        self._volumes: defaultdict[ObjectKey, dict[str, None]] = defaultdict(dict)
        """Which volumes name a secret."""

    def learn(self, objects: Iterable[JsonObject]) -> None:
        """Takes over objects as they are."""
        for obj in objects:
            self._put(key_of(obj), obj)

    def changed(self, event: ObjectEvent) -> None:
        """Keeps up with a change."""
        self._put(event.key, None if event.change is Change.DELETED else event.new)

    def undone(self, event: ObjectEvent) -> None:
        """Goes back to how an object was before a change that is so no more."""
        self._put(event.key, event.old)

    def find(self, key: ObjectKey) -> JsonObject | None:
        """An object as it is now."""
        return self._store.find(key)

    def refers(self, node: str, key: ObjectKey) -> bool:
        """Whether a pod of a node refers to an object: by itself, or by its claim to the volume, or of the volume."""
        if self._by_pod(node, key):
            return True
        if key.kind == _VOLUME:
            return self._by_claim(node, key.name)
        return key.kind == _SECRET and any(self._by_claim(node, volume) for volume in self._volumes.get(key, ()))

    def _by_pod(self, node: str, key: ObjectKey) -> bool:
        of_node = self._referred.get(node)
        return of_node is not None and key in of_node

    def _by_claim(self, node: str, volume: str) -> bool:
        """Both ends of the binding must say so: a claim may name any volume."""
        obj = self._store.find(ObjectKey(_VOLUME, "", volume))
        claim = (_spec(obj) if obj else {}).get("claimRef")
        if not isinstance(claim, dict):
            return False
        key = ObjectKey(_CLAIM, str(claim.get("namespace") or _NAMESPACE), str(claim.get("name")))
        return self._by_pod(node, key)

    def _put(self, key: ObjectKey, obj: JsonObject | None) -> None:
        if key.kind == "Pod":
            self._put_pod(key, obj)
        elif key.kind == _VOLUME:
            for secret in self._secrets.pop(key.name, ()):
                self._volumes[secret].pop(key.name, None)
                if not self._volumes[secret]:
                    del self._volumes[secret]
            if obj is not None and (secrets := tuple(_secrets_of(obj))):
                self._secrets[key.name] = secrets
                for secret in secrets:
                    self._volumes[secret][key.name] = None

    def _put_pod(self, key: ObjectKey, pod: JsonObject | None) -> None:
        node, references = self._pods.pop(key, ("", ()))
        if node:
            self._count(node, references, -1)
        node = str(_spec(pod).get("nodeName") or "") if pod is not None else ""
        if pod is None or not node:
            return
        references = tuple(dict.fromkeys([*references_of(pod), *other_references_of(pod)]))
        self._pods[key] = node, references
        self._count(node, references, 1)

    def _count(self, node: str, references: Iterable[ObjectKey], by: int) -> None:
        of_node = self._referred[node]
        for reference in references:
            of_node[reference] += by
            if of_node[reference] <= 0:
                del of_node[reference]
        if not of_node:
            del self._referred[node]


def _spec(obj: JsonObject) -> JsonObject:
    spec = obj.get("spec")
    return spec if isinstance(spec, dict) else {}


def _secrets_of(volume: JsonObject) -> Iterator[ObjectKey]:
    """The secrets that a volume names (Kubernetes' VisitPersistentVolumeSecretNames), in whatever source it has."""
    spec = _spec(volume)
    claim = spec.get("claimRef")
    own = str(claim.get("namespace") or _NAMESPACE) if isinstance(claim, dict) else _NAMESPACE
    for source in spec.values():
        if not isinstance(source, dict):
            continue
        if isinstance(source.get("secretName"), str):
            yield ObjectKey(_SECRET, str(source.get("secretNamespace") or own), source["secretName"])
        for field, reference in source.items():
            if field.lower().endswith("secretref") and isinstance(reference, dict) and reference.get("name"):
                yield ObjectKey(_SECRET, str(reference.get("namespace") or own), str(reference["name"]))
