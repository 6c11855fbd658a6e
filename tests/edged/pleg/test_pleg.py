"""The PLEG reports each change once, whether it or a worker has seen it first."""

from collections.abc import Iterator

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.cri.contract import SandboxId
from edged.cri.errors import CriError, DeadlineExceededError, NotFoundError, UnavailableError
from edged.pleg.messages import HintAdded, PodInspection, Relisted, WorkerInspection
from edged.pleg.reader import PodSnapshot, RuntimeReader, changed_pods, snapshot_of
from edged.pods import labels
from edged.pods.model import PodFacts, PodRef, PodUid, RunState
from protos.cri.v1 import api_pb2 as pb
from tests.edged.pleg.watch import OWNER, Watch, ref


@pytest.fixture
def watch() -> Iterator[Watch]:
    watch = Watch()
    yield watch
    watch.stop()


def test_pods_that_run_at_the_start_are_reported_with_their_facts(watch: Watch) -> None:
    sandbox, container = watch.pod("a")
    assert watch.look(0.5) == ["a"]
    [event] = watch.events
    assert isinstance(event, Relisted)
    [seen] = event.changed
    assert [s.id for s in seen.facts.sandboxes] == [sandbox]
    assert [(c.id, c.state) for c in seen.facts.containers] == [(container, RunState.RUNNING)]
    assert event.snapshots[PodUid("uid-a")].owner == OWNER


def test_a_change_is_reported_once_and_so_is_an_end(watch: Watch) -> None:
    watch.pod("a")
    watch.look(0.5)
    watch.runtime.end("main", 1)
    assert watch.look() == ["a"]
    assert watch.look(5) == []
    for sandbox in list(watch.runtime.sandboxes):
        watch.runtime.remove_pod_sandbox(SandboxId(sandbox))
    assert watch.look() == ["a"]
    assert watch.look(5) == []


def test_a_change_that_a_worker_has_inspected_is_not_reported_again(watch: Watch) -> None:
    watch.look(0.5)
    watch.pod("a")
    watch.hints.add_inspection(
        WorkerInspection(watch.reader.read_pod(ref("a")), OWNER, watch.simulation.clock.monotonic())
    )
    assert watch.look(3) == []
    watch.runtime.end("main", 1)
    assert watch.look() == ["a"]


def test_a_sandbox_without_containers_that_a_worker_has_inspected_is_not_reported_again(watch: Watch) -> None:
    """The images of its containers may still be pulled."""
    watch.look(0.5)
    watch.sandbox("a")
    watch.hints.add_inspection(
        WorkerInspection(watch.reader.read_pod(ref("a")), OWNER, watch.simulation.clock.monotonic())
    )
    assert watch.look(3) == []


def test_a_container_whose_sandbox_is_not_listed_is_its_pods(watch: Watch) -> None:
    _, container = watch.pod("a")
    watch.runtime.list_pod_sandboxes = lambda *_: []  # type: ignore[method-assign]
    assert watch.look(0.5) == ["a"]
    [event] = watch.events
    assert isinstance(event, Relisted)
    assert list(event.snapshots[PodUid("uid-a")].containers) == [container]


def test_a_pod_that_a_worker_has_removed_is_not_reported_again(watch: Watch) -> None:
    sandbox, _ = watch.pod("a")
    watch.look(0.5)
    watch.runtime.remove_pod_sandbox(sandbox)
    watch.hints.add_inspection(
        WorkerInspection(watch.reader.read_pod(ref("a")), OWNER, watch.simulation.clock.monotonic())
    )
    assert watch.look(3) == []


def test_an_end_that_is_announced_while_the_runtime_lists_is_not_forgotten(watch: Watch) -> None:
    """The list may have been made before it; the pod is inspected soon, and not with the next relist."""
    watch.pod("a")
    watch.look(0.5)
    snapshots = watch.reader.snapshots

    def list_then_end() -> dict[PodUid, PodSnapshot]:
        found = snapshots()
        watch.reader.snapshots = snapshots  # type: ignore[method-assign]
        watch.runtime.end("main", 1)
        event = pb.ContainerEventResponse(container_event_type=pb.CONTAINER_STOPPED_EVENT)
        event.pod_sandbox_status.labels.update({labels.POD_UID: "uid-a", labels.POD_NAMESPACE: "default"})
        event.pod_sandbox_status.labels[labels.POD_NAME] = "a"
        assert watch.hints.add_event(event, watch.simulation.clock.monotonic())
        watch.pleg.ref.tell(HintAdded())
        return found

    watch.reader.snapshots = list_then_end  # type: ignore[method-assign]
    assert watch.looked(0.8) == ["a"]


