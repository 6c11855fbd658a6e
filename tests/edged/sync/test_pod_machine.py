"""The machine of a pod: rules that hold after any events, and the retries and next steps of single jobs."""

import random
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest
from msgspec.structs import replace

from edged.pleg.messages import PodInspection
from edged.pod_workers.errors import StartError
from edged.pod_workers.job import DeliveredObject, Done, Job, Queue
from edged.pods import actions
from edged.pods.backoff import BackOffs, container_key
from edged.pods.kill_options import KillOptions, KillPod, eviction
from edged.pods.manager import PodRecord, same_spec, terminated_by_cloud
from edged.pods.model import (
    ContainerFacts,
    ContainerId,
    HookFacts,
    PodFacts,
    PodRef,
    PodState,
    PodUid,
    ProbeFacts,
    RunState,
    SandboxFacts,
    SandboxId,
)
from edged.pods.pod_status.status import NodeView, pod_status
from edged.sync import pod_machine as machine
from edged.sync.pod_machine import Effect, PodEvent, PodSyncRecord, SyncFacts, next_job, queue_for, step
from modules.apimachinery.types import Nanoseconds, Pod, PodStatus, decode, encode
from tests.edged.conftest import pod

CHANGED = machine.DependencyChanged(("configmap", "default", "settings"), DeliveredObject(b"{}"))
UID = PodUid("uid-web")
REF = PodRef(UID, "default", "web")
SECOND = 1_000_000_000
START = 1_800_000_000 * SECOND


def web(**changes: Any) -> Pod:
    return decode(Pod, encode(pod(**changes)))


def facts(
    state: RunState | None = RunState.RUNNING,
    attempt: int = 0,
    *,
    ready: bool = True,
    exit_code: int = 0,
    at: Nanoseconds = Nanoseconds(START),  # noqa: B008
) -> PodFacts:
    """A pod with a sandbox and a container in it; only the sandbox if `state` is None."""
    sandbox = SandboxFacts(SandboxId("s"), 0, ready, Nanoseconds(START))
    ended = at if state is RunState.EXITED else Nanoseconds(0)
    container = ContainerFacts(
        ContainerId(f"c{attempt}"), SandboxId("s"), "main", attempt, state or RunState.CREATED, Nanoseconds(START),
        finished_at=ended, exit_code=exit_code,
    )  # fmt: skip
    return PodFacts(REF, (sandbox,), () if state is None else (container,))


class Loop:
    """Carries effects out as the sync loop does, without any part of a node."""

    def __init__(self) -> None:
        self.record = PodSyncRecord(REF, PodRecord(web(), PodFacts(REF)))
        self.monotonic = 100.0
        self.backoffs = BackOffs()
        self.is_working = False
        self.effects: list[Effect] = []
        """The effects of the last event."""
        self.steps_twice = True
        """Whether each step is repeated with a copy of the record."""
        self.queue: Queue | None = None
        """Where the last event has queued the pod."""

    @property
    def pod(self) -> PodRecord:
        """The pod."""
        assert self.record.pod is not None
        return self.record.pod

    def now(self) -> SyncFacts:
        """The time."""
        wall = Nanoseconds(int(START + self.monotonic * SECOND))
        return SyncFacts(self.monotonic, wall, ProbeFacts(), HookFacts(), self.backoffs, 1.0, 60.0, self.is_working)

    def handle(self, event: PodEvent) -> list[Effect]:
        """Step the machine; return the effects but the statuses."""
        self.effects, self.queue = [], None
        self._step(event)
        return [effect for effect in self.effects if not isinstance(effect, machine.UpdateStatus)]

    def _step(self, event: PodEvent) -> None:
        effects = self._twice(event)
        self.effects += effects
        for effect in effects:
            if isinstance(effect, machine.UpdateStatus) and self.record.pod is not None and not self.pod.deleted:
                self.pod.set_status(self._status(self.now()))
            if isinstance(effect, machine.Enqueue):
                self.queue = queue_for(self.record, self.now())

    def _twice(self, event: PodEvent) -> tuple[Effect, ...]:
        """Step a copy of the record as well: the same arguments have the same effects, and change nothing else."""
        now = self.now()
        if not self.steps_twice:
            return step(self.record, event, now)
        copy, before = deepcopy(self.record), repr((event, now))
        effects = step(self.record, event, now)
        assert step(copy, event, now) == effects
        assert copy == self.record
        assert repr((event, now)) == before
        return effects

    def work(self, after: PodFacts | None = None, **result: Any) -> list[Effect]:
        """Carry out a job of the pod, with this result."""
        self.is_working = True
        job = next_job(self.record, self.now())
        try:
            done = Done(job, after, self.monotonic, **result)
            self.handle(machine.WorkCompleted(done))
            self._step(machine.Requeue(done))
            return [effect for effect in self.effects if not isinstance(effect, machine.UpdateStatus)]
        finally:
            self.is_working = False

    def _status(self, now: SyncFacts) -> PodStatus:
        record = self.pod
        return pod_status(
            record.pod, record.facts, NodeView(("192.0.2.2",), "fake"), now.wall, probes=now.probes,
            waiting_reasons=record.waiting_reasons, ended=record.terminated, kill=record.kill_options,
        )  # fmt: skip


