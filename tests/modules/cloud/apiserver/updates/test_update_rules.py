"""What may change in an update, by kind: each row is a change of a stored object and kube-apiserver's answer to it.

The words come from Kubernetes' validation (`pkg/apis/*/validation`), release 1.32; docs/cloud-api.md names the ones
that were not compared with its source.
"""

import itertools
from typing import Any, NamedTuple

import pytest

from modules.apimachinery.api_errors import ApiError
from modules.apimachinery.kinds import KINDS as STORED
from modules.apimachinery.strategic_merge import merge_json
from modules.cloud.apiserver.cluster import Cluster
from tests.modules.cloud.apiserver.updates.samples import KINDS, sample

Json = dict[str, Any]

_names = (f"x{number}" for number in itertools.count())


class Row(NamedTuple):
    """A change: allowed, or refused with a cause."""

    kind: str
    change: Json
    """A JSON merge patch of the stored object."""
    field: str = ""
    """Of the cause; "" for a change that is allowed."""
    words: str = ""
    """The end of its message, or a part of it."""
    before: Json = {}  # noqa: RUF012 - never changed
    """What the stored object has beside its sample."""
    status: Json = {}  # noqa: RUF012 - never changed
    """The status of the stored object."""


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_TERMS = f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"
_NEEDS = {"key": "a", "operator": "Exists"}
_TERM = {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}
_ZONE = {_REQUIRED: [{"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}}]}


def _affinity(*terms: Json) -> Json:
    return {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": list(terms)}}}


_GATED: Json = {
    "spec": {
        "containers": [{"name": "main", "image": "busybox:1.35"}],
        "nodeName": "",
        "schedulingGates": [{"name": "a.b/c"}],
        "nodeSelector": {"a": "b"},
        "affinity": _affinity(_TERM),
    }
}


def _spec(**fields: Any) -> Json:
    return {"spec": fields}


def _expanded(secret: str = "") -> Json:
    of_secret = {"controllerExpandSecretRef": {"name": secret, "namespace": "x"}} if secret else {}
    return {"driver": "d", "volumeHandle": "v", **of_secret}


_IMMUTABLE = "field is immutable"
_OTHER_LABELS = {"matchLabels": {"app": "y", "b": None}}
_OTHER_IMAGE = {"template": {"spec": {"containers": [{"name": "main", "image": "busybox:1.36"}]}}}
_OF_PODS = "pod updates may not change fields other than `spec.containers[*].image`"
_OF_SETS = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)
_OF_CLAIMS = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
_OF_DATA = "field is immutable when `immutable` is set"
_BOUND = {"phase": "Bound", "capacity": {"storage": "1Gi"}}
_SUSPENDED = {"spec": {"suspend": True}}
_BALANCED = {"spec": {"type": "LoadBalancer", "loadBalancerClass": "a.b/c"}}
_INDEXED = {"spec": {"completionMode": "Indexed", "completions": 2, "parallelism": 2}}
_TWO = {"spec": {"ipFamilyPolicy": "PreferDualStack"}}
_AFFINITY = {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}}
_OTHER_AFFINITY = {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "b", "operator": "Exists"}]}]}}
_CONTAINER = {"name": "main", "image": "busybox:1.35"}
_TOLERATION = {"key": "a", "operator": "Exists", "effect": "NoExecute"}
_DRIVER = {"name": "a.b", "nodeID": "n2"}