def test_a_runtime_that_is_away_is_asked_again_and_nothing_is_lost(watch: Watch) -> None:
    watch.pod("a")
    watch.look(0.5)
    watch.runtime.end("main", 1)
    away = UnavailableError("List", "", grpc.StatusCode.UNAVAILABLE, "gone")
    watch.runtime.fail("list_pod_sandboxes", away, times=3)
    assert watch.look(3) == []
    assert watch.failures() == 3
    assert watch.look(1) == ["a"]


def test_a_pod_that_cannot_be_read_is_reported_later_and_the_others_now(watch: Watch) -> None:
    for name in ("a", "b", "c"):
        watch.pod(name)
    sick = CriError("ContainerStatus", "", grpc.StatusCode.UNKNOWN, "corrupt")
    watch.runtime.fail("container_status", sick)
    assert watch.look(0.5) == ["b", "c"]
    assert watch.failures() == 1
    assert watch.look() == ["a"]


@pytest.mark.parametrize("call", ["container_status", "pod_sandbox_status"])
def test_a_pod_that_changed_while_it_was_read_is_reported_later(watch: Watch, call: str) -> None:
    """What took its place is not in the lists: the pod would seem to have lost its container."""
    watch.pod("a")
    watch.runtime.fail(call, NotFoundError("Status", "", grpc.StatusCode.NOT_FOUND, "removed"))
    assert watch.look(0.5) == []
    assert watch.failures() == 0
    assert watch.look() == ["a"]


def test_what_has_gone_hides_nothing_beside_it(watch: Watch) -> None:
    sandbox, container = watch.pod("a")
    known = PodSnapshot(
        ref("a"), {"gone": True, sandbox: True}, {"gone": (sandbox, pb.CONTAINER_RUNNING), container: (sandbox, 1)}
    )
    facts = RuntimeReader(watch.runtime).facts(known)
    assert [[each.id for each in found] for found in (facts.sandboxes, facts.containers)] == [[sandbox], [container]]


@pytest.mark.parametrize("kind", [UnavailableError, DeadlineExceededError])
def test_a_runtime_that_goes_away_between_two_pods_is_not_asked_for_the_others(
    watch: Watch, kind: type[CriError]
) -> None:
    """Each of the calls could take two minutes."""
    for name in ("a", "b", "c"):
        watch.pod(name)
    away = kind("ContainerStatus", "", grpc.StatusCode.UNAVAILABLE, "gone")
    asked = watch.runtime.calls["container_status"]
    watch.runtime.fail("container_status", away, times=1)
    assert watch.look(0.5) == []
    assert watch.runtime.calls["container_status"] - asked == 1
    assert watch.look() == ["a", "b", "c"]


def test_facts_are_as_old_as_the_lists_they_were_read_by(watch: Watch) -> None:
    """What a worker makes between the lists and the details is not in them, so they must not replace what it saw."""
    watch.pod("a")
    watch.runtime.latency = 0.3
    watch.look(5)
    relists = [event for event in watch.events if isinstance(event, Relisted)]
    assert {seen.at - relist.at for relist in relists for seen in relist.changed} == {0.0}


def test_each_inspection_is_as_old_as_its_own_reading(watch: Watch) -> None:
    watch.listen()
    for name in ("a", "b"):
        watch.pod(name)
    watch.look(20)
    watch.runtime.latency = 0.3
    for sandbox in list(watch.runtime.sandboxes):
        watch.runtime.stop_pod_sandbox(SandboxId(sandbox))
    assert sorted(watch.looked(9)) == ["a", "b"]
    first, second = [event.at for event in watch.events if isinstance(event, PodInspection)]
    assert second - first >= 0.3


def test_a_relist_answers_all_hints(watch: Watch) -> None:
    """Their pods are not inspected once more."""
    watch.look(0.5)
    event = pb.ContainerEventResponse(container_event_type=pb.CONTAINER_STOPPED_EVENT)
    event.pod_sandbox_status.labels.update(
        {labels.POD_UID: "uid-a", labels.POD_NAMESPACE: "default", labels.POD_NAME: "a"}
    )
    assert watch.hints.add_event(event, watch.simulation.clock.monotonic())
    watch.look(3)
    assert watch.hints.drain() == ([], False)


