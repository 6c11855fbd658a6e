"""Which dead containers and sandboxes go: tables, and laws that hold for any of them."""

from unittest.mock import create_autospec

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beehive.simulation import Simulation
from edged.cri.contract import ContainerRuntime
from edged.cri.errors import CriError, DeadlineExceededError, RefusedError, UnavailableError
from edged.gc.containers import ContainerCollector, Garbage, garbage
from edged.pod_workers.pod_directories import PodDirectories
from edged.pods.labels import CONTAINER_NAME, POD_NAME, POD_NAMESPACE, POD_UID
from edged.pods.model import PodUid
from edged.settings.gc import ContainerPolicy
from modules.apimachinery.types import Nanoseconds
from protos.cri.v1 import api_pb2 as cri
from tests.edged.pods.builders import a_pod

SECOND = 1_000_000_000
NOW = Nanoseconds(1000 * SECOND)
LIVES, ENDED = False, True


def labels(uid: str, name: str = "") -> dict[str, str]:
    return {POD_UID: uid, POD_NAMESPACE: "default", POD_NAME: uid, **({CONTAINER_NAME: name} if name else {})}


def container(
    uid: str, name: str, attempt: int, *, runs: bool = False, created: int | None = None, home: str = ""
) -> cri.Container:
    """A container, created `attempt` seconds after the beginning by default."""
    return cri.Container(
        id=f"{uid}/{name}/{attempt}",
        pod_sandbox_id=home or f"{uid}/0",
        metadata=cri.ContainerMetadata(name=name, attempt=attempt),
        state=cri.CONTAINER_RUNNING if runs else cri.CONTAINER_EXITED,
        created_at=(attempt if created is None else created) * SECOND,
        labels=labels(uid, name),
    )


def sandbox(uid: str, attempt: int = 0, *, ready: bool = False) -> cri.PodSandbox:
    return cri.PodSandbox(
        id=f"{uid}/{attempt}",
        metadata=cri.PodSandboxMetadata(name=uid, uid=uid, attempt=attempt),
        state=cri.SANDBOX_READY if ready else cri.SANDBOX_NOTREADY,
        labels=labels(uid),
    )


def gone(*containers: cri.Container, all_unused: bool = False, ended: bool = LIVES, **policy: float) -> list[str]:
    """Ids of the containers that go, of pods that all live unless `ended`."""
    uids = {PodUid(c.labels[POD_UID]): ended for c in containers}
    made = ContainerPolicy(**policy)  # type: ignore[arg-type]
    found = garbage(containers, [], uids, made, NOW, all_unused=all_unused)
    return [each.id for each in found.containers]


FIVE = [container("p", "a", n) for n in range(5)]


def test_of_each_name_the_newest_dead_ones_stay() -> None:
    assert gone(*FIVE, per_pod=2) == ["p/a/0", "p/a/1", "p/a/2"]
    both = [container("p", name, n) for name in "ab" for n in range(2)]
    assert gone(*both, per_pod=1) == ["p/a/0", "p/b/0"]


def test_of_one_tick_of_the_clock_the_newest_attempts_stay_and_the_oldest_go_first() -> None:
    """Attempt 10 is newer than attempt 9."""
    frozen = [container("p", "a", n, created=0) for n in (10, 8, 11, 9)]
    assert gone(*frozen, per_pod=1) == ["p/a/8", "p/a/9", "p/a/10"]
    assert gone(*frozen, total=1, ended=True) == ["p/a/8", "p/a/9", "p/a/10"]


def test_the_newest_attempts_stay_also_when_the_clock_was_set_back() -> None:
    """A wall clock goes back at a boot; the restart count and the back-off go by the newest attempt."""
    back = [container("p", "a", n, created=100 - 10 * n) for n in range(4)]
    assert set(gone(*back, per_pod=1)) == {"p/a/0", "p/a/1", "p/a/2"}
    assert set(gone(*back, per_pod=0)) == {"p/a/0", "p/a/1", "p/a/2"}


def test_a_running_container_is_not_garbage() -> None:
    assert gone(*FIVE, container("p", "a", 5, runs=True), per_pod=1) == ["p/a/0", "p/a/1", "p/a/2", "p/a/3"]


def test_with_none_to_be_kept_the_one_stays_that_the_next_start_goes_by() -> None:
    assert gone(*FIVE, per_pod=0) == ["p/a/0", "p/a/1", "p/a/2", "p/a/3"]
    assert gone(*FIVE, container("p", "a", 5, runs=True), per_pod=0) == [each.id for each in FIVE]
    assert gone(*FIVE, per_pod=0, ended=ENDED) == [each.id for each in FIVE]


def test_the_limits_themselves_count() -> None:
    """None in all, and an age of just the minimum."""
    assert gone(*FIVE, per_pod=-1, total=0, ended=True) == [each.id for each in FIVE]
    young = [container("p", "a", n, created=940 + n) for n in range(2)]
    assert gone(*young, per_pod=0, minimum_age=60, ended=True) == ["p/a/0"]