ROWS = (
    # Pods
    Row("Pod", _spec(containers=[{**_CONTAINER, "image": "busybox:1.36"}])),
    Row("Pod", _spec(containers=[{**_CONTAINER, "command": ["true"]}]), "spec", _OF_PODS),
    Row("Pod", _spec(containers=[_CONTAINER, {**_CONTAINER, "name": "b"}]), "spec.containers", "add or remove"),
    Row("Pod", _spec(nodeName="n2"), "spec", _OF_PODS),
    Row("Pod", _spec(nodeName="n2"), "spec", _OF_PODS, _spec(nodeName=None)),
    Row("Pod", _spec(nodeName="n2"), "spec", _OF_PODS, _GATED),
    Row("Pod", _spec(restartPolicy="Never"), "spec", _OF_PODS),
    Row("Pod", _spec(nodeSelector={"b": "c"}), before=_GATED),
    Row("Pod", _spec(nodeSelector={"a": "c"}), "spec.nodeSelector", "only additions to spec.nodeSelector", _GATED),
    Row("Pod", _spec(affinity=_affinity(_TERM, _TERM)), f"{_TERMS}", "no additions/deletions to non-empty", _GATED),
    Row("Pod", _spec(affinity=_affinity({"matchExpressions": [*_TERM["matchExpressions"], _NEEDS]})), before=_GATED),
    Row("Pod", _spec(affinity=_affinity({"matchExpressions": [_NEEDS]})), f"{_TERMS}[0]", "only additions", _GATED),
    Row("Pod", _spec(affinity={"podAntiAffinity": _ZONE, **_affinity(_TERM)}), "spec", _OF_PODS, _GATED),
    Row("Pod", _spec(activeDeadlineSeconds=5)),
    Row("Pod", _spec(activeDeadlineSeconds=9), "spec.activeDeadlineSeconds",
        "must be less than or equal to previous value", _spec(activeDeadlineSeconds=5)),
    Row("Pod", _spec(activeDeadlineSeconds=None), "spec.activeDeadlineSeconds",
        "must not update from a positive integer to nil value", _spec(activeDeadlineSeconds=5)),
    Row("Pod", _spec(tolerations=[_TOLERATION])),
    Row("Pod", _spec(tolerations=[]), "spec.tolerations",
        "existing toleration can not be modified except its tolerationSeconds", _spec(tolerations=[_TOLERATION])),
    Row("Pod", _spec(schedulingGates=[{"name": "a.b/c"}]), "spec.schedulingGates[0].name",
        "only deletion is allowed, but found new scheduling gate 'a.b/c'"),
    # Data
    Row("ConfigMap", {"data": {"a": "two"}}),
    Row("ConfigMap", {"immutable": True}),
    Row("ConfigMap", {"data": {"a": "two"}}, "data", _OF_DATA, {"immutable": True}),
    Row("ConfigMap", {"binaryData": {"b": "b25l"}}, "binaryData", _OF_DATA, {"immutable": True}),
    Row("ConfigMap", {"immutable": None}, "immutable", _OF_DATA, {"immutable": True}),
    Row("ConfigMap", {"metadata": {"labels": {"a": "b"}}}, before={"immutable": True}),
    Row("Secret", {"data": {"a": "dHdv"}}),
    Row("Secret", {"type": "example.com/other"}, "type", _IMMUTABLE),
    Row("Secret", {"data": {"a": "dHdv"}}, "data", _OF_DATA, {"immutable": True}),
    Row("Secret", {"immutable": False}, "immutable", _OF_DATA, {"immutable": True}),
    # Nodes and what is about them
    Row("Node", _spec(unschedulable=True)),
    Row("Node", _spec(taints=[{"key": "a", "effect": "NoSchedule"}])),
    Row("Node", _spec(podCIDR=None, podCIDRs=["10.2.0.0/24"]), "spec.podCIDRs",
        'may not change podCIDR except from "" to valid'),
    Row("Node", _spec(podCIDR="10.2.0.0/24"), "spec.podCIDRs", 'may not change podCIDR except from "" to valid'),
    Row("Node", _spec(podCIDR=None, podCIDRs=None), "spec.podCIDRs", 'may not change podCIDR except from "" to valid'),
    Row("Node", _spec(providerID="c://d"), "spec.providerID", 'may not change providerID except from "" to valid'),
    Row("Lease", _spec(holderIdentity="b")),
    Row("Lease", _spec(leaseDurationSeconds=0), "spec.leaseDurationSeconds", "must be greater than 0"),
    Row("Namespace", {"metadata": {"labels": {"a": "b"}}}),
    Row("Namespace", {"metadata": {"labels": {"pod-security.kubernetes.io/audit-version": "v1.032"}}},
        "metadata.labels[pod-security.kubernetes.io/audit-version]", 'must be "latest" or "v1.x"'),
    Row("ServiceAccount", {"automountServiceAccountToken": False}),
    Row("Event", {"count": 2}),
    # Services
    Row("Service", _spec(selector={"app": "y"})),
    Row("Service", _spec(clusterIP="10.96.1.1", clusterIPs=["10.96.1.1"]), "spec.clusterIPs[0]",
        "may not change once set"),
    Row("Service", _spec(ipFamilies=["IPv6"]), "spec.ipFamilies[0]", "may not change once set"),
    Row("Service", _spec(type="NodePort")),
    Row("Service", _spec(externalIPs=None), before=_spec(externalIPs=["192.0.2.10"])),
    Row("Service", _spec(externalIPs=None, externalTrafficPolicy="Local"), "spec.externalTrafficPolicy",
        "may only be set for externally-accessible services", _spec(externalIPs=["192.0.2.10"])),
    Row("Service", _spec(type="ClusterIP", loadBalancerClass=None), before=_BALANCED),
    Row("Service", _spec(loadBalancerClass="a.b/d"), "spec.loadBalancerClass", "may not change once set", _BALANCED),
    Row("Service", _spec(ports=[{"port": 80, "protocol": "TCP", "nodePort": 30001}]), "spec.ports[0].nodePort",
        "'ClusterIP'"),
    Row("Endpoints", {"subsets": None}),
    Row("EndpointSlice", {"endpoints": [{"addresses": ["192.0.2.2"]}]}),
    Row("EndpointSlice", {"addressType": "IPv6", "endpoints": []}, "addressType", _IMMUTABLE),
    # Storage
    Row("PersistentVolume", _spec(persistentVolumeReclaimPolicy="Delete")),
    Row("PersistentVolume", _spec(capacity={"storage": "2Gi"})),
    Row("PersistentVolume", _spec(hostPath={"path": "/other"}), "spec.persistentvolumesource",
        "spec.persistentvolumesource is immutable after creation"),
    Row("PersistentVolume", _spec(hostPath=None, csi=_expanded("a")), before=_spec(hostPath=None, csi=_expanded())),
    Row("PersistentVolume", _spec(hostPath=None, csi=_expanded("b")), "spec.persistentvolumesource",
        "spec.persistentvolumesource is immutable after creation", _spec(hostPath=None, csi=_expanded("a"))),
    Row("PersistentVolume", _spec(volumeMode="Block"), "volumeMode", _IMMUTABLE),
    Row("PersistentVolume", _spec(nodeAffinity=_AFFINITY)),
    Row("PersistentVolume", _spec(nodeAffinity=_OTHER_AFFINITY), "nodeAffinity",
        "field is immutable, except for updating from beta label to GA", _spec(nodeAffinity=_AFFINITY)),
    Row("PersistentVolumeClaim", _spec(accessModes=["ReadWriteMany"]), "spec", _OF_CLAIMS),
    Row("PersistentVolumeClaim", _spec(storageClassName="fast"), "spec", _OF_CLAIMS),
    Row("PersistentVolumeClaim", _spec(storageClassName=None), "spec", _OF_CLAIMS, _spec(storageClassName="")),
    Row("PersistentVolumeClaim", _spec(storageClassName="fast"), before=_spec(storageClassName=None)),
    Row("PersistentVolumeClaim", _spec(volumeMode="Block"), "volumeMode", _IMMUTABLE),
    Row("PersistentVolumeClaim", _spec(volumeName="v")),
    Row("PersistentVolumeClaim", _spec(resources={"requests": {"storage": "2Gi"}}), "spec", _OF_CLAIMS),
    Row("PersistentVolumeClaim", _spec(resources={"limits": {"storage": "3Gi"}}), "spec", _OF_CLAIMS, status=_BOUND),
    Row("PersistentVolumeClaim", _spec(resources={"requests": {"storage": "1Mi"}}), "spec.resources.requests.storage",
        "field can not be less than status.capacity", status=_BOUND),
    Row("StorageClass", {"allowVolumeExpansion": True}),
    Row("StorageClass", {"provisioner": "d.e/f"}, "provisioner", "updates to provisioner are forbidden."),
    Row("StorageClass", {"parameters": {"a": "two"}}, "parameters", "updates to parameters are forbidden."),
    Row("StorageClass", {"reclaimPolicy": "Retain"}, "reclaimPolicy", "updates to reclaimPolicy are forbidden."),
    Row("StorageClass", {"volumeBindingMode": "WaitForFirstConsumer"}, "volumeBindingMode", _IMMUTABLE),
    Row("VolumeAttachment", _spec(nodeName="n2"), "spec", _IMMUTABLE),
    Row("VolumeAttachment", {"metadata": {"labels": {"a": "b"}}}),
    Row("CSIDriver", _spec(podInfoOnMount=True)),
    Row("CSIDriver", _spec(attachRequired=False), "spec.attachedRequired", _IMMUTABLE),
    Row("CSIDriver", _spec(volumeLifecycleModes=["Ephemeral"]), "spec.volumeLifecycleModes", _IMMUTABLE),
    Row("CSINode", _spec(drivers=[])),
    Row("CSINode", _spec(drivers=[_DRIVER]), "CSINodeDriver", _IMMUTABLE),
    Row("CSINode", _spec(drivers=[{**_DRIVER, "name": "c.d"}])),
    Row("CSIStorageCapacity", {"capacity": "2Gi"}),
    Row("CSIStorageCapacity", {"storageClassName": "slow"}, "storageClassName", _IMMUTABLE),
    Row("CSIStorageCapacity", {"nodeTopology": {"matchLabels": {"a": "b"}}}, "nodeTopology", _IMMUTABLE),
    # Workloads
    Row("Deployment", _spec(replicas=3)),
    Row("Deployment", _spec(**_OTHER_IMAGE)),
    Row("Deployment", _spec(selector=_OTHER_LABELS), "spec.selector", _IMMUTABLE),
    Row("Deployment", _spec(replicas=-1), "spec.replicas", "must be greater than or equal to 0"),
    Row("ReplicaSet", _spec(replicas=0)),
    Row("ReplicaSet", _spec(selector=_OTHER_LABELS), "spec.selector", _IMMUTABLE),
    Row("DaemonSet", _spec(**_OTHER_IMAGE)),
    Row("DaemonSet", _spec(selector=_OTHER_LABELS), "spec.selector", _IMMUTABLE),
    Row("ResourceQuota", _spec(hard={"pods": "6"})),
    Row("LimitRange", _spec(limits=[{"type": "shop.example/Sign", "max": {"memory": "3Gi"}}])),
    Row("ResourceQuota", _spec(scopes=["Terminating"]), "spec.scopes", _IMMUTABLE),
    Row("StatefulSet", _spec(replicas=2)),
    Row("StatefulSet", _spec(serviceName=None), before=_spec(serviceName="")),
    Row("StatefulSet", _spec(**_OTHER_IMAGE)),
    Row("StatefulSet", _spec(minReadySeconds=5)),
    Row("StatefulSet", _spec(ordinals={"start": 3})),
    Row("StatefulSet", _spec(persistentVolumeClaimRetentionPolicy={"whenDeleted": "Delete"})),
    Row("StatefulSet", _spec(serviceName="y"), "spec", _OF_SETS),
    Row("StatefulSet", _spec(revisionHistoryLimit=3), "spec", _OF_SETS),
    Row("StatefulSet", _spec(selector=_OTHER_LABELS), "spec", _OF_SETS),
    Row("StatefulSet", _spec(podManagementPolicy="Parallel"), "spec", _OF_SETS),
    Row("ReplicationController", _spec(replicas=2)),
    Row("ReplicationController", _spec(replicas=-1), "spec.replicas", "must be greater than or equal to 0"),
    Row("ReplicationController", _spec(selector={"app": "y"}), "spec.template.metadata.labels",
        "`selector` does not match template `labels`"),
    Row("ControllerRevision", {"revision": 2}),
    Row("ControllerRevision", {"data": {"a": "two"}}, "data", _IMMUTABLE),
    Row("ConfigMap", {"metadata": {"deletionTimestamp": "2030-01-01T00:00:00Z"}}, "metadata.deletionTimestamp",
        "2030-01-01 00:00:00 +0000 UTC: field is immutable"),
    Row(
        "ConfigMap", {"metadata": {"deletionGracePeriodSeconds": 5}}, "metadata.deletionGracePeriodSeconds", _IMMUTABLE
    ),
    Row("Job", _spec(parallelism=2)),
    Row("Job", _spec(template={"metadata": {"labels": {"job-name": "y", "batch.kubernetes.io/controller-uid": "z"}}}),
        "spec.template.metadata.labels", "`selector` does not match template `labels`", _SUSPENDED),
    Row("Job", _spec(selector=None), "spec.selector", "Required value"),
    Row("Job", _spec(suspend=True)),
    Row("Job", _spec(backoffLimit=2)),
    Row("Job", _spec(ttlSecondsAfterFinished=2)),
    Row("Job", _spec(completions=2), "spec.completions", _IMMUTABLE),
    Row("Job", _spec(completionMode="Indexed"), "spec.completionMode", _IMMUTABLE),
    Row("Job", _spec(selector=_OTHER_LABELS), "spec.selector", _IMMUTABLE),
    Row("Job", _spec(**_OTHER_IMAGE), "spec.template", _IMMUTABLE),
    Row("Job", _spec(backoffLimitPerIndex=2), "spec.backoffLimitPerIndex", _IMMUTABLE, _INDEXED),
    Row("Job", _spec(managedBy="a.b/c"), "spec.managedBy", _IMMUTABLE),
    Row("Job", _spec(completions=3, parallelism=3), before=_INDEXED),
    Row("Job", _spec(completions=3), "spec.completions", "can only be modified in tandem with spec.parallelism",
        _INDEXED),
    Row("Job", _spec(template={"spec": {"nodeSelector": {"a": "b"}}}), before=_SUSPENDED),
    Row("Job", _spec(template={"spec": {"nodeSelector": {"a": "b"}}}), "spec.template", _IMMUTABLE),
    Row("Job", _spec(**_OTHER_IMAGE), "spec.template", _IMMUTABLE, _SUSPENDED),
    Row("CronJob", _spec(schedule="@daily")),
    Row("CronJob", _spec(suspend=True)),
    Row("CronJob", _spec(concurrencyPolicy="Never"), "spec.concurrencyPolicy", "supported values"),
    Row("PodDisruptionBudget", _spec(minAvailable=2)),
    Row("PodDisruptionBudget", _spec(maxUnavailable=1), "spec", "minAvailable and maxUnavailable cannot be both set"),
    # Classes, rights, certificates, devices, definitions
    Row("PriorityClass", {"description": "low"}),
    Row("PriorityClass", {"value": 11}, "value", "may not be changed in an update."),
    Row("PriorityClass", {"preemptionPolicy": "Never"}, "preemptionPolicy", _IMMUTABLE),
    Row("PodTemplate", {"template": {"metadata": {"labels": {"a": "two"}}}}),
    Row("Ingress", _spec(ingressClassName="other")),
    Row("IngressClass", _spec(parameters={"kind": "ConfigMap", "name": "a"})),
    Row("IngressClass", _spec(controller="example.com/two"), "spec.controller", _IMMUTABLE),
    Row("NetworkPolicy", _spec(policyTypes=["Egress"])),
    Row("HorizontalPodAutoscaler", _spec(maxReplicas=5)),
    Row("FlowSchema", _spec(matchingPrecedence=7)),
    Row("PriorityLevelConfiguration", _spec(limited={"nominalConcurrencyShares": 7})),
    Row("RuntimeClass", {"overhead": {"podFixed": {"cpu": "1m"}}}),
    Row("RuntimeClass", {"handler": "runc"}, "handler", _IMMUTABLE),
    Row("Role", {"rules": []}),
    Row("ClusterRole", {"rules": []}),
    Row("RoleBinding", {"subjects": [{"kind": "User", "name": "a"}]}),
    Row("RoleBinding", {"roleRef": {"name": "b"}}, "roleRef", "cannot change roleRef"),
    Row("ClusterRoleBinding", {"roleRef": {"name": "b"}}, "roleRef", "cannot change roleRef"),
    Row("CertificateSigningRequest", {"metadata": {"labels": {"a": "b"}}}),
    Row("ResourceClaim", _spec(devices={"requests": []}), "spec", _IMMUTABLE),
    Row("ResourceSlice", _spec(driver="c.d"), "spec.driver", _IMMUTABLE),
    Row("ResourceSlice", _spec(nodeName="n2"), "spec.nodeName", _IMMUTABLE),
    Row("ResourceSlice", _spec(pool={"name": "n2"}), "spec.pool.name", _IMMUTABLE),
    Row("ResourceSlice", _spec(pool={"generation": 2})),
    Row("DeviceClass", _spec(selectors=[{"cel": {"expression": "true"}}])),
)  # fmt: skip