def test_a_slow_runtime_has_a_period_of_rest_after_each_relist(watch: Watch) -> None:
    watch.runtime.latency = 2.0
    snapshots, clock = watch.reader.snapshots, watch.simulation.clock
    rests: list[float] = []
    ended = float("-inf")

    def timed() -> dict[PodUid, PodSnapshot]:
        nonlocal ended
        rests.append(clock.monotonic() - ended)
        found = snapshots()
        ended = clock.monotonic()
        return found

    watch.reader.snapshots = timed  # type: ignore[method-assign]
    watch.look(30)
    assert len(rests) > 3
    assert min(rests) == pytest.approx(1.0)


def test_what_a_worker_sees_while_a_relist_reads_the_pod_is_newer_than_the_relist(watch: Watch) -> None:
    watch.pod("a")
    watch.runtime.latency = 0.01
    facts = watch.reader.facts

    def end_meanwhile(snapshot: PodSnapshot) -> PodFacts:
        watch.reader.facts = facts  # type: ignore[method-assign]
        before = facts(snapshot)
        watch.runtime.end("main", 1)
        at = watch.simulation.clock.monotonic()
        watch.hints.add_inspection(WorkerInspection(watch.reader.read_pod(ref("a")), OWNER, at))
        return before

    watch.reader.facts = end_meanwhile  # type: ignore[method-assign]
    assert watch.look(0.5) == ["a"]
    assert watch.look(5) == [], "it was reported by the worker"


def test_a_stopped_pleg_does_not_relist(watch: Watch) -> None:
    watch.look(0.5)
    watch.pleg.stop(5)
    calls = watch.runtime.calls.total()
    watch.look(10)
    assert watch.runtime.calls.total() == calls


def test_a_sandbox_without_a_pod_is_ignored(watch: Watch) -> None:
    watch.runtime.run_pod_sandbox(pb.PodSandboxConfig(metadata=pb.PodSandboxMetadata(name="x")))
    assert watch.look() == []
    assert watch.reader.snapshots() == {}


def test_the_glance_of_facts_equals_the_lists(watch: Watch) -> None:
    """Otherwise each change of a worker would be reported twice."""
    for state in range(3):
        sandbox, _ = watch.pod(f"p{state}")
        if state == 1:
            watch.runtime.end("main", 1)
        if state == 2:
            watch.runtime.stop_pod_sandbox(sandbox)
    for uid, snapshot in watch.reader.snapshots().items():
        assert snapshot_of(watch.reader.facts(snapshot), OWNER) == snapshot, uid


_GLANCES = st.dictionaries(
    st.sampled_from([PodUid("a"), PodUid("b"), PodUid("c")]),
    st.tuples(st.dictionaries(st.sampled_from("st"), st.booleans()), st.integers(0, 3)),
)


@given(_GLANCES, _GLANCES)
def test_exactly_the_differing_ones_are_changed(
    before: dict[PodUid, tuple[dict[str, bool], int]], now: dict[PodUid, tuple[dict[str, bool], int]]
) -> None:
    def glances(made: dict[PodUid, tuple[dict[str, bool], int]]) -> dict[PodUid, PodSnapshot]:
        return {
            uid: PodSnapshot(PodRef(uid, "d", uid), boxes, {"c": ("s", state)}) for uid, (boxes, state) in made.items()
        }

    changed = [pod.uid for pod in changed_pods(glances(before), glances(now))]
    assert changed == sorted(uid for uid in before.keys() | now.keys() if before.get(uid) != now.get(uid))


def test_a_relist_leaves_a_pod_to_the_worker_that_syncs_it(watch: Watch) -> None:
    """For some seconds, for a sync may hang; a pod that has gone is told at once."""
    watch.look(0.5)
    for name in ("a", "b"):
        watch.hints.add_sync(PodUid(f"uid-{name}"), watch.simulation.clock.monotonic())
    sandbox, _ = watch.pod("a")
    watch.pod("b")
    assert watch.look(3.0) == []
    at = watch.simulation.clock.monotonic()
    watch.hints.add_inspection(WorkerInspection(watch.reader.read_pod(ref("a")), OWNER, at))
    assert watch.look(2.5) == ["b"]
    watch.hints.add_sync(PodUid("uid-a"), watch.simulation.clock.monotonic())
    watch.runtime.remove_pod_sandbox(sandbox)
    assert watch.look() == ["a"]
