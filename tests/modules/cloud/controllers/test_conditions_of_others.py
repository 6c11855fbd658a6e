"""Conditions that others write into the status of a workload stay there, whatever its controller writes."""

import pytest

from modules.apimachinery.kinds import JsonObject
from tests.modules.cloud.controllers.site import site_of, workload

THEIRS = {"type": "example.com/Checked", "status": "True", "reason": "ByHand"}
WORKLOADS = [workload(kind) for kind in ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job")]
BUDGET = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "web"},
    "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
}


@pytest.mark.parametrize("obj", [*WORKLOADS, BUDGET], ids=lambda obj: obj["kind"])
def test_a_condition_of_another_stays(obj: JsonObject) -> None:
    site = site_of(WORKLOADS[0], obj, seconds=60)
    live = site.get(obj["kind"], "web")
    conditions = [*live["status"].get("conditions", ()), THEIRS]
    site.cluster.replace({**live, "status": {**live["status"], "conditions": conditions}})
    for pod in site.pods():
        site.report(pod, "Running")
    site.run_for(60)
    after = site.get(obj["kind"], "web")["status"]
    assert after != live["status"]
    assert THEIRS in after["conditions"]