@pytest.fixture
def loop() -> Loop:
    loop = Loop()
    loop.handle(machine.AddPod(web()))
    return loop


# rules


def _facts(chance: random.Random, loop: Loop) -> PodFacts:
    if chance.random() < 0.2:
        return PodFacts(REF)
    state = chance.choice([None, RunState.CREATED, RunState.RUNNING, RunState.RUNNING, RunState.EXITED])
    exit_code, at = chance.choice([0, 1]), loop.now().wall
    return facts(state, chance.randrange(3), ready=chance.random() < 0.8, exit_code=exit_code, at=at)


def updated(known: PodRecord, new: Pod) -> PodEvent:
    """The event of another state of a pod, as the sync loop has it."""
    is_echo = same_spec(known.pod, new) and not terminated_by_cloud(known.pod, new)
    return machine.ReconcilePod(new) if is_echo else machine.UpdatePod(new)


def _event(chance: random.Random, loop: Loop) -> PodEvent:
    version: dict[str, Any] = {"resourceVersion": str(chance.randrange(100))}
    deleted: dict[str, Any] = {"deletionTimestamp": "2027-01-15T08:00:00Z", "deletionGracePeriodSeconds": 5}
    pods = [
        web(metadata=version),
        web(metadata={**version, "labels": {"a": str(chance.randrange(3))}}),
        web(metadata={**version, **deleted}),
        replace(web(metadata=version), status=loop.pod.pod.status),
        replace(web(metadata=version), status=PodStatus(phase="Failed")),
    ]
    events: list[PodEvent] = [
        updated(loop.pod, chance.choice(pods)),
        machine.RemovePod(chance.choice([None, 0, 7]), chance.random() < 0.5),
        chance.choice([eviction(UID, "too much"), KillPod(UID, KillOptions("Shutdown", "", 3), shortens=True)]),
        PodInspection(_facts(chance, loop), loop.monotonic),
        machine.NotListed(loop.monotonic),
        machine.HealthChanged(),
        CHANGED,
        machine.RetryPod(),
    ]
    return chance.choices(events, [3, 1, 1, 8, 1, 3, 2, 1])[0]


def _work(chance: random.Random, loop: Loop) -> list[Effect]:
    error = OSError("no") if chance.random() < 0.3 else None
    found = None if chance.random() < 0.1 else _facts(chance, loop)
    pending = error is None and chance.random() < 0.2
    return loop.work(found, error=error, pending=pending, terminated=chance.random() < 0.5)


def _seconds_until_queued(effects: list[Effect]) -> float:
    waits = [0.0 for each in effects if isinstance(each, machine.Enqueue)]
    waits += [each.seconds for each in effects if isinstance(each, machine.EnqueueAfter | machine.RetryAfter)]
    return min(waits, default=float("inf"))


def _is_queued(effects: list[Effect]) -> bool:
    return any(isinstance(each, machine.Enqueue | machine.EnqueueAfter | machine.RetryAfter) for each in effects)


def _life(seed: int, loop: Loop) -> Iterator[tuple[PodState, bool, list[Effect]]]:
    """Each step of a random life: the state before it, whether it was the end of a job, and the effects."""
    chance = random.Random(seed)  # noqa: S311 - reproducible on purpose
    main = container_key(UID, loop.pod.pod.spec.containers[0])
    for _ in range(60):
        loop.monotonic += chance.choice([0.0, 0.01, 1.0, 30.0])
        if chance.random() < 0.1:
            loop.backoffs.advance(main, loop.now().wall, loop.now().wall)
        before, is_work = loop.pod.state, chance.random() < 0.4
        effects = _work(chance, loop) if is_work else loop.handle(_event(chance, loop))
        yield before, is_work, effects
        if machine.Forget() in effects:
            return


