"""edged on a runtime that tells of changes: edged acts on ends immediately, and nothing else is different."""

import logging
import random
from collections import Counter
from pathlib import Path
from typing import Any
from unittest.mock import patch

import grpc
import pytest

from edged.cri.errors import UnavailableError
from edged.pleg.recording import PodChanged
from edged.pod_workers.job import Done, Job
from edged.pod_workers.syncer import PodSyncer
from edged.pods import labels
from protos.cri.v1 import api_pb2 as cri
from tests.edged.conftest import Bench, pod


def relists(bench: Bench) -> int:
    """Number of runtime calls of a relist, which a look at a pod also makes."""
    return bench.runtime.calls["list_pod_sandboxes"]


def just_relisted(bench: Bench) -> None:
    """Let edged come to rest, just after a relist: the next one is ten seconds away."""
    bench.run(12)
    before = relists(bench)
    while relists(bench) == before:
        bench.run(0.1)


def test_a_container_that_ends_is_started_again_without_a_relist(bench: Bench) -> None:
    bench.start(pod())
    just_relisted(bench)
    bench.exit("main", 1, wait=0.0)
    [new] = [c for c in bench.runtime.containers.values() if c.state == cri.CONTAINER_RUNNING]
    assert new.metadata.attempt == 1


def test_the_end_of_a_pod_is_reported_without_a_relist(bench: Bench) -> None:
    bench.start(pod(restartPolicy="Never"))
    just_relisted(bench)
    bench.exit("main", 3, wait=0.0)
    assert bench.meta.phases("web")[-1] == "Failed"


def test_without_events_it_is_a_relist_that_finds_it(bench: Bench) -> None:
    bench.runtime.serves_events = False
    bench.start(pod(restartPolicy="Never"), wait=2)
    bench.exit("main", 3, wait=0.0)
    assert bench.meta.phases("web")[-1] == "Running"
    bench.run(1.0)
    assert bench.meta.phases("web")[-1] == "Failed"


def test_a_runtime_need_not_be_asked_for_events(tmp_path: Path) -> None:
    bench = Bench(tmp_path, relist_period_with_events=0.0)
    bench.start(wait=10)
    assert bench.runtime.calls["container_events"] == 0
    assert relists(bench) >= 10
    bench.stop()


def test_a_pod_whose_container_is_exchanged_has_not_ended(bench: Bench) -> None:
    """Between the old container and the new one all containers have ended, with success (found by simulation)."""
    bench.start(pod(restartPolicy="Never"))
    bench.runtime.latency = 0.3
    other = {"name": "main", "image": "busybox:1.36", "command": ["sleep", "9"]}
    bench.tell("update", pod(restartPolicy="Never", containers=[other], metadata={"resourceVersion": "2"}), wait=30)
    assert "Succeeded" not in bench.meta.phases("web")
    assert bench.running() == ["main"]


def test_when_nothing_happens_the_runtime_is_left_alone(bench: Bench) -> None:
    bench.start(pod())
    just_relisted(bench)
    before = relists(bench)
    bench.run(30)
    assert relists(bench) - before <= 4  # three relists, and a worker that looks once a minute


class Serial:
    """Watches that no pod is ever on two workers."""

    def __init__(self) -> None:
        self.most: Counter[str] = Counter()
        self._now: Counter[str] = Counter()
        self._real = PodSyncer.sync

    def sync(self, syncer: PodSyncer, job: Job) -> Done:
        """Sync as the syncer."""
        uid = job.ref.uid
        self._now[uid] += 1
        self.most[uid] = max(self.most[uid], self._now[uid])
        try:
            return self._real(syncer, job)
        finally:
            self._now[uid] -= 1


def revised(name: str, revision: int) -> dict[str, Any]:
    """A pod as of a revision; each has another image."""
    main = {"name": f"main-{name}", "image": f"app:{revision}", "command": ["sleep", "inf"]}
    return pod(name, containers=[main], metadata={"resourceVersion": str(revision)}, terminationGracePeriodSeconds=1)


@pytest.mark.parametrize(("pods", "updates"), [(1, 1000), pytest.param(100, 10, marks=pytest.mark.slow)])
def test_a_thousand_updates_end_in_the_newest_state_with_the_work_on_each_pod_serial(
    tmp_path: Path, pods: int, updates: int
) -> None:
    """In random order, on a slow runtime, while containers keep dying."""
    draw, serial = random.Random(pods), Serial()  # noqa: S311 - reproducible on purpose
    bench = Bench(tmp_path, seed=pods)
    names = [f"p{number}" for number in range(pods)]
    order = [name for name in names for _ in range(updates)]
    draw.shuffle(order)
    newest: Counter[str] = Counter()
    sync = lambda syncer, job: serial.sync(syncer, job)  # noqa: E731, PLW0108 - it becomes a method
    with patch.object(PodSyncer, "sync", sync):
        bench.start()
        bench.runtime.latency = 0.02
        for name in order:
            newest[name] += 1
            operation = "insert" if newest[name] == 1 else "update"
            bench.post(operation, revised(name, newest[name]))
            bench.run(draw.choice([0.0, 0.0, 0.01, 0.05]))
            if draw.random() < 0.05:
                bench.exit(f"main-{draw.choice(names)}", draw.choice([0, 1]))
        bench.run(700)
    bench.stop()
    assert set(serial.most.values()) == {1}
    running = [c for c in bench.runtime.containers.values() if c.state == cri.CONTAINER_RUNNING]
    assert sorted(c.labels[labels.POD_NAME] for c in running) == sorted(names)
    assert all(c.image.image.endswith(f"app:{updates}") for c in running)
    reported = [status for served in bench.snapshots.pods for status in served.status.container_statuses]
    assert [status.ready for status in reported] == [True] * pods
    assert all(status.image.endswith(f"app:{updates}") for status in reported)


def test_a_runtime_that_is_away_is_logged_once_and_so_is_its_return(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    """Not for each pod and try, and again when it goes a second time."""
    caplog.set_level(logging.INFO)
    bench.start()
    for number in range(5):
        bench.post("insert", pod(f"p{number}"))
    bench.run(10)
    away = UnavailableError("ListPodSandbox", "", grpc.StatusCode.UNAVAILABLE, "gone")
    for times in (1, 2):
        for method in ("list_pod_sandboxes", "list_containers", "pod_sandbox_status", "container_status", "status"):
            bench.runtime.fail(method, away, times=10_000)
        bench.post("update", revised("p0", times + 1))
        bench.run(60)
        bench.runtime.recover()
        bench.run(60)
        assert caplog.text.count("the container runtime does not answer") == times
        assert caplog.text.count("the container runtime answers again") == times
        assert caplog.text.count("UNAVAILABLE") == times


def test_watchers_of_the_bus_get_the_findings_of_a_relist(bench: Bench) -> None:
    """By a relist and by a look after an event; a record of a run has both."""
    told: list[Any] = []
    bench.bee.hive.watchers.append(told.append)
    bench.start(pod(restartPolicy="Never"))
    just_relisted(bench)
    bench.exit("main", 3, wait=0.0)
    changes = [each for each in told if isinstance(each, PodChanged)]
    assert changes[-1].time == bench.bee.clock.monotonic()
    assert [container.exit_code for container in changes[-1].facts.containers] == [3]