def test_no_limit_keeps_all() -> None:
    assert gone(*FIVE, per_pod=-1) == []


def test_a_container_below_the_minimum_age_stays_and_does_not_count() -> None:
    young = container("p", "a", 9, created=990)
    assert gone(*FIVE, young, per_pod=1, minimum_age=60) == ["p/a/0", "p/a/1", "p/a/2", "p/a/3"]


def test_of_too_many_in_all_each_name_loses_down_to_its_share_and_then_the_oldest_go() -> None:
    many = [container(pod, "a", n, created=10 * n + ord(pod)) for pod in "pqr" for n in range(4)]
    left = {each.id for each in many} - set(gone(*many, per_pod=-1, total=6, ended=ENDED))
    assert left == {f"{pod}/a/{n}" for pod in "pqr" for n in (2, 3)}
    assert gone(*many, per_pod=1, total=2, ended=ENDED)[-1] == "p/a/3", "the oldest of those that are left"
    old, new = ([container(pod, "a", n, created=at + n) for n in range(3)] for pod, at in (("p", 0), ("q", 100)))
    assert gone(*old, *new, per_pod=-1, total=2, ended=ENDED) == ["p/a/0", "p/a/1", "q/a/0", "q/a/1"]


def test_when_the_disk_is_short_nothing_is_kept_of_pods_that_have_ended() -> None:
    assert gone(*FIVE, per_pod=3, ended=ENDED, all_unused=True) == [each.id for each in FIVE]
    assert gone(*FIVE, per_pod=3, all_unused=True) == ["p/a/0", "p/a/1"]


def test_unknown_pods_and_foreign_containers_are_left_alone() -> None:
    theirs = [container("other", "a", n) for n in range(3)]
    nobodys = cri.Container(id="x", state=cri.CONTAINER_EXITED, metadata=cri.ContainerMetadata(name="x"))
    found = garbage([*theirs, nobodys], [sandbox("other"), cri.PodSandbox(id="y")], {}, ContainerPolicy(), NOW)
    assert found == Garbage([], [])


def _sandboxes(*there: cri.Container, pods: bool = LIVES, all_unused: bool = False) -> list[str]:
    boxes = [sandbox("p", 0), sandbox("p", 1), sandbox("p", 2)]
    boxes[2].created_at = -SECOND  # the clock was set back at a boot
    found = garbage(there, boxes, {PodUid("p"): pods}, ContainerPolicy(), NOW, all_unused=all_unused)
    return [each.id for each in found.sandboxes]


def test_dead_sandboxes_without_containers_go_but_for_the_newest() -> None:
    assert _sandboxes() == ["p/1", "p/0"]
    assert _sandboxes(container("p", "a", 0, home="p/0")) == ["p/1"]
    assert _sandboxes(all_unused=True) == ["p/1", "p/0"]
    assert _sandboxes(pods=ENDED, all_unused=True) == ["p/2", "p/1", "p/0"]


def test_a_sandbox_whose_containers_go_goes_with_them() -> None:
    assert _sandboxes(container("p", "a", 0, home="p/0"), container("p", "a", 1, home="p/1")) == ["p/0"]


@st.composite
def _worlds(draw: st.DrawFn) -> tuple[list[cri.Container], dict[PodUid, bool]]:
    numbers = draw(st.lists(st.tuples(st.sampled_from("pqr"), st.sampled_from("ab"), st.integers(0, 9)), unique=True))
    there = [container(*each, runs=draw(st.booleans()), created=draw(st.integers(0, 999))) for each in numbers]
    return there, {PodUid(uid): draw(st.booleans()) for uid in draw(st.sets(st.sampled_from("pqr")))}


def _unit(container: cri.Container) -> tuple[str, str]:
    return container.labels[POD_UID], container.metadata.name


@given(_worlds(), st.integers(-1, 3), st.integers(-1, 6), st.booleans())
def test_no_running_or_foreign_container_and_no_last_trace_of_a_pod_is_removed(
    world: tuple[list[cri.Container], dict[PodUid, bool]], per_pod: int, total: int, all_unused: bool
) -> None:
    there, pods = world
    policy = ContainerPolicy(per_pod=per_pod, total=total)
    found = garbage(there, [], pods, policy, NOW, all_unused=all_unused)
    ids = {each.id for each in found.containers}
    assert len(ids) == len(found.containers), "each once"
    for each in there:
        uid = PodUid(each.labels[POD_UID])
        if each.state == cri.CONTAINER_RUNNING or uid not in pods:
            assert each.id not in ids
    left = [each for each in there if each.id not in ids]
    for uid, ended in pods.items():
        names = {each.metadata.name for each in there if each.labels[POD_UID] == uid}
        if not ended:
            assert names == {each.metadata.name for each in left if each.labels[POD_UID] == uid}
    kept: dict[tuple[str, str], list[int]] = {}
    for each in left:
        uid = PodUid(each.labels[POD_UID])
        newest = max(other.metadata.attempt for other in there if _unit(other) == _unit(each))
        is_needed = not pods.get(uid, LIVES) and each.metadata.attempt == newest
        if uid in pods and each.state == cri.CONTAINER_EXITED:
            kept.setdefault(_unit(each), []).extend([each.metadata.attempt] * (not is_needed or per_pod != 0))
    for unit, attempts in kept.items():
        assert per_pod < 0 or len(attempts) <= per_pod
        went = [each.metadata.attempt for each in found.containers if _unit(each) == unit]
        assert max(went, default=-1) < min(attempts, default=10), "the newest are kept"
    again = garbage(left, [], pods, policy, NOW, all_unused=all_unused)
    assert again.containers == [], "once is enough"