_ORDER = [PodState.SYNC, PodState.TERMINATING, PodState.TERMINATED]


@pytest.mark.parametrize("seed", range(100))
def test_rules_of_every_life(seed: int, loop: Loop) -> None:
    for before, is_work, effects in _life(seed, loop):
        state = loop.pod.state
        # a pod never goes back: its end is for good, its removal too
        assert _ORDER.index(state) >= _ORDER.index(before)
        # only the end of a removal forgets a pod, and only the end of a job that stopped everything deletes it
        assert machine.Forget() not in effects or (is_work and before is PodState.TERMINATED)
        assert machine.DeletePod() not in effects or (is_work and before is PodState.TERMINATING)
        # a pod that ends or is removed is never queued as an added one, nor the reverse
        for effect in effects:
            if isinstance(effect, machine.Enqueue):
                assert state is not PodState.SYNC or loop.queue is not Queue.REMOVAL
                assert state is not PodState.TERMINATING or loop.queue is Queue.DELETION
                assert state is not PodState.TERMINATED or loop.queue is Queue.REMOVAL
            if isinstance(effect, machine.EnqueueAfter | machine.RetryAfter):
                assert effect.seconds < float("inf")
        # a job never leaves a pod behind that nothing will ever sync again
        if is_work and state is PodState.SYNC and not loop.pod.finished:
            assert _is_queued(effects)
            # a container whose back-off is over waits for nothing else, such as another container's image
            next_try = loop.record.next_actions(loop.pod, loop.now()).next_try
            if next_try is not None:
                assert _seconds_until_queued(effects) <= (next_try - loop.now().wall) / SECOND
        # the end of a pod reaches a worker in the same step
        if state is not before:
            assert _is_queued(effects)
        # a retry is in the future, and not further than the longest
        if loop.record.retry is not None:
            assert loop.record.retry.delay <= machine.LONGEST_RETRY
        # only an echo, or what a worker is about to see itself, is not queued
        if machine.Publish() in effects:
            assert not _is_queued(effects)


@pytest.mark.parametrize("seed", range(20))
def test_the_same_events_have_the_same_effects(seed: int) -> None:
    lives = []
    for _ in range(2):
        loop = Loop()
        loop.handle(machine.AddPod(web()))
        lives.append([repr(one) for one in _life(seed, loop)])
    assert lives[0] == lives[1]


def test_an_object_that_a_message_brought_is_for_the_next_job(loop: Loop) -> None:
    """The newest one. Its content, perhaps a secret's, is in no text."""
    key = ("secret", "default", "s")
    for content in (b"old", b"hunter2"):
        loop.handle(machine.DependencyChanged(key, DeliveredObject(content)))
    assert "hunter2" not in repr(loop.record)
    assert next_job(loop.record, loop.now()).delivered == {key: DeliveredObject(b"hunter2")}
    assert next_job(loop.record, loop.now()).delivered == {}
    loop.handle(machine.DependencyChanged(key, DeliveredObject(b"old")))
    loop.handle(machine.DependencyChanged(key))
    assert next_job(loop.record, loop.now()).delivered == {}


# a new pod


def test_a_new_pod_gets_a_status_and_is_queued() -> None:
    loop = Loop()
    loop.handle(machine.AddPod(web()))
    kinds = [type(effect).__name__ for effect in loop.effects]
    assert kinds == ["SetCloudStatus", "UpdateStatus", "CorrectStatus", "Enqueue"]
    assert loop.queue is Queue.ADDITION


@pytest.mark.parametrize("event", [machine.AddPod, machine.UpdatePod])
def test_a_pod_that_is_not_admitted_ends_before_it_gets_a_status(event: Any) -> None:
    """Its first status is its last; a second rejection changes nothing."""
    loop, rejection = Loop(), KillOptions("OutOfcpu", "too many")
    loop.handle(event(web(), rejection=rejection))
    kinds = [type(effect).__name__ for effect in loop.effects]
    assert kinds == ["SetCloudStatus", "RecordEnd", "UpdateStatus", "CorrectStatus", "Kill", "Enqueue"]
    assert loop.queue is Queue.DELETION
    assert loop.pod.kill_options is rejection
    loop.handle(machine.UpdatePod(web(), rejection=KillOptions("Other", "")))
    assert loop.pod.kill_options is rejection


