"""The defaults of kinds other than pods (Kubernetes' `SetDefaults_…` of core/v1 and storage/v1)."""

import base64
from collections.abc import Callable
from typing import Any, Final

from modules.apimachinery.conversion import copied
from modules.apimachinery.kinds import JsonObject, key_kind
from modules.apimachinery.protobuf.empty_members import without_empty_members
from modules.cloud.apiserver.namespaces import with_content_finalizer, with_namespace_defaults
from modules.cloud.apiserver.pod_defaults import complete_volume_source, with_pod_defaults, with_service_account
from modules.cloud.apiserver.strategies import with_first_status
from modules.cloud.apiserver.workload_defaults import WORKLOADS, with_workload_defaults

_EXTERNAL: Final = ("NodePort", "LoadBalancer")
_AFFINITY_SECONDS: Final = 10800
_DATA_SOURCES: Final = (("", "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot"))
_CLAIM: Final = "PersistentVolumeClaim"
_RBAC: Final = "rbac.authorization.k8s.io"
_CSI_DRIVER: Final = {
    "attachRequired": True,
    "podInfoOnMount": False,
    "fsGroupPolicy": "ReadWriteOnceWithFSType",
    "volumeLifecycleModes": ["Persistent"],
    "storageCapacity": False,
    "requiresRepublish": False,
    "seLinuxMount": False,
}
_USAGE_OF_CPU: Final = [
    {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}
]
_WHOLE: Final = {"type": "Percent", "value": 100, "periodSeconds": 15}
_SCALING: Final = {
    "scaleUp": {
        "stabilizationWindowSeconds": 0,
        "selectPolicy": "Max",
        "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}, _WHOLE],
    },
    "scaleDown": {"selectPolicy": "Max", "policies": [_WHOLE]},
}
"""The behaviour of a HorizontalPodAutoscaler, where a manifest has a part of it."""


def with_defaults(obj: JsonObject) -> JsonObject:
    """Return a new object with the defaults of its kind, and what its creation sets."""
    return as_created(with_decoded_defaults(obj))


def with_decoded_defaults(obj: JsonObject) -> JsonObject:
    """Return an object as Kubernetes' decoder reads it: with the defaults of its kind, the `status` that it begins
    with, and no empty members that Kubernetes' JSON leaves out. Who sends it is the manager of these fields.
    """
    complete, written = _DEFAULTS.get(key_kind(obj)), without_empty_members(obj)
    return with_first_status(written if complete is None else complete(written))


def as_created(obj: JsonObject) -> JsonObject:
    """Return a new object with the fields that its creation sets: nobody is their manager."""
    complete = _CREATION.get(key_kind(obj))
    return obj if complete is None else complete(obj)


def as_updated(obj: JsonObject) -> JsonObject:
    """Return a changed object with the fields that follow from others."""
    complete = _FOLLOWING.get(key_kind(obj))
    return obj if complete is None else complete(obj)


def _secret(obj: JsonObject) -> JsonObject:
    secret = {"type": "Opaque", **obj}
    encode_string_data(secret)
    return secret


def encode_string_data(secret: JsonObject) -> None:
    """Move a secret's `stringData` to `data`, encoded (Kubernetes' Secret strategy)."""
    plain = secret.pop("stringData", None) or {}
    encoded = {key: base64.b64encode(str(value).encode()).decode("ascii") for key, value in plain.items()}
    if encoded:
        secret["data"] = {**(secret.get("data") or {}), **encoded}


def _service(obj: JsonObject) -> JsonObject:
    given = obj.get("spec") or {}
    spec = {"sessionAffinity": "None", "type": "ClusterIP", **given}
    spec["ports"] = [_service_port(port) for port in given.get("ports") or ()]
    if not spec["ports"]:
        del spec["ports"]
    if spec["sessionAffinity"] == "ClientIP":
        spec["sessionAffinityConfig"] = _with_affinity_seconds(given.get("sessionAffinityConfig") or {})
    elif spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    if spec["type"] in _EXTERNAL or (spec["type"] != "ExternalName" and spec.get("externalIPs")):
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if spec["type"] != "ExternalName":
        spec.setdefault("internalTrafficPolicy", "Cluster")
    else:
        spec.pop("internalTrafficPolicy", None)  # as kube-apiserver when it reads one
    if spec["type"] == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
    return {**obj, "spec": spec}