def _id(row: Row) -> str:
    """Return the kind, the field that changes, and whether it may."""
    field = row.field or next(iter(row.change.get("spec") or row.change))
    return f"{row.kind} {'keeps' if row.field else 'may change'} {field}"


def test_each_kind_has_a_row() -> None:
    """CustomResourceDefinitions, whose names depend on each other, have a test of their own below."""
    assert {row.kind for row in ROWS} == {kind.name for kind in STORED} - {"CustomResourceDefinition"}
    assert {kind.name for kind in STORED} == set(KINDS)


@pytest.mark.parametrize("row", ROWS, ids=_id)
def test_an_update(cluster: Cluster, row: Row) -> None:
    stored = cluster.create(sample(row.kind, next(_names), **row.before))
    if row.status:
        stored = cluster.storage.replace({**stored, "status": row.status})
    wanted = merge_json(stored, row.change)
    if not row.field:
        changed = cluster.update(wanted)
        assert changed["metadata"]["resourceVersion"] != stored["metadata"]["resourceVersion"]
        return
    with pytest.raises(ApiError) as refused:
        cluster.update(wanted)
    told = [(cause["field"], cause["message"]) for cause in refused.value.details["causes"]]
    assert refused.value.code == 422
    assert any(where == row.field and row.words in message for where, message in told), told