def test_an_echo_of_the_reported_status_is_not_queued(loop: Loop) -> None:
    echo = replace(web(metadata={"resourceVersion": "7"}), status=loop.pod.pod.status)
    assert loop.handle(updated(loop.pod, echo)) == [
        machine.SetCloudStatus(echo), machine.Publish(), machine.CorrectStatus()
    ]  # fmt: skip


def test_a_pod_that_comes_during_its_removal_is_held(loop: Loop) -> None:
    loop.handle(machine.RemovePod())
    again = web(metadata={"resourceVersion": "9"})
    assert loop.handle(machine.UpdatePod(again)) == [machine.Hold(again)]
    orphan = PodSyncRecord(REF)
    assert step(orphan, machine.UpdatePod(again), loop.now()) == (machine.Hold(again),)


# its end


def test_a_second_reason_does_not_end_a_pod_again_but_may_shorten_its_time(loop: Loop) -> None:
    first = eviction(UID, "memory")
    assert loop.handle(first)[-1] == machine.RecordEnd(first)
    assert loop.handle(eviction(UID, "disk")) == []
    shutdown = KillPod(UID, KillOptions("Terminated", "the machine shuts down", 3), shortens=True)
    assert loop.handle(shutdown) == [machine.Kill(3)]
    assert loop.pod.kill_options == first.options
    loop.work(facts(RunState.EXITED, ready=False), terminated=True)
    assert loop.handle(shutdown) == []


def test_a_pod_whose_deletion_is_taken_back_ends_all_the_same(loop: Loop) -> None:
    """In its grace period; as in a kubelet it is not deleted in the cloud, whose pod it still is."""
    deletion: dict[str, Any] = {"deletionTimestamp": "2027-01-15T08:00:00Z", "deletionGracePeriodSeconds": 5}
    loop.handle(machine.UpdatePod(web(metadata={"resourceVersion": "8", **deletion})))
    for version in ("9", "10"):
        effects = loop.handle(machine.UpdatePod(web(metadata={"resourceVersion": version, "labels": {"v": version}})))
        assert effects[-2:] == [machine.Kill(5), machine.Enqueue()]
        assert loop.queue is Queue.DELETION
        assert loop.pod.state is PodState.TERMINATING
    assert machine.DeletePod() not in loop.work(facts(RunState.EXITED, ready=False), terminated=True)
    assert loop.pod.pod.status.phase == "Succeeded"


def test_a_deleted_pod_that_has_ended_has_no_further_job_though_the_cloud_changes_it(loop: Loop) -> None:
    """The API server changes the grace period of each pod before it deletes it. A job that failed, as it could not
    take back what the pod had, is done again; one of a pod that ended before its deletion deletes it in the cloud.
    """
    loop.handle(eviction(UID, "memory"))
    loop.work(facts(RunState.EXITED, ready=False), terminated=True)
    deletion = {"deletionTimestamp": "2027-01-15T08:00:00Z"}
    change = machine.UpdatePod(web(metadata={"resourceVersion": "8", **deletion}))
    assert loop.handle(change)[-1] == machine.Enqueue()
    loop.work(facts(RunState.EXITED, ready=False), error=OSError("busy"), terminated=True)
    assert loop.handle(change)[-1] == machine.Enqueue()
    assert loop.work(facts(RunState.EXITED, ready=False), terminated=True)[-1] == machine.DeletePod()
    assert not _is_queued(loop.handle(change))


@pytest.mark.parametrize(("ready", "queue"), [(True, Queue.ADDITION), (False, Queue.DELETION)])
def test_a_sync_that_stops_containers_gets_a_worker_of_its_own(loop: Loop, ready: bool, queue: Queue) -> None:
    """Their grace period may take long; they are stopped because their sandbox is not ready."""
    loop.pod.observe(facts(ready=ready), loop.monotonic)
    assert loop.handle(CHANGED) == [machine.Enqueue()]
    assert loop.queue is queue


def test_while_a_worker_has_the_pod_an_inspection_does_not_queue_it(loop: Loop) -> None:
    loop.is_working = True
    assert loop.handle(PodInspection(facts(), loop.monotonic)) == []
    assert loop.effects == [machine.UpdateStatus()]


