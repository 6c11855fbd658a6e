"""The resources that the API server serves: its kinds, as discovery lists them."""

from typing import Final

from modules.apimachinery.kinds import KINDS, Kind
from modules.apimachinery.resources import (
    READ_VERBS,
    SCALE,
    WRITE_VERBS,
    ConnectedSubresource,
    CreatedSubresource,
    Resource,
)

_WITH_STATUS: Final = (
    "Pod", "Service", "Node", "Namespace", "PersistentVolume", "PersistentVolumeClaim", "VolumeAttachment",
    "CertificateSigningRequest", "Deployment", "ReplicaSet", "DaemonSet", "StatefulSet", "Job", "CronJob",
    "PodDisruptionBudget", "ReplicationController", "ResourceClaim",
)  # fmt: skip
_WITH_SCALE: Final = ("Deployment", "ReplicaSet", "StatefulSet")
_IN_ALL: Final = ("Pod", "Service", "Deployment", "ReplicaSet", "DaemonSet", "StatefulSet", "Job", "CronJob")
_FURTHER: Final = {
    "Pod": ("ephemeralcontainers",),
    "Namespace": ("finalize",),
    "CertificateSigningRequest": ("approval",),
}
"""The subresources that are read and updated, beside `scale` and `status`."""
_CREATED: Final = {
    "Pod": (CreatedSubresource("binding", "Binding"), CreatedSubresource("eviction", "Eviction", "policy", "v1")),
    "ServiceAccount": (CreatedSubresource("token", "TokenRequest", "authentication.k8s.io", "v1"),),
}

_CONNECTED: Final = {
    "Pod": (
        ConnectedSubresource("log", "Pod", ("get",)),
        ConnectedSubresource("exec", "PodExecOptions"),
        ConnectedSubresource("attach", "PodAttachOptions"),
        ConnectedSubresource("portforward", "PodPortForwardOptions"),
    ),
    "Node": (ConnectedSubresource("proxy", "NodeProxyOptions", ("get",)),),
}


def _resource(kind: Kind) -> Resource:
    return Resource(
        kind=kind.name,
        plural=kind.plural,
        token=kind.singular,
        group=kind.api_group,
        version=kind.api_version.rpartition("/")[2],
        namespaced=kind.namespaced,
        short_names=kind.short_names,
        categories=("all",) if kind.name in _IN_ALL else (),
        subresources=_subresources(kind),
        created_subresources=_CREATED.get(kind.name, ()),
        connected_subresources=_CONNECTED.get(kind.name, ()),
        verbs=(*READ_VERBS, *WRITE_VERBS, "deletecollection"),
    )


def _subresources(kind: Kind) -> tuple[str, ...]:
    status = ("status",) if kind.name in _WITH_STATUS else ()
    scale = (SCALE,) if kind.name in _WITH_SCALE else ()
    return (*_FURTHER.get(kind.name, ()), *scale, *status)


RESOURCES: Final = tuple(_resource(kind) for kind in KINDS)

_BY_KIND: Final = {one.kind: one for one in RESOURCES}


def resource_of(kind: Kind) -> Resource:
    """Return the resource of a kind."""
    return _resource(kind) if kind.is_custom else _BY_KIND[kind.name]