def _with_addresses(service: JsonObject) -> JsonObject:
    """Return a Service whose addresses begin with the one that it asks for."""
    spec = service["spec"]
    if not spec.get("clusterIP") or "clusterIPs" in spec:
        return service
    return {**service, "spec": {**spec, "clusterIPs": [spec["clusterIP"]]}}


def _with_affinity_seconds(config: JsonObject) -> JsonObject:
    client = config.get("clientIP") or {}
    return {**config, "clientIP": {"timeoutSeconds": _AFFINITY_SECONDS, **client}}


def _service_port(port: JsonObject) -> JsonObject:
    made = {"protocol": "TCP", **port}
    if not made.get("targetPort") and made.get("port"):
        made["targetPort"] = made["port"]
    return made


def _node(obj: JsonObject) -> JsonObject:
    """Return a Node whose `podCIDR` is the first of its `podCIDRs`; a changed one resets them. Without
    allocatable amounts, they are its capacity.
    """
    status = obj.get("status") or {}
    if status.get("capacity") and not status.get("allocatable"):
        obj = {**obj, "status": {**status, "allocatable": dict(status["capacity"])}}
    spec = obj.get("spec") or {}
    first, all_of_them = spec.get("podCIDR"), spec.get("podCIDRs") or []
    if first and all_of_them[:1] != [first]:
        all_of_them = [first]
    return {**obj, "spec": {**spec, "podCIDR": all_of_them[0], "podCIDRs": all_of_them}} if all_of_them else obj


def _endpoints(obj: JsonObject) -> JsonObject:
    if not obj.get("subsets"):
        return obj
    return {**obj, "subsets": [_with_protocols(subset) for subset in obj["subsets"]]}


def _with_protocols(holder: JsonObject, **others: Any) -> JsonObject:
    if not holder.get("ports"):
        return holder
    return {**holder, "ports": [{**others, "protocol": "TCP", **port} for port in holder["ports"]]}


def _endpoint_slice(obj: JsonObject) -> JsonObject:
    """Return a slice without the topology of earlier versions, which a creation drops."""
    endpoints = [
        {name: value for name, value in each.items() if name != "deprecatedTopology"}
        for each in obj.get("endpoints") or ()
    ]
    return _with_protocols({**obj, "endpoints": endpoints} if endpoints else obj, name="")


def _persistent_volume(obj: JsonObject) -> JsonObject:
    spec = {"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem", **copied(obj.get("spec") or {})}
    complete_volume_source(spec)
    return {**obj, "spec": spec, "status": {"phase": "Pending", **(obj.get("status") or {})}}


def _claim(obj: JsonObject) -> JsonObject:
    spec = {"volumeMode": "Filesystem", **(obj.get("spec") or {})}
    return {**obj, "spec": spec, "status": {"phase": "Pending", **(obj.get("status") or {})}}


def _with_data_source(claim: JsonObject) -> JsonObject:
    """Return a claim whose `dataSource` and `dataSourceRef` are the same. A source of another kind is forgotten unless
    `dataSourceRef` names it (EnforceDataSourceBackwardsCompatibility, NormalizeDataSources).
    """
    spec = claim["spec"]
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source is not None and not reference:
        if (source.get("apiGroup") or "", source.get("kind")) not in _DATA_SOURCES:
            return {**claim, "spec": {name: value for name, value in spec.items() if name != "dataSource"}}
        return {**claim, "spec": {**spec, "dataSourceRef": dict(source)}}
    if reference and not source and not reference.get("namespace"):
        return {**claim, "spec": {**spec, "dataSource": dict(reference)}}
    return claim


def _limit_range(obj: JsonObject) -> JsonObject:
    """Return a LimitRange whose limits of containers say what a container gets that names no amount."""
    spec = obj.get("spec") or {}
    limits = [_with_container_defaults(each) for each in spec.get("limits") or ()]
    return {**obj, "spec": {**spec, "limits": limits}} if limits else obj


def _with_container_defaults(limit: JsonObject) -> JsonObject:
    if limit.get("type") != "Container":
        return limit
    default = {**(limit.get("max") or {}), **(limit.get("default") or {})}
    request = {**(limit.get("min") or {}), **default, **(limit.get("defaultRequest") or {})}
    return {**limit, **({"default": default} if default else {}), **({"defaultRequest": request} if request else {})}


def _binding(obj: JsonObject) -> JsonObject:
    """Return a binding whose role and whose users and groups have their API group."""
    reference = _of_rbac(obj.get("roleRef") or {})
    subjects = [_of_rbac(each) if each.get("kind") in ("User", "Group") else each for each in obj.get("subjects") or ()]
    return {**obj, "roleRef": reference, **({"subjects": subjects} if subjects else {})}


