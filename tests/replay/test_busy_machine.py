"""On a busy machine messages wait before they are handled: a replay commits and takes answers in the recorded order."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from beehive import ModuleName
from beehive.simulation.scheduler import VirtualClock
from beehive.testing import Harness
from beehive.trace import Change, CriCall, Delivered, RecordedMessage, StoreCommit
from edged.lifecycle.waits import Waits
from edged.pod_workers.container_killer import ContainerKiller
from edged.pod_workers.start_containers import ContainerStarter
from edged.pods.actions import ContainerKill
from edged.pods.decode import read_cloud_pod
from edged.pods.model import ContainerId, PodUid
from metamanager.module import MetaSettings
from modules.apimachinery.types import Pod
from modules.lab.replay.acted import acted_at
from modules.lab.replay.run import replay
from modules.lab.replay.store import RecordedStore, grouped
from modules.lab.simulate import documents
from modules.lab.simulate.plan import Fault, FaultKind, Plan, Shape, WorkloadStep
from modules.lab.simulate.run import Simulation
from tests.metamanager.support import META, from_cloud, thing
from tests.replay.runs import record

WORKER = "edged/worker-0"


def delivered(span: int, cause: int, time: float, sender: str, module: str, way: str) -> Delivered:
    """A delivery with its time of sending, handled immediately."""
    message = RecordedMessage("", "", 0, "", False, "", "", "", "", "update", "default/pod/a", b"{}")  # noqa: FBT003
    return Delivered(time, span, cause, 1, sender, module, way, "handled", "", 0, 0.0, 0.0, message)


@pytest.mark.parametrize(
    ("module", "sender", "sent", "acted"),
    [
        ("edged", "edged", 1.2, {1: 1.2}),
        pytest.param("edged", "edged", 1.3, {}, id="too late: a timer may have sent it"),
        pytest.param("edged", WORKER, 1.2, {}, id="another thread"),
        pytest.param("metamanager", "metamanager", 1.2, {}, id="metamanager, which commits first"),
    ],
)
def test_an_answer_was_handled_when_edged_acted_on_it(
    module: str, sender: str, sent: float, acted: dict[int, float]
) -> None:
    answer = delivered(1, 0, 1.0, "websocket/LinkRunner", module, "response")
    known = [answer, delivered(3, 1, sent, sender, "metamanager", "request"), delivered(2, 0, 1.1, sender, "x", "send")]
    assert acted_at(known) == acted


@pytest.mark.parametrize(("began", "acted"), [(1.05, 1.05), (0.9, 1.0), (1.3, 1.2)])
def test_an_answer_was_handled_when_a_worker_began_because_of_it(began: float, acted: float) -> None:
    """A node that starts gets its pods in an answer: the first message because of it is the status of a pod."""
    answer, message = delivered(1, 0, 1.0, "m", "edged", "response"), delivered(3, 1, 1.2, "edged", "m", "request")
    call = CriCall(began + 0.5, 2, 1, 1, WORKER, "run_pod_sandbox", b"{}", b"null", "", "", 0.5)
    assert acted_at([answer, message], [call]) == {1: acted}


def put(name: str) -> Change:
    return Change("put", f"default/configmap/{name}", "configmap", b"{}")


def commit(began: float, ended: float, *names: str) -> StoreCommit:
    return StoreCommit(ended, 1, 0, 1, "commit", ended - began, "", tuple(map(put, names)))


@pytest.mark.parametrize(
    ("recorded", "acknowledged"),
    [
        pytest.param([commit(1.03, 1.04, "a", "b"), commit(1.05, 1.06, "c")], [1.04, 1.04, 1.06], id="two and one"),
        pytest.param([commit(1.03, 1.04, "a"), commit(1.05, 1.06, "b", "c")], [1.04, 1.06, 1.06], id="one and two"),
        pytest.param([commit(1.03, 1.04, "a", "b", "c")], [1.04, 1.04, 1.04], id="all"),
        pytest.param([commit(1.03, 1.04, "a", "x")], [1.04, 1.04, 1.04], id="one that is not made now"),
    ],
)
def test_rows_of_one_commit_are_committed_together(
    recorded: list[StoreCommit], acknowledged: list[float], tmp_path: Path
) -> None:
    """The messages come 10 ms apart, before the first commit began; each is acknowledged after its commit."""
    stores: list[RecordedStore] = []

    def opened(path: str) -> RecordedStore:
        stores.append(RecordedStore(Path(path), bee.simulation, recorded))
        return stores[-1]

    with Harness() as bee:
        bee.add(grouped(lambda: stores[-1]), MetaSettings(str(tmp_path / "edgecore.db")), opened)
        bee.start()
        bee.run_for(1.0 - bee.clock.monotonic())
        sent = [from_cloud(bee, f"default/configmap/{name}", "insert", thing(name)) for name in "abc"]
        for number, message in enumerate(sent):
            bee.clock.after(number * 0.01, partial(bee.hive.send, META, message))
        found: dict[str, float] = {}
        while bee.clock.monotonic() < 1.1:
            bee.run_for(0.001)
            for one in bee.sent:
                found.setdefault(one.message.parent_id, bee.clock.monotonic())
    assert [found[message.id] for message in sent] == [pytest.approx(at, abs=0.002) for at in acknowledged]


def test_a_second_that_turns_while_a_pod_is_taken_is_the_same_second_in_a_replay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The start of a pod counts in whole seconds, and its active deadline from it. With a start a second earlier, the
    container would be stopped before it ends by itself. On a busy machine a second turns while edged reads the pod.
    """
    node, traces = tmp_path / "node", tmp_path / "traces"
    node.mkdir()
    traces.mkdir()
    spec_of, spent = documents._pod_spec, list[float]()
    limited = {"activeDeadlineSeconds": 3, "containers": [documents._container("main", 1, ["run", "2.5", "3"])]}

    def reads_slowly(content: bytes, resource: str) -> Pod | None:
        spent.append(0.03)
        return read_cloud_pod(content, resource)

    with monkeypatch.context() as busy:
        busy.setattr(documents, "_pod_spec", lambda step: spec_of(step) | limited)
        busy.setattr(Simulation, "_wants_running", lambda *_: False)
        busy.setattr("edged.module.read_cloud_pod", reads_slowly)
        busy.setattr(VirtualClock, "monotonic", _spending(spent))
        recorded = record(Plan(1, 1, 9.0, (WorkloadStep(2.97, "late", Shape.FAILS_ONCE),), ()), traces)
    result = replay(recorded, node)
    assert [one.render() for one in result.differences] == []
    assert [one.title for one in result.recorded if one.title.startswith("stop_container")] == [
        "stop_container container-4"
    ]


