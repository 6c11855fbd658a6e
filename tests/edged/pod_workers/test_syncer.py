"""One job of a pod, with parts that note what they are asked for and fail when the test says."""

from collections.abc import Callable
from operator import attrgetter
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest

from beehive.simulation import Simulation
from edged.cgroups.errors import CgroupError
from edged.cri.contract import ContainerId
from edged.cri.errors import CriError, UnavailableError
from edged.errors import AllocationRefusedError, DevicesPendingError, EdgedError, VolumeError
from edged.events.model import Occurrence
from edged.events.pods import PodEvents
from edged.events.recorder import EventRecorder
from edged.host import Host
from edged.lifecycle.hooks import HookTarget
from edged.pod_workers.errors import ContainerStartError, ImagePendingError, ImageUnavailableError
from edged.pod_workers.job import Done, Job
from edged.pod_workers.syncer import ContainerParts, PodSyncer
from edged.pods.actions import ContainerKill, ContainerStart, PodActions
from edged.pods.backoff import BackOffs, container_key
from edged.pods.labels import ref_of
from edged.pods.model import ContainerFacts, HookFacts, PodFacts, PodState, RunState, SandboxId
from edged.pods.unhealthy import KillReason
from edged.probes.targets import PodAddress
from metamanager.client import NoAnswerError
from modules.apimachinery.types import (
    Container,
    Lifecycle,
    LifecycleHandler,
    Nanoseconds,
    ObjectMeta,
    Pod,
    PodSpec,
    PodStatus,
)
from modules.apimachinery.types.probes import SleepAction
from protos.status import StatusCode

CONTAINERS = tuple(Container(name=name, image="x") for name in ("a", "b"))
POD = Pod(metadata=ObjectMeta(name="web", namespace="d", uid="u"), spec=PodSpec(containers=CONTAINERS))
REF = ref_of(POD)
SANDBOX = SandboxId("s")


