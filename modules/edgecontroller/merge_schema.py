"""How lists inside Kubernetes objects are merged by a strategic merge patch.

Kubernetes keeps this beside each field of its Go types (`patchStrategy`, `patchMergeKey`); this is that
knowledge for the objects that an edge patches: pods and nodes, and the metadata of all. A list that is not
named here is replaced whole (`listType=atomic`), as `containerStatuses` and `tolerations` are.
"""

from collections.abc import Mapping
from types import MappingProxyType

import msgspec


class Schema(msgspec.Struct, frozen=True):
    """What is known of the fields of a JSON object."""

    fields: Mapping[str, "Field"] = MappingProxyType({})


class Field(msgspec.Struct, frozen=True):
    """How one field is merged."""

    schema: Schema = Schema()
    """Of the field's value, or of its elements when it is a list."""
    merge_key: str = ""
    """The list is a map in disguise: elements with an equal value of this key are the same element."""
    is_set: bool = False
    """The list holds plain values and is merged as a set."""


PLAIN = Field()
"""A field of which nothing is known: objects are merged, lists replaced."""


def _fields(**fields: Field) -> Schema:
    return Schema(fields)


def _by(merge_key: str, schema: Schema | None = None) -> Field:
    return Field(schema or Schema(), merge_key)


_SET = Field(is_set=True)

_METADATA = Field(_fields(ownerReferences=_by("uid"), finalizers=_SET))

_CONTAINER = _fields(
    ports=_by("containerPort"),
    env=_by("name"),
    volumeMounts=_by("mountPath"),
    volumeDevices=_by("devicePath"),
)

_POD_SPEC = _fields(
    containers=_by("name", _CONTAINER),
    initContainers=_by("name", _CONTAINER),
    ephemeralContainers=_by("name", _CONTAINER),
    volumes=_by("name"),
    imagePullSecrets=_by("name"),
    hostAliases=_by("ip"),
    topologySpreadConstraints=_by("topologyKey"),
    resourceClaims=_by("name"),
    schedulingGates=_by("name"),
)

_POD_STATUS = _fields(
    conditions=_by("type"),
    podIPs=_by("ip"),
    hostIPs=_by("ip"),
    resourceClaimStatuses=_by("name"),
)

_NODE_STATUS = _fields(conditions=_by("type"), addresses=_by("type"))

_SCHEMAS = {
    "Pod": _fields(metadata=_METADATA, spec=Field(_POD_SPEC), status=Field(_POD_STATUS)),
    "Node": _fields(metadata=_METADATA, spec=Field(_fields(podCIDRs=_SET)), status=Field(_NODE_STATUS)),
}

_METADATA_ONLY = _fields(metadata=_METADATA)


def schema_of(kind: str) -> Schema:
    """The schema by which an object of the kind is merged."""
    return _SCHEMAS.get(kind, _METADATA_ONLY)