def _spending(spent: list[float]) -> Callable[[VirtualClock], float]:
    """Return a clock's reading before which the listed seconds pass."""
    read = VirtualClock.monotonic

    def monotonic(clock: VirtualClock) -> float:
        clock._elapsed += spent.pop() if spent else 0.0
        return read(clock)

    return monotonic


def test_a_worker_notices_the_end_of_its_pod_at_the_same_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The deletion of a pod comes to edged while a worker that has just read the pod stands still. A replay whose
    worker does not stand still started a container of it.
    """
    node, traces = tmp_path / "node", tmp_path / "traces"
    node.mkdir()
    traces.mkdir()
    late, is_terminating, kill_containers = set[PodUid](), Waits.is_terminating, ContainerKiller.kill_containers

    def stands_still(killer: ContainerKiller, pod: Pod, kills: tuple[ContainerKill, ...]) -> None:
        kill_containers(killer, pod, kills)
        late.add(PodUid(pod.metadata.uid))

    def ends_meanwhile(waits: Waits, uid: PodUid) -> bool:
        return is_terminating(waits, uid) or uid in late

    steps = (WorkloadStep(2.0, "app", Shape.PLAIN), WorkloadStep(2.1, "app", Shape.PLAIN, revision=0))
    with monkeypatch.context() as busy:
        busy.setattr(ContainerKiller, "kill_containers", stands_still)
        busy.setattr(Waits, "is_terminating", ends_meanwhile)
        recorded = record(Plan(1, 1, 9.0, steps, ()), traces)
    result = replay(recorded, node)
    assert [one.render() for one in result.differences] == []
    assert [one.title for one in result.recorded if one.title.startswith("run_pod_sandbox")] == []


def test_the_next_pull_is_not_later_in_a_replay_whose_worker_does_not_stand_still(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that finds the back-off of a pull stands still before it looks at the clock. The cloud sends the status of
    the next pull back, and a replay that waits for that pull would correct it.
    """
    node, traces = tmp_path / "node", tmp_path / "traces"
    node.mkdir()
    traces.mkdir()
    spent, waits, start = list[float](), iter((0.0, 0.0, 0.05)), ContainerStarter.start_container

    def starts_late(starter: ContainerStarter, *arguments: Any) -> ContainerId:
        spent.append(next(waits, 0.0))
        return start(starter, *arguments)

    with monkeypatch.context() as busy:
        busy.setattr(VirtualClock, "monotonic", _spending(spent))
        busy.setattr(ContainerStarter, "start_container", starts_late)
        missing = Fault(0.5, FaultKind.IMAGES_MISSING, seconds=20.0)
        recorded = record(Plan(1, 1, 20.0, (WorkloadStep(2.0, "app", Shape.PLAIN),), (missing,)), traces)
    result = replay(recorded, node, ModuleName.EDGED)
    assert [one.render() for one in result.differences] == []
    assert sum(one.title.startswith("pull_image") for one in result.recorded) == 2
