"""One job of a pod, with parts that note what they are asked for and fail when the test says."""

from typing import Any
from unittest.mock import Mock

import pytest

from beehive.simulation import Simulation
from edged.api import Container, Nanoseconds, ObjectMeta, Pod, PodSpec
from edged.cri.contract import ContainerId
from edged.errors import EdgedError
from edged.pod_workers.errors import ContainerStartError, ImagePendingError, ImageUnavailableError
from edged.pod_workers.job import Done, Job
from edged.pod_workers.syncer import ContainerParts, PodSyncer
from edged.pods.actions import ContainerKill, ContainerStart, PodActions
from edged.pods.backoff import BackOffs, container_key
from edged.pods.labels import ref_of
from edged.pods.model import ContainerFacts, PodFacts, PodState, RunState, SandboxId
from edged.pods.unhealthy import KillReason

CONTAINERS = tuple(Container(name=name, image="x") for name in ("a", "b"))
POD = Pod(metadata=ObjectMeta(name="web", namespace="d", uid="u"), spec=PodSpec(containers=CONTAINERS))
REF = ref_of(POD)
SANDBOX = SandboxId("s")


class Bench:
    """A syncer whose parts are all one mock, so that its calls are in order."""

    def __init__(self) -> None:
        self.parts = Mock()
        self.parts.lifecycle.waits.is_terminating.return_value = False
        self.parts.directories.prepare.return_value = {}
        self.parts.pruner.prune.side_effect = lambda facts: facts
        self.backoffs = BackOffs()
        self.facts = PodFacts(REF)
        self.parts.reader.read_pod.side_effect = lambda _ref: self.facts
        self.parts.resources.directories = self.parts.directories
        parts = ContainerParts(self.parts.starter, self.parts.killer, self.parts.pruner)
        self.simulation = Simulation(1)
        self.syncer = PodSyncer(
            self.simulation.clock, self.parts.reader, parts, self.parts.resources, self.parts.lifecycle, self.backoffs,
            self.parts.events,
        )  # fmt: skip

    def sync(self, actions: PodActions) -> Done:
        """Carry out these actions."""
        return self.syncer.sync(Job(PodState.SYNC, REF, POD, plan=(self.facts, actions)))

    def start(self, *errors: Exception | None) -> Done:
        """Start both containers, again; each of these errors comes in its turn."""
        self.parts.starter.start_container.side_effect = errors
        starts = tuple(ContainerStart(each, 1, after=Nanoseconds(1)) for each in CONTAINERS)
        return self.sync(PodActions(sandbox=SANDBOX, start=starts))

    def called(self, *names: str) -> list[str]:
        """Those of these calls that were made, in their order."""
        return [name for name, _, _ in self.parts.mock_calls if name in names]


@pytest.fixture
def bench() -> Bench:
    return Bench()


def _running(name: str) -> ContainerFacts:
    return ContainerFacts(ContainerId(f"id-{name}"), SANDBOX, name, 0, RunState.RUNNING, Nanoseconds(1))


def test_a_container_counts_as_replaced_though_the_answer_to_its_stop_was_lost(bench: Bench) -> None:
    bench.facts = PodFacts(REF, (), (_running("a"),))
    bench.parts.killer.kill_containers.side_effect = EdgedError("stop", "it", "no answer")
    kill = ContainerKill(_running("a"), KillReason.DEFINITION_CHANGED, restarts=True)
    done = bench.sync(PodActions(sandbox=SANDBOX, kill=(kill,)))
    assert (list(done.replaced), done.error is not None) == (["id-a"], True)


def test_nothing_is_started_of_a_pod_that_is_to_end_since(bench: Bench) -> None:
    bench.parts.lifecycle.waits.is_terminating.return_value = True
    bench.start()
    assert bench.called("starter.start_container", "directories.prepare") == []


def test_a_sync_that_failed_has_no_facts_of_before(bench: Bench) -> None:
    """The pod needs nothing, but its volumes could not be updated: the job is no proof that all is well."""
    bench.parts.directories.prepare.side_effect = OSError("full")
    done = bench.sync(PodActions(sandbox=SANDBOX))
    assert (done.unchanged, bench.parts.reader.read_pod.call_count) == (False, 2)
    bench.parts.directories.prepare.side_effect = None
    done = bench.sync(PodActions(sandbox=SANDBOX))
    assert (done.unchanged, bench.parts.reader.read_pod.call_count) == (True, 3)


def test_facts_are_as_old_as_the_beginning_of_their_reading(bench: Bench) -> None:
    """What happens while the runtime reads the pod is newer."""

    def read(_ref: object) -> PodFacts:
        bench.simulation.run_for(1.0)
        return bench.facts

    bench.parts.reader.read_pod.side_effect = read
    began = bench.simulation.clock.monotonic()
    assert bench.sync(PodActions(sandbox=SANDBOX)).facts_at == began
    assert bench.start(None, None).facts_at == began + 2.0


def test_only_hooks_of_containers_that_run_are_remembered(bench: Bench) -> None:
    ended = ContainerFacts(ContainerId("old"), SANDBOX, "a", 0, RunState.EXITED, Nanoseconds(1))
    bench.facts = PodFacts(REF, (), (_running("a"), ended))
    bench.sync(PodActions(sandbox=SANDBOX))
    bench.parts.lifecycle.post_start_hooks.keep_only.assert_called_once_with(REF.uid, {"id-a"})


def test_the_earliest_retry_of_several_containers_counts(bench: Bench) -> None:
    late, soon = (ImageUnavailableError(name, "r", "m", seconds) for name, seconds in (("a", 90.0), ("b", 5.0)))
    done = bench.start(late, soon)
    assert done.retry_after == 5.0
    assert set(done.waiting_reasons) == {"a", "b"}


def test_a_container_that_cannot_start_is_tried_ever_later(bench: Bench) -> None:
    """One whose image is missing has the back-off of its image."""
    bench.start(ContainerStartError("a", "r", "m"), ImageUnavailableError("b", "r", "m"))
    assert [bench.backoffs.delay(container_key(REF.uid, each)) > 0 for each in CONTAINERS] == [True, False]


def test_containers_start_in_their_order(bench: Bench) -> None:
    """None starts before one whose image is still pulled."""
    done = bench.start(ImagePendingError("a", "r", "m"), None)
    assert (done.pending, bench.called("starter.start_container")) == (True, ["starter.start_container"])


STEPS = (
    "killer.remove_pod", "resources.release", "directories.remove", "starter.forget_pod",
    "resources.cgroups.forget_pod", "resources.objects.forget_pod",
)  # fmt: skip


def test_the_removal_of_a_pod_forgets_it_everywhere(bench: Bench) -> None:
    """In this order: what is mounted in its directory is unmounted before the directory goes."""
    done = bench.syncer.sync(Job(PodState.TERMINATED, REF, POD))
    assert bench.called(*STEPS) == list(STEPS)
    assert (done.terminated, done.error) == (True, None)


@pytest.mark.parametrize("state", [PodState.TERMINATING, PodState.TERMINATED])
def test_a_pod_has_ended_though_its_resources_are_not_released(bench: Bench, state: Any) -> None:
    bench.parts.resources.release.side_effect = OSError("busy")
    done = bench.syncer.sync(Job(state, REF, POD))
    assert (done.terminated, isinstance(done.error, OSError)) == (True, True)
