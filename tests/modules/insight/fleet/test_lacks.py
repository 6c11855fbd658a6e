"""Which workloads lack pods, and why."""

from typing import Any

import pytest

from modules.insight.fleet.lacks import Lack, lack_of

QUOTA = 'pods "web-x" is forbidden: exceeded quota: small'


def workload(spec: dict[str, Any], status: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    """A workload `web` of the namespace shop."""
    return {"metadata": {"name": "web", "namespace": "shop", **metadata}, "spec": spec, "status": status}


def condition(type_: str, status: str, message: str = "") -> dict[str, Any]:
    """A status with one condition."""
    return {"conditions": [{"type": type_, "status": status, "message": message}]}


def lack(kind: str, obj: dict[str, Any], refusal: str = "") -> Lack | None:
    return lack_of(kind, obj, lambda: refusal)


def test_a_deployment_has_its_reason_in_a_condition() -> None:
    status = {"replicas": 1, **condition("ReplicaFailure", "True", QUOTA)}
    found = lack("Deployment", workload({"replicas": 3}, status))
    assert found == Lack("shop", "Deployment web", 3, 2, QUOTA)
    assert found.words == "Deployment web: 2 of 3 pods cannot be made"
    assert found.remedy("cloudcore") == (
        "raise the quota, or ask for less: `cloudcore -n shop describe resourcequota small`"
    )
    assert lack("ReplicaSet", workload({"replicas": 3}, status, ownerReferences=[{"controller": True}])) is None
    assert lack("ReplicaSet", workload({"replicas": 3}, status, ownerReferences=[{"kind": "ConfigMap"}])) is not None
    long = lack("Deployment", workload({"replicas": 3}, condition("ReplicaFailure", "True", "no\n room " * 100)))
    assert long is not None
    assert long.why == ("no room " * 100)[:500]


def test_a_rollout_that_has_stopped_lacks_no_pod() -> None:
    stopped = {"replicas": 3, **condition("Progressing", "False", "has timed out")}
    found = lack("Deployment", workload({"replicas": 3}, stopped))
    assert found is not None
    assert (found.missing, found.words) == (0, "Deployment web: its rollout has stopped")
    assert (
        lack("Deployment", workload({"replicas": 3}, {"replicas": 1, **condition("Progressing", "True", "x")})) is None
    )


@pytest.mark.parametrize(
    ("kind", "spec", "status"),
    [
        ("StatefulSet", {"replicas": 3}, {"replicas": 2}),
        ("DaemonSet", {}, {"desiredNumberScheduled": 2, "currentNumberScheduled": 1}),
        ("Job", {"parallelism": 2, "completions": 5}, {"active": 1, "succeeded": 3}),
        ("Job", {"parallelism": 2}, {"active": 1}),
    ],
)
def test_other_kinds_have_their_reason_in_an_event(kind: str, spec: dict[str, Any], status: dict[str, Any]) -> None:
    found = lack(kind, workload(spec, status), QUOTA)
    assert found is not None
    assert (found.missing, found.why) == (1, QUOTA)
    assert lack(kind, workload(spec, status)) is None


@pytest.mark.parametrize(
    ("spec", "status"),
    [
        ({"parallelism": 3, "completions": 5}, {"active": 1, "succeeded": 4}),
        ({"parallelism": 3}, {"active": 1, "succeeded": 1}),
        ({"parallelism": 3, "completions": 3, "suspend": True}, {}),
        ({"parallelism": 3, "completions": 3}, condition("Complete", "True")),
        ({"parallelism": 3, "completions": 3}, condition("Failed", "True")),
    ],
)
def test_a_job_lacks_no_pods_that_it_needs_no_more(spec: dict[str, Any], status: dict[str, Any]) -> None:
    """The Event of a quota that was too small at its beginning is still there."""
    assert lack("Job", workload(spec, status), QUOTA) is None
