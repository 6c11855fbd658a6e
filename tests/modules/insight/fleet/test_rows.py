"""The row of a pod: whose it is, and whether it is in trouble."""

from typing import Any

import pytest

from modules.insight.fleet.rows import clock_error, gaps_of, owner_of, pod_row

NOW = 1_000_000.0


def ended(phase: str, *, runs: bool = False) -> dict[str, Any]:
    """A pod whose only container has ended, or runs."""
    state = {"running": {}} if runs else {"terminated": {"reason": "Completed", "exitCode": 0}}
    statuses = [{"name": "web", "ready": runs, "restartCount": 0, "state": state}]
    return {"spec": {"containers": [{"name": "web"}]}, "status": {"phase": phase, "containerStatuses": statuses}}


@pytest.mark.parametrize(("phase", "is_troubled"), [("Succeeded", False), ("Running", True)])
def test_a_pod_that_has_completed_is_in_no_trouble(phase: str, *, is_troubled: bool) -> None:
    assert pod_row(ended(phase)).is_troubled == is_troubled
    assert not pod_row(ended(phase, runs=True)).is_troubled


@pytest.mark.parametrize(("reason", "status"), [("Evicted", "Evicted"), ("", "Error"), ("x" * 9000, "x" * 500)])
def test_a_pod_that_has_failed_has_its_own_reason_before_those_of_its_containers(reason: str, status: str) -> None:
    made = ended("Failed")
    made["status"]["reason"] = reason
    made["status"]["containerStatuses"][0]["state"]["terminated"]["reason"] = "Error"
    made["spec"]["containers"][0]["image"] = "y" * 9000
    row = pod_row(made)
    assert (row.status, row.image) == (status, "y" * 500)


@pytest.mark.parametrize(
    ("message", "why"), [("no\n disk", "no disk"), ("m" * 200, "m" * 200), ("m" * 201, "m" * 199 + "…")]
)
def test_why_a_pod_has_failed_is_one_line_of_200_characters_at_most(message: str, why: str) -> None:
    made = ended("Failed")
    made["status"]["message"] = message
    assert pod_row(made).why == why


@pytest.mark.parametrize(
    ("owner", "labels", "found"),
    [
        ({"kind": "Job", "name": "once", "controller": True}, {}, "Job once"),
        ({"kind": "ConfigMap", "name": "notes"}, {}, ""),
        ({"kind": "ReplicaSet", "name": "web-5d", "controller": True}, {"pod-template-hash": "5d"}, "Deployment web"),
        ({"kind": "ReplicaSet", "name": "web-5d", "controller": True}, {}, "ReplicaSet web-5d"),
        ({"kind": "ReplicaSet", "name": "web", "controller": True}, {"pod-template-hash": "5d"}, "ReplicaSet web"),
    ],
)
def test_the_owner_of_a_pod_is_its_controller(owner: dict[str, Any], labels: dict[str, str], found: str) -> None:
    assert owner_of({"metadata": {"ownerReferences": [owner], "labels": labels}}) == found


def test_a_connection_within_another_makes_no_gap() -> None:
    assert gaps_of([(NOW - 900.0, NOW - 100.0), (NOW - 800.0, NOW - 700.0), (NOW - 100.0, 0.0)], NOW) == ()
    assert gaps_of([(NOW - 200_000.0, NOW - 100_000.0), (NOW - 90_000.0, 0.0)], NOW) == ()


def test_a_clock_may_be_behind() -> None:
    assert [clock_error(each) for each in (59.9, -59.9, 60.0, -61.0)] == [0, 0, 60, -60]
