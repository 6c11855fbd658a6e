"""The types of lists and maps of the built-in kinds, as Kubernetes' OpenAPI has them (`x-kubernetes-list-type`).

Types have their names in `fields.json`. A list that is not here is atomic, except for `conditions`, whose key is
everywhere `type`.
"""

from typing import Any, Final

_CONTAINER: Final = {
    "env": ("name",),
    "ports": ("containerPort", "protocol"),
    "volumeDevices": ("devicePath",),
    "volumeMounts": ("mountPath",),
}

LISTS: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "V1CSIDriverSpec": {"volumeLifecycleModes": ()},
    "V1Container": _CONTAINER,
    "V1ContainerStatus": {"allocatedResourcesStatus": ("name",), "volumeMounts": ("mountPath",)},
    "V1Endpoint": {"addresses": ()},
    "V1EphemeralContainer": _CONTAINER,
    "V1NodeSpec": {"podCIDRs": ()},
    "V1NodeStatus": {"addresses": ("type",)},
    "V1ObjectMeta": {"finalizers": (), "ownerReferences": ("uid",)},
    "V1PodFailurePolicyOnExitCodesRequirement": {"values": ()},
    "V1PodSpec": {
        "containers": ("name",),
        "ephemeralContainers": ("name",),
        "hostAliases": ("ip",),
        "imagePullSecrets": ("name",),
        "initContainers": ("name",),
        "nodeSelector": (),
        "resourceClaims": ("name",),
        "schedulingGates": ("name",),
        "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
        "volumes": ("name",),
    },
    "V1PodStatus": {"podIPs": ("ip",), "resourceClaimStatuses": ("name",)},
    "V1ResourceRequirements": {"claims": ("name",)},
    "V1ResourceStatus": {"resources": ("resourceID",)},
    "V1ServiceAccount": {"secrets": ("name",)},
    "V1ServiceSpec": {"ports": ("port", "protocol"), "selector": ()},
    "V1UncountedTerminatedPods": {"failed": (), "succeeded": ()},
}
"""The keys of lists, by type and field; none for a set, and for a map that is atomic."""

ATOMIC_TYPES: Final = frozenset({
    "CoreV1EndpointPort", "DiscoveryV1EndpointPort", "V1ConfigMapKeySelector", "V1EndpointAddress", "V1LabelSelector",
    "V1LocalObjectReference", "V1NodeSelector", "V1NodeSelectorTerm", "V1ObjectFieldSelector", "V1ObjectReference",
    "V1OwnerReference", "V1ResourceFieldSelector", "V1SecretKeySelector", "V1SecretReference",
    "V1TypedLocalObjectReference",
})  # fmt: skip
"""Types that are merged as a whole."""

DEFAULTS: Final[dict[str, dict[str, Any]]] = {
    "V1ContainerPort": {"protocol": "TCP"},
    "V1ServicePort": {"protocol": "TCP"},
}
"""The values of keys that an element may lack."""
