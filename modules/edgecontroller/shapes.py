"""The form an object must have where this code, or an edge, reads it: for people's manifests and edges' reports alike.

Objects are kept as plain JSON, so that nothing in them is lost; before one is stored, it is converted once to the
types of `edged.api`, to see that it can be. Whatever else is in it is nobody's business here.
"""

from typing import Any, TypeVar

import msgspec
from msgspec import field

from edged.api import ConfigMap, KubeStruct, Lease, Node, ObjectMeta, Pod, Secret
from edged.api.persistent import PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimSpec
from edged.api.quantity import Quantity
from modules.edgecontroller.errors import BadRequestError
from modules.edgecontroller.kinds import JsonObject

T = TypeVar("T")


class _WritableSecret(Secret, frozen=True):
    string_data: dict[str, str] = field(default_factory=dict)


class _Requested(KubeStruct, frozen=True):
    requests: dict[str, Quantity] = field(default_factory=dict)


class _ClaimSpec(PersistentVolumeClaimSpec, frozen=True):
    resources: _Requested = field(default_factory=_Requested)


class _Claim(PersistentVolumeClaim, frozen=True):
    spec: _ClaimSpec = field(default_factory=_ClaimSpec)


class _AnyObject(KubeStruct, frozen=True):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)


_TYPES: dict[str, type[KubeStruct]] = {
    "Pod": Pod,
    "Node": Node,
    "ConfigMap": ConfigMap,
    "Secret": _WritableSecret,
    "Lease": Lease,
    "PersistentVolume": PersistentVolume,
    "PersistentVolumeClaim": _Claim,
}


def check_form(obj: JsonObject) -> None:
    """Checks that an object can be read wherever objects are read.

    Raises:
        BadRequestError: it cannot; names the field.
    """
    convert(obj, _TYPES.get(str(obj.get("kind")), _AnyObject), str(obj.get("kind", "object")))


def convert(value: Any, shape: type[T], what: str) -> T:
    """The value as that class, for reading it; null members count as absent, as in Go.

    Raises:
        BadRequestError: it is not of that form; names the field.
    """
    try:
        return msgspec.convert(without_null_members(value), shape)
    except msgspec.ValidationError as error:
        raise BadRequestError(f"{what}: {error}") from error


def without_null_members(value: Any) -> Any:
    """The JSON value as an API server stores it: a null member is as good as none. Nulls in lists stay."""
    if isinstance(value, dict):
        return {key: without_null_members(member) for key, member in value.items() if member is not None}
    if isinstance(value, list):
        return [without_null_members(element) for element in value]
    return value
