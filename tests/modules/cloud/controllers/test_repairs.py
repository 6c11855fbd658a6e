"""What a controller has written and somebody else changes or deletes is as it was, soon after."""

from typing import Any

import pytest

from modules.apimachinery.kinds import JsonObject
from modules.cloud.client.calls import MERGE
from modules.cloud.controllers.claims import claimed
from modules.cloud.controllers.stateful_pods import retention_writes
from modules.cloud.controllers.view import View
from tests.modules.cloud.controllers.site import site_of, workload

_LABELS = {"app": "web"}
_DAEMON_SET, _DEPLOYMENT = workload("DaemonSet"), workload("Deployment", replicas=2)
_SERVICE = {
    "kind": "Service",
    "apiVersion": "v1",
    "metadata": {"name": "web"},
    "spec": {"selector": _LABELS, "ports": [{"port": 80}]},
}
_BUDGET = {
    "kind": "PodDisruptionBudget",
    "apiVersion": "policy/v1",
    "metadata": {"name": "web"},
    "spec": {"minAvailable": 1, "selector": {"matchLabels": _LABELS}},
}
_CRON_JOB = {
    "kind": "CronJob",
    "apiVersion": "batch/v1",
    "metadata": {"name": "web"},
    "spec": {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": workload("Job")["spec"]}},
}
_OF_SERVER = ("resourceVersion", "generation", "uid", "creationTimestamp", "managedFields", "name")
_SERVICE_NAME = "kubernetes.io/service-name"
_DELETED: JsonObject = {}


def _content(obj: Any) -> Any:
    """Return an object without what each write changes, or an object that is made again."""
    if isinstance(obj, list):
        return [_content(each) for each in obj]
    if not isinstance(obj, dict):
        return obj
    left_out = (*_OF_SERVER, "lastTransitionTime", "lastUpdateTime", "observedGeneration")
    return {name: _content(value) for name, value in obj.items() if name not in left_out}


@pytest.mark.parametrize(
    ("made", "kind", "change"),
    [
        ([_DEPLOYMENT], "Deployment", {"status": {"replicas": 9, "unavailableReplicas": 7, "conditions": None}}),
        ([_DEPLOYMENT], "ReplicaSet", {"status": {"replicas": 9, "fullyLabeledReplicas": 0}}),
        ([_DEPLOYMENT], "ReplicaSet", {"spec": {"replicas": 5}}),
        ([_DEPLOYMENT], "ReplicaSet", {"metadata": {"ownerReferences": None}}),
        ([_DEPLOYMENT], "ReplicaSet", _DELETED),
        ([workload("ReplicationController")], "ReplicationController", {"status": {"replicas": 9}}),
        ([workload("StatefulSet", serviceName="web")], "StatefulSet", {"status": {"replicas": 9, "readyReplicas": 8}}),
        ([workload("StatefulSet", serviceName="web")], "ControllerRevision", _DELETED),
        ([_DAEMON_SET], "DaemonSet", {"status": {"numberReady": 9, "desiredNumberScheduled": 9}}),
        ([_DAEMON_SET], "ControllerRevision", _DELETED),
        ([workload("Job")], "Job", {"status": {"active": 9, "ready": 9}}),
        ([_CRON_JOB], "CronJob", {"status": {"active": [{"kind": "Job", "name": "none"}]}}),
        ([_DEPLOYMENT, _BUDGET], "PodDisruptionBudget", {"status": {"disruptionsAllowed": 9, "conditions": None}}),
        ([_DEPLOYMENT, _SERVICE], "EndpointSlice", {"endpoints": [{"addresses": ["192.0.2.9"]}]}),
        ([_DEPLOYMENT, _SERVICE], "EndpointSlice", {"metadata": {"labels": {_SERVICE_NAME: "other"}}}),
        ([_DEPLOYMENT, _SERVICE], "EndpointSlice", {"metadata": {"labels": None}}),
        ([_DEPLOYMENT, _SERVICE], "EndpointSlice", {"metadata": {"ownerReferences": None}}),
        ([_DEPLOYMENT, _SERVICE], "EndpointSlice", _DELETED),
        ([_DEPLOYMENT, _SERVICE], "Endpoints", {"subsets": [{"addresses": [{"ip": "192.0.2.9"}]}]}),
        ([_DEPLOYMENT, _SERVICE], "Endpoints", {"metadata": {"labels": None}}),
        ([_DEPLOYMENT, _SERVICE], "Endpoints", _DELETED),
    ],
)
def test_it_is_as_it_was(made: list[JsonObject], kind: str, change: JsonObject) -> None:
    site = site_of(*made, seconds=60)
    before = site.all(kind)
    fields: JsonObject = {"patch_type": MERGE, "body": change, "subresource": "status" if "status" in change else ""}
    call = site.call("patch" if change else "delete", before[0], seconds=60, **(fields if change else {}))
    assert call.refusal is None
    assert site.all(kind) != before, "somebody has changed it"
    assert _content(site.all(kind)) == _content(before)


def test_owners_are_written_into_the_state_that_was_looked_at() -> None:
    """The whole list of references is written: one that somebody adds meanwhile would be lost."""
    view = View()
    owner = {**workload("ReplicaSet"), "apiVersion": "apps/v1"}
    owner["metadata"].update(namespace="default", uid="set", resourceVersion="1")
    owner["spec"]["selector"] = {"matchLabels": _LABELS}
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "set", "controller": True}
    for name, version, fields in (
        ("loose", "7", {"labels": _LABELS}),
        ("other", "8", {"labels": {"app": "other"}, "ownerReferences": [reference]}),
    ):
        metadata = {"name": name, "namespace": "default", "uid": name, "resourceVersion": version, **fields}
        view.put({"kind": "Pod", "apiVersion": "v1", "metadata": metadata})
    writes = claimed(view, owner, "Pod").writes
    assert {write.call.name: write.call.body["metadata"]["resourceVersion"] for write in writes} == {
        "loose": "7", "other": "8",
    }  # fmt: skip
    claim: JsonObject = {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "metadata": {"name": "data-web-0"}}
    claim["metadata"].update(namespace="default", uid="claim", resourceVersion="9")
    view.put(claim)
    stateful = workload("StatefulSet", volumeClaimTemplates=[{"metadata": {"name": "data"}}])
    stateful["spec"]["persistentVolumeClaimRetentionPolicy"] = {"whenDeleted": "Delete"}
    stateful["metadata"].update(namespace="default", uid="stateful")
    pod = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "web-0", "namespace": "default", "uid": "p"}}
    (write,) = retention_writes(view, {**stateful, "apiVersion": "apps/v1"}, [pod], range(1))
    assert write.call.body["metadata"]["resourceVersion"] == "9"
