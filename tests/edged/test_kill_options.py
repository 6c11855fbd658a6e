"""The node itself ends a pod: edged alone on the bus."""

from pathlib import Path

import grpc
import pytest

from edged.cri.errors import UnavailableError
from edged.pods.kill_options import KillOptions
from tests.edged.conftest import Bench, pod

EVICTED = KillOptions("Evicted", "The node was low on resource: memory.", grace_period=0, disruption=True)


def test_the_pod_ends_with_its_reason_once_nothing_of_it_runs(bench: Bench) -> None:
    bench.start(pod())
    bench.end("uid-web", EVICTED)
    status = bench.meta.statuses("web")[-1]
    assert (status["phase"], status["reason"], status["message"]) == ("Failed", EVICTED.reason, EVICTED.message)
    conditions = [each for patch in bench.meta.statuses("web") for each in patch.get("conditions", [])]
    assert [c["status"] for c in conditions if c["type"] == "DisruptionTarget"] == ["True"]
    assert bench.running() == []


def test_its_containers_get_the_verdicts_grace_period_and_no_other(bench: Bench) -> None:
    bench.start(pod(terminationGracePeriodSeconds=600))
    bench.runtime.obeys = float("inf")
    bench.end("uid-web", KillOptions("Evicted", "disk", grace_period=5))
    assert bench.meta.phases("web")[-1] == "Running"
    bench.run(6)
    assert bench.meta.phases("web")[-1] == "Failed"


def test_it_is_never_started_again_whatever_happens(bench: Bench) -> None:
    bench.start(pod())
    bench.end("uid-web", EVICTED)
    bench.tell("update", pod(metadata={"labels": {"a": "b"}, "resourceVersion": "7"}), wait=600)
    assert bench.running() == []
    assert bench.runtime.calls["start_container"] == 1


def test_a_container_that_cannot_be_stopped_is_tried_again(bench: Bench) -> None:
    bench.start(pod())
    bench.runtime.fail("stop_container", UnavailableError("StopContainer", "", grpc.StatusCode.UNAVAILABLE, "gone"))
    bench.end("uid-web", EVICTED)
    assert bench.meta.phases("web")[-1] == "Running"
    bench.run(5)
    assert bench.meta.phases("web")[-1] == "Failed"


def test_the_first_verdict_stands(bench: Bench) -> None:
    bench.start(pod())
    bench.end("uid-web", EVICTED)
    bench.end("uid-web", KillOptions("DeadlineExceeded", "too late"), wait=5)
    assert bench.meta.statuses("web")[-1]["reason"] == "Evicted"


def test_its_deletion_removes_the_rest(bench: Bench) -> None:
    bench.start(pod())
    bench.end("uid-web", EVICTED)
    bench.tell("delete", pod())
    assert bench.runtime.sandboxes == {}
    assert not list(bench.settings.root.glob("pods/*"))


def test_a_pod_that_has_ended_by_itself_is_left_as_it_is(bench: Bench) -> None:
    bench.start()
    container = {"name": "main", "image": "busybox:1.36", "command": ["exit", "0"]}
    bench.tell("insert", pod(restartPolicy="Never", containers=[container]), wait=3)
    bench.end("uid-web", EVICTED)
    assert bench.meta.phases("web")[-1] == "Succeeded"


@pytest.mark.parametrize("seed", range(6))
def test_an_event_before_the_workers_word_does_not_take_the_reason(tmp_path: Path, seed: int) -> None:
    """The runtime tells of the containers' ends while the worker still waits for its calls to return. What they add up
    to is no phase before the worker is done: a final one is never left, and its reason would be lost.
    """
    bench = Bench(tmp_path, seed)
    bench.start(pod(restartPolicy="Never"))
    bench.runtime.latency = 1.0
    bench.end("uid-web", EVICTED, wait=20)
    bench.stop()
    assert bench.meta.phases("web")[-1] == "Failed"
    final = next(each for each in bench.meta.statuses("web") if each.get("phase") == "Failed")
    assert (final["reason"], final["message"]) == (EVICTED.reason, EVICTED.message)
    assert "Succeeded" not in bench.meta.phases("web")


def test_a_pods_other_end_is_not_its_reason_either(bench: Bench) -> None:
    """A container that fails by itself while the pod is being killed: the pod is evicted, and not only Failed."""
    bench.start(pod(restartPolicy="Never"))
    bench.runtime.obeys = float("inf")
    bench.end("uid-web", KillOptions("Evicted", "disk", grace_period=9))
    bench.runtime.latency = 2.0
    bench.exit("main", 3, wait=30)
    status = bench.snapshots.pods[0].status
    assert (status.phase, status.reason) == ("Failed", "Evicted")


def test_the_nodes_own_verdict_outlasts_news_of_the_cloud(bench: Bench) -> None:
    """The cloud sends the pod again, as it knew it before the eviction: the condition keeps its time."""
    bench.start(pod())
    bench.end("uid-web", EVICTED)
    before = [each for each in bench.snapshots.pods[0].status.conditions if each.type == "DisruptionTarget"]
    bench.run(5)
    bench.tell("update", pod(metadata={"labels": {"a": "b"}, "resourceVersion": "7"}))
    assert [each for each in bench.snapshots.pods[0].status.conditions if each.type == "DisruptionTarget"] == before