@pytest.mark.parametrize("error", [UnavailableError, DeadlineExceededError])
def test_nothing_more_is_asked_of_a_runtime_that_does_not_answer(error: type[CriError]) -> None:
    pod = a_pod()
    runtime = create_autospec(ContainerRuntime, instance=True)
    runtime.list_containers.return_value = [container(pod.metadata.uid, "a", n) for n in range(3)]
    runtime.list_pod_sandboxes.return_value = []
    runtime.remove_container.side_effect = error("Remove", "", grpc.StatusCode.UNAVAILABLE, "gone")
    policy = ContainerPolicy(minimum_age=0, per_pod=1, total=-1)
    files = create_autospec(PodDirectories, instance=True)
    with pytest.raises(CriError):
        ContainerCollector(runtime, policy, Simulation(1).clock, lambda: (pod,), files).collect()
    assert runtime.remove_container.call_count == 1


def test_what_is_not_removed_in_time_is_tried_last_from_then_on() -> None:
    """As a process that waits for a lost disk: else nothing that is newer would ever go."""
    pod = a_pod()
    uid = pod.metadata.uid
    left, stuck = {f"{uid}/a/{n}" for n in range(4)} | {f"{uid}/{n}" for n in range(3)}, {f"{uid}/a/0", f"{uid}/1"}

    def remove(name: str) -> None:
        if name in stuck:
            raise DeadlineExceededError("Remove", name, grpc.StatusCode.DEADLINE_EXCEEDED, "")
        left.discard(name)

    runtime = create_autospec(ContainerRuntime, instance=True)
    runtime.list_containers.side_effect = lambda: [
        container(uid, "a", n, created=n, home=f"{uid}/2") for n in range(4) if f"{uid}/a/{n}" in left
    ]
    runtime.list_pod_sandboxes.side_effect = lambda: [sandbox(uid, n) for n in range(3) if f"{uid}/{n}" in left]
    runtime.remove_container.side_effect = runtime.remove_pod_sandbox.side_effect = remove
    policy = ContainerPolicy(minimum_age=0, per_pod=1, total=-1)
    files = create_autospec(PodDirectories, instance=True)
    collector = ContainerCollector(runtime, policy, Simulation(1).clock, lambda: (pod,), files)
    for gone in (set[str](), {f"{uid}/a/1", f"{uid}/a/2"}):
        with pytest.raises(DeadlineExceededError):
            collector.collect()
        assert not left & gone
    stuck.remove(f"{uid}/a/0")
    for _ in range(2):
        with pytest.raises(DeadlineExceededError):
            collector.collect()
    assert left == {f"{uid}/a/3", f"{uid}/1", f"{uid}/2"}


def test_what_cannot_be_removed_does_not_prevent_the_others() -> None:
    pod = a_pod()
    uid = pod.metadata.uid
    left = {f"{uid}/a/{n}" for n in range(3)} | {f"{uid}/{n}" for n in range(5)}
    stuck = {f"{uid}/a/0", f"{uid}/1"}

    def remove(name: str) -> None:
        if name in stuck:
            raise RefusedError("Remove", name, grpc.StatusCode.UNKNOWN, "device or resource busy")
        left.discard(name)

    runtime = create_autospec(ContainerRuntime, instance=True)
    homes = (f"{uid}/2", "", "")
    runtime.list_containers.return_value = [
        container(uid, "a", n, created=-n, home=home) for n, home in enumerate(homes)
    ]
    runtime.list_pod_sandboxes.return_value = [sandbox(uid, n) for n in range(5)]
    runtime.remove_container.side_effect = runtime.remove_pod_sandbox.side_effect = remove
    policy = ContainerPolicy(minimum_age=0, per_pod=1, total=-1)
    files = create_autospec(PodDirectories, instance=True)
    files.remove_container.side_effect = OSError("read-only file system")
    ContainerCollector(runtime, policy, Simulation(1).clock, lambda: (pod,), files).collect()
    assert left == {f"{uid}/a/0", f"{uid}/a/2", f"{uid}/0", f"{uid}/1", f"{uid}/2", f"{uid}/4"}
