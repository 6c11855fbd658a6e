"""The merge strategies of lists in Kubernetes objects, for strategic merge patches.

Kubernetes declares them beside each field of its Go types (`patchStrategy`, `patchMergeKey`). They cover the objects
that an edge patches, pods and nodes, of workloads with their templates of pods, and of all objects' metadata. Any other
list is replaced whole (`listType=atomic`), as `containerStatuses` and `tolerations` are.
"""

from collections.abc import Mapping
from types import MappingProxyType

import msgspec


class MergeSchema(msgspec.Struct, frozen=True):
    """The merge strategies of an object's fields."""

    fields: Mapping[str, "MergeField"] = MappingProxyType({})


class MergeField(msgspec.Struct, frozen=True):
    """The merge strategy of one field."""

    schema: MergeSchema = MergeSchema()
    """The schema of the field's value, or of its elements when it is a list."""
    merge_key: str = ""
    """The merge key of a list: elements with an equal value of it are the same element."""
    is_set: bool = False
    """Whether the list holds plain values and is merged as a set."""


PLAIN = MergeField()
"""The default strategy: objects are merged, lists replaced."""


def _fields(**fields: MergeField) -> MergeSchema:
    return MergeSchema(fields)


def _by(merge_key: str, schema: MergeSchema | None = None) -> MergeField:
    return MergeField(schema or MergeSchema(), merge_key)


_SET = MergeField(is_set=True)

_METADATA = MergeField(_fields(ownerReferences=_by("uid"), finalizers=_SET))

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
    "Pod": _fields(metadata=_METADATA, spec=MergeField(_POD_SPEC), status=MergeField(_POD_STATUS)),
    "Node": _fields(metadata=_METADATA, spec=MergeField(_fields(podCIDRs=_SET)), status=MergeField(_NODE_STATUS)),
}

_METADATA_ONLY = _fields(metadata=_METADATA)

_TEMPLATE = _fields(metadata=_METADATA, spec=MergeField(_POD_SPEC))
_WITH_TEMPLATE = _fields(template=MergeField(_TEMPLATE))
_CONDITIONS = MergeField(_fields(conditions=_by("type")))
_WORKLOAD = _fields(metadata=_METADATA, spec=MergeField(_WITH_TEMPLATE), status=_CONDITIONS)

_SCHEMAS |= {
    **dict.fromkeys(
        ("Deployment", "ReplicaSet", "ReplicationController", "DaemonSet", "StatefulSet", "Job"), _WORKLOAD
    ),
    "CronJob": _fields(
        metadata=_METADATA,
        spec=MergeField(_fields(jobTemplate=MergeField(_fields(spec=MergeField(_WITH_TEMPLATE))))),
    ),
    "PodTemplate": _fields(metadata=_METADATA, template=MergeField(_TEMPLATE)),
    **dict.fromkeys(
        ("PodDisruptionBudget", "FlowSchema", "PriorityLevelConfiguration"),
        _fields(metadata=_METADATA, status=_CONDITIONS),
    ),
}


def schema_of(kind: str) -> MergeSchema:
    """Return the schema of a kind."""
    return _SCHEMAS.get(kind, _METADATA_ONLY)