def _of_rbac(reference: JsonObject) -> JsonObject:
    """Return a reference with its API group; a client in Go sends an empty one for none."""
    return {**reference, "apiGroup": reference.get("apiGroup") or _RBAC}


def _ingress_class(obj: JsonObject) -> JsonObject:
    spec = obj.get("spec") or {}
    if not spec.get("parameters"):
        return obj
    return {**obj, "spec": {**spec, "parameters": {"scope": "Cluster", **spec["parameters"]}}}


def _network_policy(obj: JsonObject) -> JsonObject:
    """Return a policy whose ports have a protocol, and which says what it is about: at least what comes in."""
    given = obj.get("spec") or {}
    types = ["Ingress", "Egress"] if given.get("egress") else ["Ingress"]
    rules = {name: [_with_protocols(rule) for rule in given[name]] for name in ("ingress", "egress") if name in given}
    return {**obj, "spec": {"podSelector": {}, "policyTypes": types, **given, **rules}}


def _autoscaler(obj: JsonObject) -> JsonObject:
    """Return a HorizontalPodAutoscaler with at least one replica, a metric, and all of a behaviour that has a part."""
    spec = {"minReplicas": 1, **(obj.get("spec") or {})}
    if not spec.get("metrics"):
        spec["metrics"] = copied(_USAGE_OF_CPU)
    if spec.get("behavior") is not None:
        rules = {name: {**copied(of), **(spec["behavior"].get(name) or {})} for name, of in _SCALING.items()}
        spec["behavior"] = {**spec["behavior"], **rules}
    return {**obj, "spec": spec}


def _flow_schema(obj: JsonObject) -> JsonObject:
    return {**obj, "spec": _or_defaults({"matchingPrecedence": 1000}, obj.get("spec") or {})}


def _or_defaults(numbers: dict[str, int], given: JsonObject) -> JsonObject:
    """Return an object with numbers; a client in Go sends a 0 for none."""
    return {**given, **{name: given.get(name) or number for name, number in numbers.items()}}


def _priority_level(obj: JsonObject) -> JsonObject:
    """Return a PriorityLevelConfiguration with the shares and the queues that Kubernetes gives it."""
    spec = dict(obj.get("spec") or {})
    for member, shares in (("exempt", 0), ("limited", 30)):
        if isinstance(spec.get(member), dict):
            spec[member] = {"nominalConcurrencyShares": shares, "lendablePercent": 0, **spec[member]}
    response = (spec.get("limited") or {}).get("limitResponse") or {}
    if isinstance(response.get("queuing"), dict):
        queuing = _or_defaults({"queues": 64, "handSize": 8, "queueLengthLimit": 50}, response["queuing"])
        spec["limited"]["limitResponse"] = {**response, "queuing": queuing}
    return {**obj, "spec": spec}


_DEFAULTS: Final[dict[str, Callable[[JsonObject], JsonObject]]] = {
    "Pod": with_pod_defaults,
    **dict.fromkeys(WORKLOADS, with_workload_defaults),
    "Secret": _secret,
    "Namespace": with_namespace_defaults,
    "Node": _node,
    "Service": _service,
    "Endpoints": _endpoints,
    "EndpointSlice": _endpoint_slice,
    "PersistentVolume": _persistent_volume,
    _CLAIM: _claim,
    "LimitRange": _limit_range,
    "IngressClass": _ingress_class,
    "NetworkPolicy": _network_policy,
    "HorizontalPodAutoscaler": _autoscaler,
    "FlowSchema": _flow_schema,
    "PriorityLevelConfiguration": _priority_level,
    "PriorityClass": lambda obj: {"value": 0, "preemptionPolicy": "PreemptLowerPriority", **obj},
    **dict.fromkeys(("RoleBinding", "ClusterRoleBinding"), _binding),
    "StorageClass": lambda obj: {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate", **obj},
    "CSIDriver": lambda obj: {**obj, "spec": {**_CSI_DRIVER, **(obj.get("spec") or {})}},
}
_FOLLOWING: Final[dict[str, Callable[[JsonObject], JsonObject]]] = {
    "Service": _with_addresses,
    _CLAIM: _with_data_source,
}
_CREATION: Final[dict[str, Callable[[JsonObject], JsonObject]]] = {
    **_FOLLOWING,
    "Pod": with_service_account,
    "Namespace": with_content_finalizer,
}
