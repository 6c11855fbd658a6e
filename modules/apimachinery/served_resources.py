"""The resources that the API server serves: its kinds, as discovery lists them."""

from typing import Final

import msgspec

from modules.apimachinery.autoscaler_versions import KIND, OLDER
from modules.apimachinery.event_versions import EVENTS
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
    "PodDisruptionBudget", "ReplicationController", "ResourceClaim", "ResourceQuota",
    "CustomResourceDefinition", "Ingress", "HorizontalPodAutoscaler", "FlowSchema", "PriorityLevelConfiguration",
)  # fmt: skip
_WITH_SCALE: Final = ("Deployment", "ReplicaSet", "ReplicationController", "StatefulSet")
_IN_ALL: Final = (
    "Pod", "Service", "Deployment", "ReplicaSet", "DaemonSet", "StatefulSet", "Job", "CronJob", "ReplicationController",
    "HorizontalPodAutoscaler",
)  # fmt: skip
_CATEGORIES: Final = {
    **dict.fromkeys(_IN_ALL, ("all",)),
    "CustomResourceDefinition": ("api-extensions",),
}
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

_PROXIED: Final = ("create", "delete", "get", "patch", "update")
_CONNECTED: Final = {
    "Pod": (
        ConnectedSubresource("log", "Pod", ("get",)),
        ConnectedSubresource("exec", "PodExecOptions"),
        ConnectedSubresource("attach", "PodAttachOptions"),
        ConnectedSubresource("portforward", "PodPortForwardOptions"),
        ConnectedSubresource("proxy", "PodProxyOptions", _PROXIED),
    ),
    "Service": (ConnectedSubresource("proxy", "ServiceProxyOptions", _PROXIED),),
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
        categories=_CATEGORIES.get(kind.key_name, ()),
        subresources=_subresources(kind),
        created_subresources=_CREATED.get(kind.key_name, ()),
        connected_subresources=_CONNECTED.get(kind.key_name, ()),
        verbs=(*READ_VERBS, *WRITE_VERBS, *(("deletecollection",) if kind.key_name != "Namespace" else ())),
        stored_version=kind.api_version,
    )


def _subresources(kind: Kind) -> tuple[str, ...]:
    status = ("status",) if kind.key_name in _WITH_STATUS else ()
    scale = (SCALE,) if kind.key_name in _WITH_SCALE else ()
    return (*_FURTHER.get(kind.key_name, ()), *scale, *status)


RESOURCES: Final = tuple(_resource(kind) for kind in KINDS)
_BY_KIND: Final = {one.kind: one for one in RESOURCES}
AUTOSCALERS: Final = msgspec.structs.replace(_BY_KIND[KIND.name], version=OLDER.partition("/")[2])
"""HorizontalPodAutoscalers in the older version."""
BUILT_IN: Final = (*RESOURCES, EVENTS, AUTOSCALERS)
"""The resources whose objects can be read and written: two of them are a second view of the same objects."""
_CREATE: Final = ("create",)
_REVIEWED: Final = {
    "authentication.k8s.io": (("SelfSubjectReview", False), ("TokenReview", False)),
    "authorization.k8s.io": (
        ("LocalSubjectAccessReview", True),
        ("SelfSubjectAccessReview", False),
        ("SelfSubjectRulesReview", False),
        ("SubjectAccessReview", False),
    ),
}
"""By group: the kinds that are only created, to ask for something, and whether they are namespaced."""
REVIEWS: Final = tuple(
    Resource(
        kind=kind, plural=f"{kind.lower()}s", token=kind.lower(), group=group, namespaced=is_namespaced, verbs=_CREATE
    )
    for group, kinds in _REVIEWED.items()
    for kind, is_namespaced in kinds
)

BINDINGS: Final = Resource(kind="Binding", plural="bindings", token="binding", verbs=_CREATE)  # noqa: S106 - a word
"""What is created to give a pod of the same name its node, like the pod's own `binding`."""


def resource_of(kind: Kind) -> Resource:
    """Return the resource of a kind."""
    return _resource(kind) if kind.is_custom else _BY_KIND[kind.name]
