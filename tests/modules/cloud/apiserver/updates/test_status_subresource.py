"""The subresource `status` of each kind that has it, and what moves an object's generation."""

import itertools
from base64 import b64decode, b64encode
from typing import Any

import pytest

from modules.apimachinery.api_errors import ApiError
from modules.apimachinery.kinds import KINDS, key_of, kind_named
from modules.apimachinery.pods.static import CONFIG_MIRROR
from modules.apimachinery.served_resources import RESOURCES
from modules.apimachinery.strategic_merge import merge_json
from modules.apimachinery.validation.invalid_fields import InvalidFieldsError
from modules.cloud.apiserver.api_calls import serve
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.strategies import with_changed_status
from modules.cloud.client.calls import MERGE, ApiCall, ApiResult
from tests.modules.cloud.apiserver.updates.samples import sample
from tests.modules.cloud.objects import CERTIFICATE
from tests.support.presence import present

Json = dict[str, Any]

_names = (f"x{number}" for number in itertools.count())
_CONDITION = {"conditions": [{"type": "a.b/c", "status": "True"}]}
_STATUSES: dict[str, Json] = {
    "Pod": {"message": "busy"},
    "Service": {"loadBalancer": {"ingress": [{"ip": "192.0.2.9", "ipMode": "VIP"}]}},
    "Node": {"conditions": [{"type": "Ready", "status": "True"}]},
    "Namespace": {"phase": "Active", **_CONDITION},
    "PersistentVolume": {"phase": "Failed"},
    "PersistentVolumeClaim": {"phase": "Lost"},
    "VolumeAttachment": {"attached": True},
    "CertificateSigningRequest": {"certificate": CERTIFICATE},
    "Deployment": {"replicas": 1},
    "ReplicaSet": {"replicas": 1},
    "DaemonSet": {
        "currentNumberScheduled": 1, "numberMisscheduled": 0, "desiredNumberScheduled": 1, "numberReady": 1,
    },
    "StatefulSet": {"replicas": 1},
    "Job": {"active": 1},
    "CronJob": {"lastScheduleTime": "2026-01-01T00:00:00Z"},
    "PodDisruptionBudget": {
        "disruptionsAllowed": 1, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1,
        "conditions": [{"type": "DisruptionAllowed", "status": "True", "reason": "SufficientPods", "message": "",
                        "lastTransitionTime": "2026-01-01T00:00:00Z"}],
    },
    "ReplicationController": {"replicas": 1},
    "Ingress": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}},
    "HorizontalPodAutoscaler": {"currentReplicas": 2, "desiredReplicas": 3},
    **{kind: {"conditions": [{"type": "Known", "status": "True"}]}
       for kind in ("FlowSchema", "PriorityLevelConfiguration")},
    "ResourceQuota": {"used": {"pods": "1"}},
    "ResourceClaim": {"reservedFor": [{"resource": "pods", "name": "a", "uid": "b"}]},
}  # fmt: skip
"""By kind: what a controller says of an object."""
_SPECS: dict[str, Json] = {
    "Pod": {"activeDeadlineSeconds": 5},
    "Service": {"selector": {"app": "z"}},
    "Node": {"unschedulable": True},
    "Namespace": {"finalizers": ["kubernetes", "a.b/c"]},
    "PersistentVolume": {"capacity": {"storage": "2Gi"}},
    "PersistentVolumeClaim": {"volumeName": "v"},
    "VolumeAttachment": {"nodeName": "n2"},
    "CertificateSigningRequest": {"signerName": "example.com/other"},
    "DaemonSet": {"minReadySeconds": 5},
    "Job": {"parallelism": 3},
    "CronJob": {"suspend": True},
    "PodDisruptionBudget": {"minAvailable": 2},
    "Ingress": {"ingressClassName": "other"},
    "IngressClass": {"parameters": {"kind": "ConfigMap", "name": "a"}},
    "NetworkPolicy": {"policyTypes": ["Egress"]},
    "HorizontalPodAutoscaler": {"maxReplicas": 5},
    "FlowSchema": {"matchingPrecedence": 7},
    "PriorityLevelConfiguration": {"limited": {"nominalConcurrencyShares": 7, "limitResponse": {"type": "Reject"}}},
    "ResourceClaim": {"devices": {"requests": []}},
}
"""By kind: another spec; of kinds that are not here, other replicas."""
_KEPT_METADATA = ("VolumeAttachment", "ResourceClaim", "FlowSchema", "PriorityLevelConfiguration")
_KEPT_LABELS = (*_KEPT_METADATA, "Deployment")
_COUNTED: dict[str, Json] = {
    **{kind.name: {"spec": _SPECS.get(kind.name, {"replicas": 2})} for kind in KINDS if kind.counts_generations},
    "EndpointSlice": {"endpoints": [{"addresses": ["192.0.2.7"]}]},
    "PodTemplate": {"template": {"metadata": {"labels": {"a": "two"}}}},
    "CSIDriver": {"spec": {"podInfoOnMount": True}},
    "ResourceSlice": {"spec": {"pool": {"generation": 3}}},
    "DeviceClass": {"spec": {"selectors": [{"cel": {"expression": "true"}}]}},
}
del _COUNTED["PriorityClass"]  # has no spec, and always its first generation
del _COUNTED["CustomResourceDefinition"]  # see below


