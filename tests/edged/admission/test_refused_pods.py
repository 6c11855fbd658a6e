"""Admission as edged does it, alone on the bus."""

from pathlib import Path
from unittest.mock import patch

import pytest
from msgspec.structs import replace

from edged.node.state import LocalNode
from tests.edged.conftest import Bench, pod


def _asking(name: str, cpu: str, **spec: object) -> dict[str, object]:
    container = {"name": "main", "image": "busybox:1.36", "command": ["sleep", "inf"]}
    return pod(name, containers=[{**container, "resources": {"requests": {"cpu": cpu}}}], **spec)


def test_a_pod_without_room_is_failed_with_the_reason_and_nothing_of_it_is_made(bench: Bench) -> None:
    bench.start(_asking("big", "10000"))
    status = bench.meta.statuses("big")[-1]
    assert (status["phase"], status["reason"]) == ("Failed", "OutOfcpu")
    assert "containerStatuses" not in status
    assert bench.runtime.calls["run_pod_sandbox"] == 0


def test_a_node_knows_whether_its_kernel_has_apparmor(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = replace(bench.figures.machine(Path()), has_apparmor=False)
    monkeypatch.setattr(bench.figures, "machine", lambda *_: facts)
    bench.start(pod("confined", securityContext={"appArmorProfile": {"type": "RuntimeDefault"}}))
    assert bench.meta.statuses("confined")[-1]["reason"] == "AppArmor"


def test_the_resources_of_the_node_are_computed_once_for_a_pod(bench: Bench) -> None:
    """For its labels and taints, and for its admission; not at all for a pod that needs none."""
    bench.start()
    with patch.object(LocalNode, "allocatable", autospec=True, side_effect=LocalNode.allocatable) as computed:
        bench.tell("insert", pod("new"))
        assert computed.call_count == 1
        status = {"phase": "Running", "startTime": "2026-11-20T01:54:50Z"}
        bench.tell("insert", {**pod("known"), "status": status})
        assert computed.call_count == 1
    assert bench.running() == ["main", "main"]


@pytest.mark.parametrize(
    ("critical", "node_name", "forged", "phases"),
    [
        (True, "", (), ["Running"]),
        (False, "", (), ["Failed"]),
        (True, "other", (), ["Failed"]),
        (False, "", ("source",), ["Failed"]),
        (False, "", ("mirror",), []),
        (False, "", ("source", "mirror"), []),
    ],
)
def test_a_critical_pod_takes_the_room_of_others(
    bench: Bench, critical: bool, node_name: str, forged: tuple[str, ...], phases: list[str]
) -> None:
    """Not if something else keeps it out, too, nor by the annotations of a static pod. The other pod is no failure of
    its controller's.
    """
    bench.start(_asking("small", "1"))
    selector = {"kubernetes.io/hostname": node_name or "n1"}
    cpus = f"{bench.figures.machine(Path()).cpus}"
    marks = {"annotations": {f"kubernetes.io/config.{each}": "file" for each in forged}}
    priority = 2_000_000_000 * critical
    bench.tell("insert", _asking("big", cpus, priority=priority, nodeSelector=selector, metadata=marks), wait=40)
    is_admitted = phases == ["Running"]
    assert bench.meta.phases("big")[-1:] == phases
    small = bench.meta.statuses("small")[-1]
    assert (small["phase"], small.get("reason")) == (("Failed", "Preempting") if is_admitted else ("Running", None))
    if is_admitted:
        assert "DisruptionTarget" in [each["type"] for each in small["conditions"]]
        assert "Preempting" in [reason for reason, _ in bench.meta.told("small")]


def test_it_makes_room_for_others_and_never_comes_back(bench: Bench) -> None:
    bench.start(_asking("big", "10000"), pod("small"), wait=300)
    assert bench.running() == ["main"]
    assert bench.meta.phases("big")[-1] == "Failed"


def test_a_pod_that_was_here_before_is_not_turned_out(bench: Bench) -> None:
    """Of the store, after a restart: it may well be running."""
    stored = _asking("big", "10000")
    stored["status"] = {"phase": "Running", "startTime": "2026-11-20T01:54:50Z"}
    bench.meta.objects["default/pod/big"] = stored
    bench.start()
    assert bench.running() == ["main"]


@pytest.mark.parametrize("command", ["sleep", "exit"])
def test_the_successor_of_a_pod_that_is_ending_is_taken(bench: Bench, command: str) -> None:
    """Or has ended. It wants the same port of the node; a kubelet would refuse it for good."""
    port = [{"containerPort": 80, "hostPort": 8080}]
    container = {"name": "main", "image": "busybox:1.36", "command": ["sleep", "inf"], "ports": port}
    bench.start(pod("one", restartPolicy="Never", containers=[{**container, "command": [command, "0"]}]))
    if command == "sleep":
        bench.tell("insert", pod("two", containers=[container]))
        assert bench.meta.statuses("two")[-1]["reason"] == "NodePorts"
        bench.runtime.obeys = 20.0
        bench.tell("delete", pod("one"))
    bench.run(2)
    bench.tell("insert", pod("three", containers=[container]), wait=2)
    assert bench.meta.phases("three")[-1] == "Running"


def test_the_new_requests_of_a_pod_count(bench: Bench) -> None:
    bench.start(_asking("grows", "1"))
    bench.tell("update", _asking("grows", "4"))
    bench.tell("insert", _asking("second", "1"))
    assert bench.meta.statuses("second")[-1]["reason"] == "OutOfcpu"