def test_a_job_reads_no_pod_that_nothing_has_touched_since_it_was_known(loop: Loop) -> None:
    """A new one before its first job, and one whose end a job has read; what another one finds is read again."""
    loop.record.known = PodFacts(REF)
    assert next_job(loop.record, loop.now()).known == PodFacts(REF)
    loop.handle(PodInspection(facts(), loop.monotonic))
    assert next_job(loop.record, loop.now()).known is None
    loop.record.known = PodFacts(REF)
    loop.work(facts())
    assert next_job(loop.record, loop.now()).known is None
    loop.handle(eviction(UID, "memory"))
    ended = facts(RunState.EXITED, ready=False)
    loop.work(ended, terminated=True)
    assert next_job(loop.record, loop.now()).known == ended
    loop.work(terminated=True)
    assert next_job(loop.record, loop.now()).known is None


# after a job


def failed(loop: Loop, seconds: float, **result: Any) -> float:
    """Have a job fail some seconds after the last one; return the seconds until the retry."""
    loop.monotonic += seconds
    (effect,) = [each for each in loop.work(error=OSError(), **result) if isinstance(each, machine.RetryAfter)]
    return effect.seconds


@pytest.fixture
def ending(loop: Loop) -> Loop:
    """A pod that ends."""
    loop.handle(eviction(UID, "memory"))
    return loop


def test_the_delay_doubles_from_retry_to_retry(ending: Loop) -> None:
    delays = [0.0]
    for _ in range(10):
        delays.append(failed(ending, delays[-1]))
    assert delays[1:5] == [2, 4, 8, 16]
    assert delays[-1] == machine.LONGEST_RETRY


def test_a_job_that_is_run_for_another_reason_does_not_double_it(ending: Loop) -> None:
    """A pod of three configmaps that arrive one after the other: each brings a job that still lacks the next one."""
    assert [failed(ending, 0), failed(ending, 0.5), failed(ending, 0.5)] == [2, 1.5, 1]
    assert failed(ending, 1) == 4


def test_a_retry_is_no_later_than_the_back_off_of_a_container(loop: Loop) -> None:
    """One container's image cannot be pulled; another one has ended, and waits for nothing but its own time."""
    main = container_key(UID, loop.pod.pod.spec.containers[0])
    loop.backoffs.advance(main, loop.now().wall, loop.now().wall)
    delays = []
    for _ in range(6):
        loop.monotonic += 70
        delays.append(failed(loop, 0, after=facts(RunState.EXITED, exit_code=1, at=loop.now().wall)))
    assert max(delays) <= 10


def test_an_error_that_states_its_time_has_it_whenever_its_result_is_taken(ending: Loop) -> None:
    """How long a busy machine takes for that would make its time another one in each run, and in a replay."""
    at = ending.monotonic + 40.0
    assert [failed(ending, seconds, retry_at=at) for seconds in (0.0, 10.0, 60.0)] == [40.0, 30.0, 0.0]
    assert ending.record.retry is None


def test_a_success_and_a_change_from_the_cloud_reset_the_delay(ending: Loop) -> None:
    assert [failed(ending, 0), failed(ending, 2)] == [2, 4]
    ending.work()
    assert [failed(ending, 0), failed(ending, 2)] == [2, 4]
    ending.handle(machine.RetryPod())
    assert failed(ending, 0) == 2


def test_a_runtime_that_never_obeys_is_not_asked_forever(loop: Loop) -> None:
    for _ in range(2):
        effects = [loop.work(PodFacts(REF)) for _ in range(machine.MAX_IMMEDIATE_SYNCS + 1)]
        assert effects[:-1] == [[machine.Enqueue()]] * machine.MAX_IMMEDIATE_SYNCS
        assert effects[-1] == [machine.EnqueueAfter(1.0)]
        loop.work(facts())  # it has done as told, once


def test_a_pod_that_is_deleted_and_not_stored_keeps_its_record(loop: Loop) -> None:
    loop.handle(machine.RemovePod(is_stored=False))
    assert loop.work(PodFacts(REF), terminated=True) == [machine.Publish()]
    assert loop.pod.pod.status.phase == "Failed"
    loop.handle(machine.RemovePod(is_stored=True))
    assert loop.work(PodFacts(REF), terminated=True) == [machine.Forget()]


def test_an_orphan_is_retried_and_forgotten() -> None:
    loop, orphan = Loop(), PodSyncRecord(REF)
    job = next_job(orphan, loop.now())
    assert job == Job(PodState.TERMINATED, REF)
    error = OSError()
    assert step(orphan, machine.WorkCompleted(Done(job, error=error)), loop.now()) == ()
    retried = step(orphan, machine.Requeue(Done(job, error=error)), loop.now())
    assert retried == (machine.RetryAfter(Queue.REMOVAL, machine.FIRST_RETRY, error),)
    assert step(orphan, machine.Requeue(Done(job)), loop.now()) == (machine.Forget(),)