class Bench:
    """A syncer whose parts are all one mock, so that its calls are in order."""

    def __init__(self, take: Callable[[Occurrence], None] | None = None, host: Host = Host()) -> None:  # noqa: B008
        self.parts = Mock()
        self.parts.lifecycle.waits.is_terminating.return_value = False
        self.parts.directories.prepare.return_value = {}
        self.parts.pruner.prune.side_effect = lambda facts: facts
        self.backoffs = BackOffs()
        self.facts = PodFacts(REF)
        self.parts.reader.read_pod.side_effect = self.parts.reader.read_again.side_effect = lambda *_: self.facts
        self.parts.reader.list_pod.side_effect = PodFacts
        self.parts.resources.directories = self.parts.directories
        parts = ContainerParts(self.parts.starter, self.parts.killer, self.parts.pruner)
        self.simulation = Simulation(1)
        if take is not None:
            self.parts.events = PodEvents(EventRecorder(self.simulation.clock, "n1", take))
        self.syncer = PodSyncer(
            self.simulation.clock, self.parts.reader, parts, self.parts.resources, self.parts.lifecycle, self.backoffs,
            self.parts.events, noticed_end=host.noticed_end,
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


@pytest.mark.parametrize(("is_ending", "noticed", "starts"), [(True, False, 2), (False, True, 0)])
def test_what_a_worker_notices_of_the_end_is_asked_of_the_host(*, is_ending: bool, noticed: bool, starts: int) -> None:
    """A replay answers as recorded, whether the end came earlier or later than in the recorded run."""
    asked: list[tuple[str, bool]] = []

    def noticed_end(uid: str, is_now: bool) -> bool:
        asked.append((uid, is_now))
        return noticed

    bench = Bench(host=Host(noticed_end=noticed_end))
    bench.parts.lifecycle.waits.is_terminating.return_value = is_ending
    bench.start(None, None)
    assert (asked, len(bench.called("starter.start_container"))) == ([(REF.uid, is_ending)], starts)


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

    def read(*_: object) -> PodFacts:
        bench.simulation.run_for(1.0)
        return bench.facts

    bench.parts.reader.read_pod.side_effect = bench.parts.reader.read_again.side_effect = read
    began = bench.simulation.clock.monotonic()
    assert bench.sync(PodActions(sandbox=SANDBOX)).facts_at == began
    assert bench.start(None, None).facts_at == began + 2.0


def test_only_hooks_of_containers_that_run_are_remembered(bench: Bench) -> None:
    ended = ContainerFacts(ContainerId("old"), SANDBOX, "a", 0, RunState.EXITED, Nanoseconds(1))
    bench.facts = PodFacts(REF, (), (_running("a"), ended))
    bench.sync(PodActions(sandbox=SANDBOX))
    bench.parts.lifecycle.post_start_hooks.keep_only.assert_called_once_with(REF.uid, {"id-a"})


def test_the_earliest_retry_of_several_containers_counts(bench: Bench) -> None:
    late, soon = (ImageUnavailableError(name, "r", "m", at) for name, at in (("a", 90.0), ("b", 5.0)))
    done = bench.start(late, soon)
    assert done.retry_at == 5.0
    assert set(done.waiting_reasons) == {"a", "b"}


def test_a_container_that_cannot_start_is_tried_ever_later(bench: Bench) -> None:
    """One whose image is missing has the back-off of its image."""
    bench.start(ContainerStartError("a", "r", "m"), ImageUnavailableError("b", "r", "m"))
    assert [bench.backoffs.delay(container_key(REF.uid, each)) > 0 for each in CONTAINERS] == [True, False]


def test_containers_start_in_their_order(bench: Bench) -> None:
    """None starts before one whose image is still pulled."""
    done = bench.start(ImagePendingError("a", "r", "m"), None)
    assert (done.pending, bench.called("starter.start_container")) == (True, ["starter.start_container"])


def test_after_a_job_what_it_found_and_made_is_read_without_lists(bench: Bench) -> None:
    """But for one that failed: an answer that is lost may have told of something that was made."""
    bench.parts.starter.ensure_sandbox.return_value.id = SANDBOX
    made = [ContainerId(f"id-{each.name}") for each in CONTAINERS]
    starts = tuple(ContainerStart(each, 0) for each in CONTAINERS)
    for last, calls in ((made[1], ["read_again"]), (ContainerStartError("b", "r", "m"), ["read_pod"])):
        bench.parts.starter.start_container.side_effect = [made[0], last]
        job = Job(PodState.SYNC, REF, POD, plan=(bench.facts, PodActions(create_sandbox=True, start=starts)))
        bench.parts.reset_mock()
        bench.syncer.sync(msgspec.structs.replace(job, known=bench.facts))
        assert [each.partition(".")[2] for each in bench.called("reader.read_pod", "reader.read_again")] == calls
        if calls == ["read_again"]:
            bench.parts.reader.read_again.assert_called_once_with(bench.facts, SANDBOX, made)


STEPS = ("killer.remove_pod", "resources.remove", "starter.forget_pod")
GIVEN_BACK = {PodState.TERMINATING: "resources.release", PodState.TERMINATED: "resources.remove"}


def test_the_removal_of_a_pod_forgets_it_everywhere(bench: Bench) -> None:
    """In this order: its containers have ended before its resources go."""
    done = bench.syncer.sync(Job(PodState.TERMINATED, REF, POD))
    assert bench.called(*STEPS) == list(STEPS)
    assert (done.terminated, done.facts, done.error) == (True, PodFacts(REF), None)
    assert not bench.called("reader.read_pod")


def test_a_pod_whose_removal_fails_is_read_again(bench: Bench) -> None:
    bench.parts.killer.remove_pod.side_effect = OSError("busy")
    done = bench.syncer.sync(Job(PodState.TERMINATED, REF, POD))
    assert (done.terminated, isinstance(done.error, OSError)) == (True, True)
    assert bench.called("reader.read_pod")


@pytest.mark.parametrize("state", [PodState.TERMINATING, PodState.TERMINATED])
def test_a_pod_has_ended_though_its_resources_are_not_released(bench: Bench, state: Any) -> None:
    attrgetter(GIVEN_BACK[state])(bench.parts).side_effect = OSError("busy")
    done = bench.syncer.sync(Job(state, REF, POD))
    assert (done.terminated, isinstance(done.error, OSError)) == (True, True)


SYNC_STEPS = (
    "reader.read_pod", "events.sandbox_changed", "killer.kill_pod", "killer.kill_containers", "events.starting",
    "resources.devices.allocate", "directories.prepare", "events.volumes_ready", "resources.cgroups.apply",
    "starter.ensure_sandbox", "starter.start_container", "pruner.prune",
)  # fmt: skip


def test_the_steps_of_a_sync(bench: Bench) -> None:
    """In a kubelet's order: what is in the way ends first; devices and volumes are there before the sandbox."""
    starts = tuple(ContainerStart(each, 0) for each in CONTAINERS)
    kill = ContainerKill(_running("a"), KillReason.DEFINITION_CHANGED, restarts=True)
    bench.facts = PodFacts(REF, (), (_running("a"),))
    done = bench.sync(PodActions(kill_pod=True, kill=(kill,), create_sandbox=True, start=starts))
    called = bench.called(*SYNC_STEPS, "reader.read_again")
    assert called == [*SYNC_STEPS[:-1], "starter.start_container", "reader.read_again", "pruner.prune"]
    assert (done.error, done.pending, done.terminated) == (None, False, False)
    bench.parts.resources.devices.allocate.assert_called_once_with(POD, anew=True, running={"a"})
    bench.parts.resources.cgroups.apply.assert_called_once_with(POD, anew=True)


def test_a_pod_that_runs_gets_new_files_and_limits_only(bench: Bench) -> None:
    assert not bench.sync(PodActions(sandbox=SANDBOX)).pending
    assert bench.called(*SYNC_STEPS[1:]) == [
        "killer.kill_containers", "directories.prepare", "resources.cgroups.apply", "pruner.prune",
    ]  # fmt: skip


def test_a_pod_without_its_sandbox_is_killed_without_the_event_of_a_new_one(bench: Bench) -> None:
    bench.sync(PodActions(kill_pod=True))
    assert bench.called("events.sandbox_changed", "killer.kill_pod") == ["killer.kill_pod"]
    bench.parts.reset_mock()
    bench.sync(PodActions(create_sandbox=True))
    assert bench.called("events.sandbox_changed", "killer.kill_pod") == []


@pytest.mark.parametrize(
    ("phase", "sandbox", "creates", "is_released"),
    [
        ("Running", SANDBOX, False, False), ("Running", None, True, False), ("Running", None, False, True),
        ("Failed", SANDBOX, False, True), ("Succeeded", None, True, True),
    ],
)  # fmt: skip
def test_a_pod_that_has_no_sandbox_any_more_gives_its_resources_back(
    bench: Bench, phase: str, sandbox: Any, creates: bool, is_released: bool
) -> None:
    pod = msgspec.structs.replace(POD, status=PodStatus(phase=phase))
    actions = PodActions(sandbox=sandbox, create_sandbox=creates)
    assert not bench.syncer.sync(Job(PodState.SYNC, REF, pod, plan=(bench.facts, actions))).pending
    expected = "resources.release" if is_released else "directories.prepare"
    assert bench.called("resources.release", "directories.prepare") == [expected]


@pytest.mark.parametrize("init", [(), (Container(name="i", image="x"),)])
def test_containers_wait_for_what_their_pod_lacks(bench: Bench, init: tuple[Container, ...]) -> None:
    bench.parts.directories.prepare.side_effect = OSError("full")
    pod = msgspec.structs.replace(POD, spec=msgspec.structs.replace(POD.spec, init_containers=init))
    actions = PodActions(sandbox=SANDBOX, start=(ContainerStart(CONTAINERS[1], 0),))
    done = bench.syncer.sync(Job(PodState.SYNC, REF, pod, plan=(bench.facts, actions)))
    reason = "PodInitializing" if init else "ContainerCreating"
    assert {name: (each.reason, each.message) for name, each in done.waiting_reasons.items()} == {"b": (reason, "full")}
    bench.parts.events.mount_failed.assert_called_once_with(pod, bench.parts.directories.prepare.side_effect)


def test_a_failed_hook_fails_the_sync_after_its_other_steps(bench: Bench) -> None:
    kills = (
        ContainerKill(_running("a"), KillReason.START_HOOK, restarts=True),
        ContainerKill(_running("b"), KillReason.LIVENESS_PROBE, restarts=True),
    )
    hooks = HookFacts(failed={ContainerId("id-a"): "exit code 1"})
    actions = PodActions(sandbox=SANDBOX, kill=kills)
    done = bench.syncer.sync(Job(PodState.SYNC, REF, POD, hooks=hooks, plan=(bench.facts, actions)))
    assert isinstance(done.error, ContainerStartError)
    assert {name: (each.reason, each.message) for name, each in done.waiting_reasons.items()} == {
        "a": ("PostStartHookError", "exit code 1")
    }
    assert bench.called("killer.kill_containers", "directories.prepare") == [
        "killer.kill_containers", "directories.prepare",
    ]  # fmt: skip
    bench.parts.killer.kill_containers.side_effect = EdgedError("stop", "it", "no answer")
    done = bench.syncer.sync(Job(PodState.SYNC, REF, POD, hooks=hooks, plan=(bench.facts, actions)))
    assert done.waiting_reasons == {}, "it has not ended yet"


def test_a_pod_that_is_to_end_since_is_not_pending(bench: Bench) -> None:
    bench.parts.lifecycle.waits.is_terminating.return_value = True
    assert not bench.start().pending


@pytest.mark.parametrize("ips", [("10.0.0.9", "fd00::9"), ()])
def test_containers_after_one_with_a_start_hook_wait_for_its_end(bench: Bench, ips: tuple[str, ...]) -> None:
    hook = LifecycleHandler(sleep=SleepAction(seconds=5))
    hooked = Container(name="h", image="x", lifecycle=Lifecycle(post_start=hook))
    bench.parts.starter.start_container.side_effect = [ContainerId("id-a"), ContainerId("id-h")]
    bench.parts.starter.pod_ips.return_value = ips
    starts = tuple(ContainerStart(each, 1, after=Nanoseconds(1)) for each in (CONTAINERS[0], hooked, CONTAINERS[1]))
    bench.sync(PodActions(sandbox=SANDBOX, start=starts))
    assert bench.parts.starter.start_container.call_count == 2
    target = HookTarget(REF.uid, hooked, ContainerId("id-h"), PodAddress(ips[0] if ips else ""))
    bench.parts.lifecycle.post_start_hooks.begin.assert_called_once_with(hook, target)
    delays = [bench.backoffs.delay(container_key(REF.uid, each.container)) > 0 for each in starts]
    assert delays == [True, True, False]


def test_an_unexpected_failure_is_an_event_of_its_pod(bench: Bench) -> None:
    """An expected one is told by the step that failed."""
    for error, count in ((OSError("full"), 0), (ZeroDivisionError(), 1)):
        bench.parts.killer.kill_containers.side_effect = error
        assert bench.sync(PodActions(sandbox=SANDBOX)).error is error
        assert bench.parts.events.sync_failed.call_count == count
    bench.parts.killer.kill_orphan.side_effect = ZeroDivisionError()
    assert bench.syncer.sync(Job(PodState.TERMINATED, REF)).error is not None
    assert bench.parts.events.sync_failed.call_count == 1, "nobody knows the pod of an orphan"


def test_a_pod_whose_devices_are_refused_is_rejected(bench: Bench) -> None:
    bench.parts.resources.devices.allocate.side_effect = AllocationRefusedError("gpu", "it", "no such device")
    done = bench.start()
    assert done.kill_options is not None
    assert (done.kill_options.reason, done.kill_options.rejected) == ("UnexpectedAdmissionError", True)
    assert done.kill_options.message.startswith("Pod was rejected: Allocate failed due to")
    bench.parts.events.refused.assert_called_once_with(POD, "UnexpectedAdmissionError", done.kill_options.message)


@pytest.mark.parametrize("pod", [POD, None])
@pytest.mark.parametrize("keeps_last", [False, True])
def test_a_removed_pods_containers_end(bench: Bench, pod: Pod | None, keeps_last: bool) -> None:
    """Also those of a pod that nobody knows. The last ones stay where the store has the pod still."""
    bench.syncer.sync(Job(PodState.TERMINATED, REF, pod, keeps_last=keeps_last))
    ends = "killer.kill_orphan" if pod is None else "killer.kill_pod"
    last = "pruner.prune" if keeps_last else "killer.remove_pod"
    names = ("killer.kill_orphan", "killer.kill_pod", "killer.remove_pod", "pruner.prune", "resources.remove")
    assert bench.called(*names) == [ends, last, "resources.remove"]


def test_only_a_sync_prunes_what_it_reports(bench: Bench) -> None:
    bench.syncer.sync(Job(PodState.TERMINATING, REF, POD))
    assert bench.called("pruner.prune") == []
    bench.sync(PodActions(sandbox=SANDBOX))
    assert bench.called("pruner.prune") == ["pruner.prune"]


FAILED, AWAY = (kind("Call", "it", StatusCode.UNKNOWN, "no") for kind in (CriError, UnavailableError))


@pytest.mark.parametrize(
    ("part", "error", "reasons"),
    [
        ("resources.devices.allocate", DevicesPendingError("find devices", "r/x", "waiting"), ["FailedSync"]),
        ("directories.prepare", VolumeError("PVC is not bound", "data"), ["FailedMount"]),
        ("directories.prepare", NoAnswerError("ask for", "a token"), ["FailedMount"]),
        ("directories.prepare", OSError("full"), ["FailedMount"]),
        ("resources.cgroups.apply", CgroupError("make", "it"), ["FailedCreatePodContainer"]),
        ("starter.ensure_sandbox", FAILED, ["FailedCreatePodSandBox"]),
        ("starter.ensure_sandbox", AWAY, ["FailedCreatePodSandBox"]),
        ("starter.start_container", ContainerStartError("a", "r", "m"), []),
        ("reader.read_pod", FAILED, ["FailedSync"]),
        ("reader.read_pod", AWAY, []),
    ],
)
def test_what_a_pod_waits_for_is_in_an_event(part: str, error: Exception, reasons: list[str]) -> None:
    """Once, in a kubelet's words. The starter itself tells of containers, and the node of a runtime that is away."""
    told: list[Occurrence] = []
    bench = Bench(told.append)
    attrgetter(part)(bench.parts).side_effect = error
    done = bench.sync(PodActions(create_sandbox=True, start=(ContainerStart(CONTAINERS[0], 0),)))
    assert done.error is error
    assert [each.reason for each in told] == reasons
    assert all(str(error) in each.message for each in told)


@pytest.mark.parametrize("state", [PodState.TERMINATING, PodState.TERMINATED])
@pytest.mark.parametrize(
    ("part", "reason"),
    [("killer.kill_pod", "FailedKillPod"), ("", "FailedSync"), ("reader.list_pod", "FailedSync")],
)
def test_what_the_end_of_a_pod_waits_for_is_in_an_event(state: PodState, part: str, reason: str) -> None:
    told: list[Occurrence] = []
    bench = Bench(told.append)
    attrgetter(part or GIVEN_BACK[state])(bench.parts).side_effect = VolumeError("unmount a volume", "data")
    bench.syncer.sync(Job(state, REF, POD))
    assert [each.reason for each in told] == [reason]


@pytest.mark.parametrize(
    ("job", "calls"),
    [
        (Job(PodState.TERMINATING, REF, POD), ["list_pod", "kill_pod", "read_again"]),
        (Job(PodState.TERMINATING, REF, POD, known=PodFacts(REF)), ["kill_pod", "read_again"]),
        (Job(PodState.TERMINATED, REF, POD), ["list_pod", "kill_pod", "remove_pod"]),
        (Job(PodState.TERMINATED, REF, POD, known=PodFacts(REF)), ["kill_pod", "remove_pod"]),
        (
            Job(PodState.TERMINATED, REF, POD, keeps_last=True),
            ["list_pod", "kill_pod", "list_pod", "prune", "read_pod"],
        ),
    ],
)
def test_the_end_of_a_pod_is_decided_by_lists_and_what_is_removed_is_read_no_more(
    bench: Bench, job: Job, calls: list[str]
) -> None:
    reads = ("reader.list_pod", "reader.read_pod", "reader.read_again")
    names = (*reads, "killer.kill_pod", "killer.remove_pod", "pruner.prune")
    done = bench.syncer.sync(job)
    assert [name.partition(".")[2] for name in bench.called(*names)] == calls
    assert done.facts == PodFacts(REF)
