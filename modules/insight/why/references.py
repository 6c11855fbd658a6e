"""The objects that a pod cannot start without, and which of them are not there."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from modules.apimachinery.generated_names import ephemeral_claim_name
from modules.apimachinery.printing.fields import JsonObject, map_at, objects_at, text_at, value_at

MAX_REFERENCES: Final = 64
"""References of one pod that are looked up; the rest are not, and an answer mentions it."""
SENT_TO_NODES: Final = ("ConfigMap", "Secret")
"""The kinds of references that a node is sent; of others it does not know whether they exist."""
PULL: Final = "the pull of its images"
"""The user of Secrets without which a pod still starts if its images are there, or need no login."""
_CONTAINERS: Final = ("initContainers", "containers")
_FROM: Final = (("configMapRef", "ConfigMap"), ("secretRef", "Secret"))
_KEYS: Final = (("configMapKeyRef", "ConfigMap"), ("secretKeyRef", "Secret"))


class Reference(NamedTuple):
    """An object that a pod names and that has to exist before the pod can start."""

    kind: str
    name: str
    user: str
    """The part of the pod that needs it: `container app`, `volume data`, `the pod`."""
    keys: tuple[str, ...] = ()
    """Keys that its data must have."""


class Missing(NamedTuple):
    """A reference to an object that does not exist, or that lacks a key."""

    reference: Reference
    key: str = ""
    """The key that the object lacks; empty when the object itself does not exist."""

    def text(self, *, on_node: bool) -> str:
        """Return the missing object as a clause: `container app needs the ConfigMap settings, which does not exist`.

        Args:
            on_node: whether a node was asked, which knows only the objects that it was sent.
        """
        ref = self.reference
        what = f"{ref.user} needs the {ref.kind} {ref.name}"
        if self.key:
            return f"{what}, which has no key {self.key}"
        return f"{what}, which this node does not have" if on_node else f"{what}, which does not exist"


def references_of(pod: JsonObject) -> list[Reference]:
    """Return the objects that a pod cannot start without, and its pull secrets; optional references are left out."""
    return list(dict.fromkeys((*_of_containers(pod), *_of_volumes(pod), *_of_pod(pod))))


def missing_of(reference: Reference, obj: JsonObject | None) -> Missing | None:
    """Return the missing part of a reference to `obj` (None: it does not exist); None if nothing is missing."""
    if obj is None:
        return Missing(reference)
    data = {**map_at(obj, "data"), **map_at(obj, "binaryData")}
    lacking = next((key for key in reference.keys if key not in data), None)
    return None if lacking is None else Missing(reference, lacking)


def _of_containers(pod: JsonObject) -> Iterator[Reference]:
    for field in _CONTAINERS:
        for container in objects_at(pod, f"spec.{field}"):
            user = f"container {text_at(container, 'name')}"
            for source in objects_at(container, "envFrom"):
                yield from _named(source, _FROM, user)
            for variable in objects_at(container, "env"):
                yield from _named(map_at(variable, "valueFrom"), _KEYS, user)


def _of_volumes(pod: JsonObject) -> Iterator[Reference]:
    for volume in objects_at(pod, "spec.volumes"):
        user = f"volume {text_at(volume, 'name')}"
        yield from _of_source(volume, user)
        for source in objects_at(volume, "projected.sources"):
            yield from _of_source(source, user)
        claim = text_at(volume, "persistentVolumeClaim.claimName")
        if not claim and "ephemeral" in volume:
            claim = ephemeral_claim_name(text_at(pod, "metadata.name"), text_at(volume, "name"))
        if claim:
            yield Reference("PersistentVolumeClaim", claim, user)


def _of_source(source: JsonObject, user: str) -> Iterator[Reference]:
    for field, kind in (("configMap", "ConfigMap"), ("secret", "Secret")):
        part = map_at(source, field)
        name = text_at(part, "name") or text_at(part, "secretName")
        if name and not value_at(part, "optional"):
            keys = (text_at(item, "key") for item in objects_at(part, "items"))
            yield Reference(kind, name, user, tuple(key for key in keys if key))


def _of_pod(pod: JsonObject) -> Iterator[Reference]:
    for field, kind in (("priorityClassName", "PriorityClass"), ("runtimeClassName", "RuntimeClass")):
        name = text_at(pod, f"spec.{field}")
        if name and not name.startswith("system-"):
            yield Reference(kind, name, "the pod")
    for secret in objects_at(pod, "spec.imagePullSecrets"):
        if name := text_at(secret, "name"):
            yield Reference("Secret", name, PULL)


def _named(source: JsonObject, fields: tuple[tuple[str, str], ...], user: str) -> Iterator[Reference]:
    for field, kind in fields:
        part = map_at(source, field)
        name, key = text_at(part, "name"), text_at(part, "key")
        if name and not value_at(part, "optional"):
            yield Reference(kind, name, user, (key,) if key else ())
