"""The admission plug-ins DefaultStorageClass, PersistentVolumeClaimResize and DefaultIngressClass."""

from fractions import Fraction
from typing import Final, NamedTuple

from modules.apimachinery.api_errors import ForbiddenError
from modules.apimachinery.kinds import JsonObject, Kind, key_for, kind_named
from modules.apimachinery.lister import Lister
from modules.apimachinery.types.quantity import QuantityError, parse_quantity


class _Classes(NamedTuple):
    """The classes of a kind of objects."""

    kind: Kind
    defaults: tuple[str, ...]
    """The annotations that make one the default."""
    field: str
    """The field of an object's spec that names one."""
    annotation: str
    """What named one before there was the field."""


_STORAGE: Final = _Classes(
    kind_named("StorageClass"),
    ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"),
    "storageClassName",
    "volume.beta.kubernetes.io/storage-class",
)
_INGRESS: Final = _Classes(
    kind_named("IngressClass"),
    ("ingressclass.kubernetes.io/is-default-class",),
    "ingressClassName",
    "kubernetes.io/ingress.class",
)


def with_storage_class(claim: JsonObject, live: JsonObject | None, objects: Lister) -> JsonObject:
    """Return a new claim with the default StorageClass, if there is one and the claim names none."""
    return claim if live is not None else _with_default(claim, _STORAGE, objects)


def with_ingress_class(ingress: JsonObject, live: JsonObject | None, objects: Lister) -> JsonObject:
    """Return a new Ingress with the default IngressClass, if there is one and the Ingress names none."""
    return ingress if live is not None else _with_default(ingress, _INGRESS, objects)


def _with_default(obj: JsonObject, classes: _Classes, objects: Lister) -> JsonObject:
    """Return an object with the class that is the default: of several, the newest, and of those the first by name."""
    spec, annotations = obj.get("spec") or {}, obj["metadata"].get("annotations") or {}
    if spec.get(classes.field) is not None or classes.annotation in annotations:
        return obj
    named = sorted(
        (each["metadata"] for each in objects.list(classes.kind) if _is_default(each, classes)),
        key=lambda metadata: str(metadata["name"]),
    )
    newest = max(named, key=lambda metadata: str(metadata.get("creationTimestamp")), default=None)
    return obj if newest is None else {**obj, "spec": {**spec, classes.field: newest["name"]}}


def _is_default(obj: JsonObject, classes: _Classes) -> bool:
    annotations = obj["metadata"].get("annotations") or {}
    return any(annotations.get(name) == "true" for name in classes.defaults)


def check_resize(claim: JsonObject, live: JsonObject | None, objects: Lister) -> None:
    """Check that volumes of the class of a claim that asks for more can grow. That it is bound is a rule of its kind.

    Raises:
        ForbiddenError: they cannot.
    """
    if live is None or _storage(claim) <= _storage(live):
        return
    name = live["spec"].get("storageClassName")
    found = objects.find(key_for(_STORAGE.kind, "", str(name))) if name else None
    if found is None or not found.get("allowVolumeExpansion"):
        must = "the storageclass that provisions the pvc must support resize"
        why = f"only dynamically provisioned pvc can be resized and {must}"
        raise ForbiddenError("persistentvolumeclaims", claim["metadata"]["name"], why)


def _storage(claim: JsonObject) -> Fraction:
    requests = (claim["spec"].get("resources") or {}).get("requests") or {}
    try:
        return parse_quantity(requests.get("storage") or "0")
    except QuantityError:  # an older version may have stored it
        return Fraction(0)