def test_the_actions_are_computed_once_for_a_job(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The event that queues a running pod computes them, the job has them, and its end computes the next ones."""
    computed = []
    compute = actions.compute_pod_actions

    def counting(*arguments: Any) -> actions.PodActions:
        computed.append(arguments)
        return compute(*arguments)

    monkeypatch.setattr(machine, "compute_pod_actions", counting)
    loop.steps_twice = False
    loop.handle(PodInspection(facts(), loop.monotonic))
    assert len(computed) == 1
    plan = next_job(loop.record, loop.now()).plan
    assert plan is not None
    assert plan[0] == loop.pod.facts
    loop.work(facts(attempt=1))
    assert len(computed) == 2
    for _ in range(3):
        loop.work(facts(attempt=1), unchanged=True)
    assert len(computed) == 2


def test_a_pod_that_the_cloud_has_ended_is_reported_so_before_it_is_looked_at(loop: Loop) -> None:
    """A controller that collects pods has ended it: the status that the cloud has is the node's, too."""
    ended = replace(web(metadata={"resourceVersion": "9"}), status=PodStatus(phase="Failed", reason="NodeLost"))
    loop.handle(PodInspection(facts(), loop.monotonic))
    loop.handle(machine.UpdatePod(ended))
    kinds = [type(effect) for effect in loop.effects]
    assert kinds[:2] == [machine.SetCloudStatus, machine.UpdateStatus]
    loop.handle(updated(loop.pod, ended))
    assert machine.UpdateStatus not in map(type, loop.effects)


def test_a_job_that_waits_keeps_the_delay_and_ends_the_row_of_immediate_ones(loop: Loop) -> None:
    """It does not show whether the cause of the failure is gone."""
    assert failed(loop, 0) == 2
    loop.work(pending=True)
    assert failed(loop, 2) == 4
    for _ in range(2):
        effects = [loop.work(PodFacts(REF)) for _ in range(machine.MAX_IMMEDIATE_SYNCS)]
        assert effects == [[machine.Enqueue()]] * machine.MAX_IMMEDIATE_SYNCS
        loop.work(PodFacts(REF), pending=True)


def test_after_a_failed_job_the_next_actions_come_from_its_result(loop: Loop) -> None:
    """It had started the container, which waits for its restart since then."""
    ended = facts(RunState.EXITED, exit_code=1, at=loop.now().wall)
    loop.handle(PodInspection(ended, loop.monotonic))
    loop.work(error=OSError(), after=ended)
    main = container_key(UID, loop.pod.pod.spec.containers[0])
    loop.backoffs.advance(main, loop.now().wall, loop.now().wall)
    assert machine.RecordBackOff("main") in loop.work(error=OSError(), after=ended)


def test_a_container_that_ended_during_a_job_waits_for_no_other_containers_image(loop: Loop) -> None:
    """No event reports its end again."""
    ended = facts(RunState.EXITED, exit_code=1, at=loop.now().wall)
    error = StartError("side", "ErrImagePull", "there is no such image")
    (retry,) = [one for one in loop.work(error=error, after=ended) if isinstance(one, machine.RetryAfter)]
    assert retry.seconds == loop.now().relist_period
    assert failed(loop, 300.0, after=facts()) > loop.now().relist_period


def test_actions_are_computed_again_from_other_facts(loop: Loop) -> None:
    """A failed hook or probe restarts the container, and a pod that has ended starts nothing."""
    loop.handle(PodInspection(facts(), loop.monotonic))
    now, identity = loop.now(), ContainerId("c0")
    failures = (
        replace(now, hooks=HookFacts(failed={identity: "exit code 1"})),
        replace(now, probes=ProbeFacts(liveness={identity: False})),
    )
    assert loop.record.next_actions(loop.pod, now).nothing
    for failure in failures:
        assert not loop.record.next_actions(loop.pod, failure).nothing
        assert loop.record.next_actions(loop.pod, now).nothing
    loop.pod.observe(PodFacts(REF), now.monotonic + 1)
    assert not loop.record.next_actions(loop.pod, now).nothing
    loop.pod.set_status(PodStatus(phase="Failed"))
    assert loop.record.next_actions(loop.pod, now).nothing