def make(cluster: Cluster, kind: str) -> Json:
    more = {"spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}} if kind == "Service" else {}
    return cluster.create(sample(kind, next(_names), **more))


def put(cluster: Cluster, obj: Json, subresource: str = "", verb: str = "update") -> ApiResult:
    """Write an object by the API, as a patch that has all of it, or as an update."""
    kind = kind_named(obj["kind"])
    return serve(
        cluster,
        ApiCall(
            verb=verb,
            api_version=kind.api_version,
            plural=kind.plural,
            namespace=obj["metadata"].get("namespace", ""),
            name=obj["metadata"]["name"],
            subresource=subresource,
            patch_type=MERGE if verb == "patch" else "",
            body=obj,
        ),
    )


def test_each_kind_with_the_subresource_is_here() -> None:
    """The status of a CustomResourceDefinition is the API server's own; see below."""
    served = {each.kind for each in RESOURCES if "status" in each.subresources}
    assert set(_STATUSES) == served - {"CustomResourceDefinition"}


@pytest.mark.parametrize("kind", sorted(_STATUSES))
def test_a_new_object_has_no_status_of_its_request(cluster: Cluster, kind: str) -> None:
    wanted = sample(kind, next(_names), status=_STATUSES[kind])
    served = kind_named(kind)
    call = ApiCall(
        verb="create",
        api_version=served.api_version,
        plural=served.plural,
        namespace="default" if served.namespaced else "",
        body=wanted,
    )
    made = present(serve(cluster, call).object)
    says = _STATUSES[kind].items() <= (made.get("status") or {}).items()
    assert says is (kind == "Node"), "only nodes register with their status"


def test_a_status_has_zeros_from_its_beginning(cluster: Cluster) -> None:
    """Those that JSON has even when they are zero, as clients of a kube-apiserver expect."""
    stored = make(cluster, "StatefulSet")
    assert stored["status"] == {"replicas": 0, "availableReplicas": 0}
    counted = cluster.update_status(key_of(stored), {**stored, "status": {"replicas": 1}})
    assert counted["status"] == {"replicas": 1, "availableReplicas": 0}
    assert make(cluster, "Deployment")["status"] == {}
    assert "status" not in make(cluster, "ConfigMap")


@pytest.mark.parametrize("verb", ["update", "patch"])
@pytest.mark.parametrize("kind", sorted(_STATUSES))
def test_a_write_of_the_object_does_not_change_its_status(cluster: Cluster, kind: str, verb: str) -> None:
    stored = make(cluster, kind)
    wanted = merge_json(stored, {"metadata": {"labels": {"a": "b"}}, "status": _STATUSES[kind]})
    changed = present(put(cluster, wanted, verb=verb).object)
    assert changed.get("status") == stored.get("status")
    assert changed["metadata"]["labels"]["a"] == "b"


@pytest.mark.parametrize("verb", ["update", "patch"])
@pytest.mark.parametrize("kind", sorted(_STATUSES))
def test_a_write_of_the_status_changes_nothing_else(cluster: Cluster, kind: str, verb: str) -> None:
    stored = make(cluster, kind)
    spec = _SPECS.get(kind, {"replicas": 2})
    change = {"spec": spec, "metadata": {"labels": {"a": "b"}}, "status": _STATUSES[kind]}
    changed = present(put(cluster, merge_json(stored, change), "status", verb).object)
    assert _STATUSES[kind].items() <= changed["status"].items()
    assert changed["spec"] == stored["spec"]
    assert changed["metadata"].get("generation") == stored["metadata"].get("generation")
    assert ("a" in (changed["metadata"].get("labels") or {})) is (kind not in _KEPT_LABELS)


@pytest.mark.parametrize(
    ("kind", "subresource", "wrong"),
    [
        ("Deployment", "status", {"replicas": -1}),
        ("CertificateSigningRequest", "approval", {"conditions": [{"type": "Approved", "status": "False"}]}),
    ],
)
def test_a_wrong_status_of_another_version_is_a_conflict(
    cluster: Cluster, kind: str, subresource: str, wrong: Json
) -> None:
    """As for the object itself: a status may be wrong because what it was made of has changed, and its writer tries
    again after a conflict only.
    """
    stored = make(cluster, kind)
    put(cluster, merge_json(stored, {"metadata": {"labels": {"a": "b"}}}))
    for version, code in ((stored["metadata"]["resourceVersion"], 409), ("", 422)):
        outdated = merge_json(stored, {"status": wrong, "metadata": {"resourceVersion": version}})
        assert (put(cluster, outdated, subresource).refusal or {})["code"] == code


@pytest.mark.parametrize("kind", sorted(_COUNTED))
def test_the_generation_moves_with_the_spec_only(cluster: Cluster, kind: str) -> None:
    stored = make(cluster, kind)
    assert stored["metadata"]["generation"] == 1
    labelled = cluster.update(merge_json(stored, {"metadata": {"labels": {"a": "b"}, "generation": 7}}))
    assert labelled["metadata"]["generation"] == 1
    changed = cluster.update(merge_json(labelled, _COUNTED[kind]))
    assert changed["metadata"]["generation"] == 2


_HELD = {
    "type": "DisruptionAllowed", "status": "True", "reason": "SufficientPods", "message": "",
    "lastTransitionTime": "2026-11-20T01:00:00Z",
}  # fmt: skip
_ROWS = [
    ("Deployment", {"replicas": -1}, "status.replicas", "must be greater than or equal to 0"),
    ("Deployment", {"replicas": 1, "readyReplicas": 2}, "status.readyReplicas",
     "cannot be greater than status.replicas"),
    ("ReplicaSet", {"replicas": 2, "readyReplicas": 1, "availableReplicas": 2}, "status.availableReplicas",
     "cannot be greater than readyReplicas"),
    ("StatefulSet", {"replicas": 1, "currentReplicas": 2}, "status.currentReplicas", "cannot be greater than"),
    ("DaemonSet", {"numberReady": -1}, "status.numberReady", "must be greater than or equal to 0"),
    ("ReplicationController", {"replicas": 0, "readyReplicas": 1}, "status.readyReplicas", "cannot be greater than"),
    ("PodDisruptionBudget", {"disruptionsAllowed": -1}, "status.disruptionsAllowed", "must be greater than"),
    *(("PodDisruptionBudget", {"conditions": [_HELD, {**_HELD, "type": "Other", **change}]},
       f"status.conditions[1].{field}", words)
      for field, words, change in (
          ("type", "Duplicate value", {"type": "DisruptionAllowed"}),
          ("type", "name part must", {"type": ""}),
          ("status", 'supported values: "True", "False", "Unknown"', {"status": "Yes"}),
          ("observedGeneration", "must be greater than or equal to 0", {"observedGeneration": -1}),
          ("lastTransitionTime", "must be set", {"lastTransitionTime": None}),
          ("reason", "must be set", {"reason": ""}),
          ("reason", "must start with alphabetic character", {"reason": "no reason"}),
          ("reason", "Too long", {"reason": "x" * 1025}),
          ("message", "Too long", {"message": "x" * 32769}),
      )),
    ("Job", {"failed": -1}, "status.failed", "must be greater than or equal to 0"),
    *(("Service", {"loadBalancer": {"ingress": [given]}}, f"status.loadBalancer.ingress[0].{field}", words)
      for field, words, given in (
          ("ip", "must be a valid IP address", {"ip": "x"}),
          ("hostname", "must be a DNS name, not an IP address", {"hostname": "192.0.2.1"}),
          ("ipMode", 'supported values: "Proxy", "VIP"', {"ip": "192.0.2.1", "ipMode": "X"}),
          ("ipMode", "may not be specified when `ip` is not set", {"hostname": "a", "ipMode": "VIP"}),
      )),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "status", "field", "words"), _ROWS)