def test_the_spec_of_a_certificate_request_stays_without_a_refusal(cluster: Cluster) -> None:
    stored = cluster.create(sample("CertificateSigningRequest", next(_names)))
    wanted = merge_json(stored, {"spec": {"signerName": "example.com/other"}, "metadata": {"labels": {"a": "b"}}})
    assert cluster.update(wanted)["spec"] == stored["spec"]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"scope": "Cluster"}, "spec.scope"),
        ({"names": {"kind": "Other"}}, "spec.names.kind"),
        ({"group": "example.org"}, "metadata.name"),
    ],
)
def test_a_definition_keeps_its_scope_and_its_names(cluster: Cluster, change: Json, field: str) -> None:
    wanted = sample("CustomResourceDefinition", "samples.example.com")
    stored = cluster.apply(wanted)[0]
    with pytest.raises(ApiError) as refused:
        cluster.update(merge_json(stored, {"spec": change}))
    assert field in [cause["field"] for cause in refused.value.details["causes"]]


def test_a_second_family_of_addresses_comes_and_goes(cluster: Cluster) -> None:
    """The ranges of this cluster are of one family, so a Service that prefers two has one."""
    stored = cluster.create(sample("Service", next(_names), **_TWO))
    assert cluster.update(merge_json(stored, _spec(ipFamilyPolicy="SingleStack")))["spec"]["ipFamilies"] == ["IPv4"]
