"""Pods that may be active for so long only."""

from pathlib import Path
from typing import Any

import pytest

from edged.pods.deadline import deadline_of
from modules.apimachinery.types import Nanoseconds, Pod, PodStatus, Time, seconds, to_value
from tests.edged.conftest import Bench, pod
from tests.edged.pods.builders import T0, a_pod

START = PodStatus(start_time=Time("2026-11-20T01:54:50Z"))


@pytest.mark.parametrize(
    ("wanted", "deadline"),
    [
        pytest.param(a_pod(active_deadline_seconds=60, status=START), T0 + seconds(60), id="from the start"),
        pytest.param(a_pod(active_deadline_seconds=0, status=START), T0, id="at once"),
        pytest.param(a_pod(status=START), None, id="for ever"),
        pytest.param(a_pod(active_deadline_seconds=60), None, id="it has not begun"),
    ],
)
def test_the_deadline_counts_from_the_start_time_of_the_pod(wanted: Pod, deadline: Nanoseconds | None) -> None:
    assert deadline_of(wanted) == deadline


def end_of(bench: Bench) -> tuple[str, str]:
    """Phase and reason as the node serves them."""
    status = next(each.status for each in bench.snapshots.pods if each.metadata.name == "web")
    return status.phase, status.reason


def test_a_pod_that_has_been_active_for_too_long_is_ended_with_the_reason(bench: Bench) -> None:
    """It is not started again, and stays until the cloud deletes it."""
    bench.start(pod(activeDeadlineSeconds=60), wait=57)
    assert end_of(bench) == ("Running", "")
    bench.run(5)
    assert end_of(bench) == ("Failed", "DeadlineExceeded")
    status = bench.meta.statuses("web")[-1]
    assert status["message"] == "Pod was active on the node longer than the specified deadline"
    bench.run(600)
    assert (bench.running(), bench.runtime.calls["start_container"]) == ([], 1)
    bench.tell("delete", pod(activeDeadlineSeconds=60))
    assert (bench.runtime.sandboxes, bench.snapshots.pods) == ({}, ())


def test_a_pod_that_waits_for_its_image_is_ended_too(bench: Bench) -> None:
    container = {"name": "main", "image": "busybox:0.1", "imagePullPolicy": "Never"}
    bench.start(pod(containers=[container], activeDeadlineSeconds=60), wait=65)
    assert end_of(bench) == ("Failed", "DeadlineExceeded")


def test_a_pod_that_ends_in_time_keeps_its_phase(bench: Bench) -> None:
    bench.start(pod(activeDeadlineSeconds=60, restartPolicy="Never"))
    bench.exit("main", 0, wait=120)
    assert end_of(bench) == ("Succeeded", "")


@pytest.mark.parametrize("before", [600, 15])
def test_a_deadline_that_is_changed_holds_as_it_is_now(bench: Bench, before: int) -> None:
    bench.start(pod(activeDeadlineSeconds=before), wait=10)
    bench.tell("update", pod(activeDeadlineSeconds=30, metadata={"resourceVersion": "2"}), wait=15)
    assert end_of(bench) == ("Running", "")
    bench.run(10)
    assert end_of(bench) == ("Failed", "DeadlineExceeded")


def test_the_agents_own_restart_gives_no_more_time(tmp_path: Path) -> None:
    """The pod comes back from the store with the start that was reported."""
    wanted = pod(activeDeadlineSeconds=60)
    first = Bench(tmp_path)
    first.start(wanted, wait=40)
    [stored] = first.snapshots.pods
    first.meta.objects["default/pod/web"] = to_value(stored)
    first.poison()
    first.run(15)
    assert end_of(first) == ("Running", "")
    first.run(10)
    assert end_of(first) == ("Failed", "DeadlineExceeded")
    first.stop()


def test_a_wall_clock_that_is_put_right_ends_nobody(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.start(pod(activeDeadlineSeconds=600))
    clock: Any = bench.bee.clock
    really = clock.now
    monkeypatch.setattr(clock, "now", lambda: really() + 50 * 365 * 86400.0)
    bench.run(500)
    assert end_of(bench) == ("Running", "")
    bench.run(110)
    assert end_of(bench) == ("Failed", "DeadlineExceeded")