def test_a_status_has_rules(cluster: Cluster, kind: str, status: Json, field: str, words: str) -> None:
    stored = make(cluster, kind)
    refusal = present(put(cluster, {**stored, "status": status}, "status").refusal)
    assert refusal["code"] == 422
    assert any(words in each["message"] for each in refusal["details"]["causes"] if each["field"] == field)


def test_a_service_of_another_type_has_no_address_of_a_load_balancer(cluster: Cluster) -> None:
    balanced = merge_json(make(cluster, "Service"), {"status": _STATUSES["Service"]})
    stored = present(put(cluster, balanced, "status").object)
    assert stored["status"] == _STATUSES["Service"]
    changed = present(put(cluster, merge_json(stored, {"spec": {"type": "ClusterIP"}})).object)
    assert changed["status"] == {"loadBalancer": {}}
    refusal = present(put(cluster, merge_json(changed, {"status": _STATUSES["Service"]}), "status").refusal)
    assert "may only be used when `spec.type` is 'LoadBalancer'" in refusal["message"]


def test_counts_of_a_job_stay(cluster: Cluster) -> None:
    stored = present(put(cluster, {**make(cluster, "Job"), "status": {"failed": 2}}, "status").object)
    refusal = present(put(cluster, {**stored, "status": {"failed": 1}}, "status").refusal)
    assert "cannot decrease the failed counter" in refusal["message"]


def test_a_certificate_request_is_approved_by_its_own_subresource(cluster: Cluster) -> None:
    stored = make(cluster, "CertificateSigningRequest")
    approved = {"type": "Approved", "status": "True", "reason": "KubectlApprove"}
    wanted = {**stored, "status": {"conditions": [approved], "certificate": CERTIFICATE}}
    refusal = present(put(cluster, wanted, "status").refusal)
    assert 'updates may not add a condition of type "Approved"' in refusal["message"]
    changed = present(put(cluster, wanted, "approval").object)
    (condition,) = changed["status"]["conditions"]
    assert condition["lastUpdateTime"] == condition["lastTransitionTime"]
    assert "certificate" not in changed["status"]
    for conditions, words in (
        ([], 'updates may not remove a condition of type "Approved"'),
        ([condition, {"type": "Denied", "status": "True"}], "Approved and Denied conditions are mutually exclusive"),
    ):
        refusal = present(put(cluster, {**changed, "status": {"conditions": conditions}}, "approval").refusal)
        assert words in refusal["message"]
    issued = put(
        cluster, {**changed, "status": {"conditions": [condition], "certificate": CERTIFICATE}}, "status"
    ).object
    assert issued is not None
    other = {**issued, "status": {**issued["status"], "certificate": b64encode(b64decode(CERTIFICATE) * 2).decode()}}
    refusal = present(put(cluster, other, "status").refusal)
    assert "updates may not modify existing certificate content" in refusal["message"]


def test_a_node_approves_no_request(cluster: Cluster) -> None:
    stored = make(cluster, "CertificateSigningRequest")
    call = ApiCall(
        verb="update",
        api_version="certificates.k8s.io/v1",
        plural="certificatesigningrequests",
        name=stored["metadata"]["name"],
        subresource="approval",
        body=stored,
        node="n1",
    )
    assert present(serve(cluster, call).refusal)["code"] == 404


def test_the_status_of_a_definition_is_the_servers(cluster: Cluster) -> None:
    stored = cluster.apply(sample("CustomResourceDefinition", "samples.example.com"))[0]
    wanted = merge_json(stored, {"status": {"conditions": []}, "metadata": {"labels": {"a": "b"}}})
    changed = cluster.update(wanted)
    assert changed["status"] == stored["status"]
    assert changed["metadata"]["generation"] == 1


@pytest.mark.parametrize(
    ("kind", "metadata", "field"),
    [
        ("Node", {"labels": {"a b": "c"}}, "metadata.labels"),
        ("Namespace", {"annotations": {"a": "x" * 300_000}}, "metadata.annotations"),
        ("Service", {"finalizers": ["mine"]}, "metadata.finalizers"),
        ("Pod", {"annotations": {CONFIG_MIRROR: "x"}}, "may not add mirror pod annotation"),
    ],
)
def test_metadata_that_change_with_a_status_keep_their_rules(
    cluster: Cluster, kind: str, metadata: Json, field: str
) -> None:
    """A status was a way around them: for annotations of any length, and for what only a node may make."""
    stored = make(cluster, kind)
    with pytest.raises(InvalidFieldsError, match=field):
        cluster.update_status(key_of(stored), merge_json(stored, {"metadata": metadata}))


def test_a_stale_status_is_refused(cluster: Cluster) -> None:
    stored = make(cluster, "Deployment")
    cluster.update(merge_json(stored, {"metadata": {"labels": {"a": "b"}}}))
    with pytest.raises(ApiError) as refused:
        cluster.update_status(key_of(stored), {**stored, "status": {}})
    assert refused.value.code == 409


@pytest.mark.parametrize(
    ("kind", "status", "why"),
    [
        ("Namespace", {"phase": "x"},
         "status.Phase: Invalid value: \"x\": may only be 'Active' if `deletionTimestamp` is empty"),
        ("CertificateSigningRequest", {"certificate": "bm90"},
         'status.certificate: Invalid value: "<certificate data>": must contain at least one CERTIFICATE PEM block'),
        ("CertificateSigningRequest",
         {"certificate": b64encode(b"-----BEGIN X-----\nYQ==\n-----END X-----\n").decode()},
         'status.certificate: Invalid value: "<certificate data>": only CERTIFICATE PEM blocks are allowed, found "X"'),
        ("CertificateSigningRequest", {"conditions": [{"type": "Known", "status": "True"}] * 2},
         'status.conditions[1].type: Duplicate value: "Known"'),
    ],
)  # fmt: skip
def test_a_status_keeps_the_rules_of_its_kind(cluster: Cluster, kind: str, status: Json, why: str) -> None:
    """As a kube-apiserver 1.32.13 answered."""
    refusal = present(put(cluster, {**make(cluster, kind), "status": status}, "status").refusal)
    assert (refusal["code"], why in refusal["message"]) == (422, True)


def test_a_namespace_that_is_being_deleted_stays_so(cluster: Cluster) -> None:
    made = make(cluster, "Namespace")
    cluster.delete(key_of(made))
    ending = cluster.storage.get(key_of(made))
    refusal = present(put(cluster, {**ending, "status": {"phase": "Active"}}, "status").refusal)
    assert "may only be 'Terminating' if `deletionTimestamp` is not empty" in refusal["message"]
    assert put(cluster, {**ending, "status": {**ending["status"], **_CONDITION}}, "status").object is not None


@pytest.mark.parametrize(
    ("kind", "given", "stored"),
    [
        ("Namespace", {}, {"phase": "Active"}),
        ("PersistentVolume", {"message": "a"}, {"phase": "Pending", "message": "a"}),
        ("PersistentVolumeClaim", {}, {"phase": "Pending"}),
        ("Node", {"capacity": {"cpu": "2"}}, {"capacity": {"cpu": "2"}, "allocatable": {"cpu": "2"}}),
        ("Node", {"capacity": {"cpu": "2"}, "allocatable": {"cpu": "1"}},
         {"capacity": {"cpu": "2"}, "allocatable": {"cpu": "1"}}),
        ("Pod", {"podIP": "192.0.2.1"}, {"podIP": "192.0.2.1", "podIPs": [{"ip": "192.0.2.1"}]}),
        ("Pod", {"podIPs": [{"ip": "192.0.2.1"}, {"ip": "2001:db8::1"}]},
         {"podIP": "192.0.2.1", "podIPs": [{"ip": "192.0.2.1"}, {"ip": "2001:db8::1"}]}),
        ("Service", {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}, {"ip": "192.0.2.2", "ipMode": "Proxy"},
                                                  {"hostname": "a"}]}},
         {"loadBalancer": {"ingress": [{"ip": "192.0.2.1", "ipMode": "VIP"}, {"ip": "192.0.2.2", "ipMode": "Proxy"},
                                       {"hostname": "a"}]}}),
    ],
)  # fmt: skip
def test_a_status_has_the_defaults_of_its_kind(kind: str, given: Json, stored: Json) -> None:
    live = {"kind": kind, "metadata": {"name": "a"}}
    assert with_changed_status({**live, "status": given}, live)["status"] == stored
