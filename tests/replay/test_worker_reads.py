"""A replay gives a worker the answers of the recorded step of its job, however close the steps lie in time."""

from contextvars import copy_context

import msgspec
import pytest

from beehive.simulation import Simulation
from beehive.trace import CriCall, CriEvent
from beehive.trace.format import APART, FORMAT, SIMULATED, SYNCED, TraceHeader
from beehive.trace_context import as_actor
from edged.cri.contract import ContainerId
from edged.pleg.messages import WorkerInspection
from edged.pod_workers.job import Done, Job
from edged.pods.labels import POD_NAME, POD_NAMESPACE, POD_UID
from edged.pods.model import PodFacts, PodRef, PodState, PodUid
from edged.probes.worker_pool import PROBER
from modules.lab.replay.pleg import RecordedInspections, recorded_pleg, recorded_worker
from modules.lab.replay.recorded import Recorded
from modules.lab.replay.runtime import RecordedRuntime
from modules.processes.edgecore.trace.events import event_of
from protos.cri.v1 import api_pb2 as pb
from tests.edged.pleg.watch import OWNER, Watch, ref

POD = "pod-1"
WORKER = "edged/worker-0"
LABELS = {POD_UID: POD, POD_NAME: "crashes", POD_NAMESPACE: "default"}
FILTER = {"label_selector": {POD_UID: POD}}


def call(span: int, time: float, method: str, request: object, answer: object, sender: str = WORKER) -> CriCall:
    """A call of a tenth of a millisecond."""
    return CriCall(
        time, span, 1, 1, sender, method, msgspec.json.encode(request), msgspec.json.encode(answer), "", "", 0.0001
    )


def reading(span: int, time: float, state: str, sender: str = WORKER) -> list[CriCall]:
    """A reading of the pod, whose container is in that state."""
    sandbox = [{"id": "s", "labels": LABELS}]
    container = [{"id": "c", "state": state, "labels": LABELS, "pod_sandbox_id": "s"}]
    status = {"status": {"id": "c", "state": state}}
    return [
        call(span, time, "list_pod_sandboxes", {"sandbox_filter": FILTER}, sandbox, sender),
        call(span + 1, time + 0.0002, "list_containers", {"container_filter": FILTER}, container, sender),
        call(span + 2, time + 0.0004, "container_status", {"container_id": "c"}, status, sender),
    ]


CRASH = [
    call(10, 1.0, "start_container", {"container_id": "c"}, None),
    *reading(11, 1.001, "CONTAINER_RUNNING"),
    *reading(20, 1.0022, "CONTAINER_EXITED", "edged/Pleg"),
    *reading(30, 1.003, "CONTAINER_EXITED"),
]
"""A container is started and ends 2 ms later: its worker reads it between the two, and in its next job."""


def read(runtime: RecordedRuntime) -> list[str]:
    """The states that a worker reads of the container: in the list, and in its status."""
    client = runtime.client()
    client.list_pod_sandboxes(pb.PodSandboxFilter(label_selector={POD_UID: POD}))
    (listed,) = client.list_containers(pb.ContainerFilter(label_selector={POD_UID: POD}))
    status = client.container_status(ContainerId("c")).status
    return [pb.ContainerState.Name(state).removeprefix("CONTAINER_") for state in (listed.state, status.state)]


def worked(now: float, *, readings: int) -> list[list[str]]:
    """What a worker reads that starts the container at a time."""
    simulation, found = Simulation(), list[list[str]]()
    event = CriEvent(1.002, 15, 0, 15, "stopped", POD, msgspec.json.encode({"container_id": "c"}))
    runtime = RecordedRuntime(simulation, CRASH, lambda text: text, [event])

    def work() -> None:
        runtime.client().start_container(ContainerId("c"))
        found.extend(read(runtime) for _ in range(readings))

    simulation.run_for(now)
    copy_context().run(as_actor(WORKER, work))
    return found


@pytest.mark.parametrize("late", [0.0, 0.003, 0.2])
def test_a_worker_reads_the_same_after_its_change_as_then(late: float) -> None:
    """The container ended a moment after that reading, which is in the past when the replay is late."""
    assert worked(0.9 + late, readings=1) == [["RUNNING", "RUNNING"]]


def test_the_next_reading_follows_although_it_comes_immediately() -> None:
    assert worked(0.9, readings=2) == [["RUNNING", "RUNNING"], ["EXITED", "EXITED"]]


def test_a_result_is_taken_when_it_was() -> None:
    """After the job in question, and not after one that went on to read or change the pod."""
    simulation = Simulation()
    events = [CriEvent(time, span, 1, 1, SYNCED, POD, b"null") for time, span in ((1.25, 14), (2.5, 40))]
    runtime = RecordedRuntime(simulation, CRASH, lambda text: text, events)
    simulation.run_for(0.9)
    taken = list[float]()

    def work() -> None:
        runtime.client().start_container(ContainerId("c"))
        taken.append(runtime.synced_at(POD))
        for _ in range(2):
            read(runtime)
            taken.append(runtime.synced_at(POD))

    copy_context().run(as_actor(WORKER, work))
    assert taken == [pytest.approx(simulation.clock.monotonic(), abs=0.01), 1.25, 2.5]
    assert event_of(events[0]) is None


def test_a_reading_has_the_time_that_it_had() -> None:
    """It begins with the end of the call before it; the PLEG began to read the pod in the moment between them."""
    simulation, taken = Simulation(), list[Done]()
    runtime = RecordedRuntime(simulation, CRASH, lambda text: text)

    class Reading:
        def sync(self, job: Job) -> Done:
            runtime.client().start_container(ContainerId("c"))
            at = simulation.clock.monotonic()
            read(runtime)
            return Done(job, PodFacts(job.ref), at)

    class Results:
        def post(self, event: Done) -> None:
            taken.append(event)

        handle = post

    simulation.run_for(0.9)
    worker = simulation.start(recorded_worker(runtime.read_at), Reading(), Results()).ref
    worker.tell(Job(PodState.SYNC, PodRef(PodUid(POD), "default", "crashes")))
    simulation.run_for(1.0)
    simulation.close()
    assert [one.facts_at for one in taken] == [pytest.approx(1.0009)]


def test_what_was_not_read_has_its_own_time() -> None:
    """As the facts of a removed pod."""
    runtime = RecordedRuntime(Simulation(), CRASH, lambda text: text)
    assert runtime.read_at(POD, 1.001) == 1.001


@pytest.mark.parametrize("pulls", [False, True], ids=["the pull names another pod", "the pull names this pod"])
def test_a_pull_that_another_pod_asks_for_takes_no_reading_from_the_pod_it_names(*, pulls: bool) -> None:
    """Pods that need an image at the same moment share one pull, and it names the one that came first, by a race."""
    simulation, found = Simulation(), list[list[str]]()
    image = {"image": {"image": "app:1"}, "sandbox_config": {"metadata": {"uid": POD}}}
    pull = call(14, 1.004, "pull_image", image, "sha256:1", "edged/puller")
    calls = [*CRASH[1:4], pull, *reading(40, 1.006, "CONTAINER_EXITED")]
    event = CriEvent(1.005, 15, 0, 15, "stopped", POD, msgspec.json.encode({"container_id": "c"}))
    runtime = RecordedRuntime(simulation, calls, lambda text: text, [event])
    simulation.run_for(1.001)

    def pull_for_another() -> None:
        config = pb.PodSandboxConfig(metadata=pb.PodSandboxMetadata(uid="another"))
        runtime.client().pull_image(pb.ImageSpec(image="app:1"), None, config)

    if pulls:
        copy_context().run(as_actor("edged/puller", pull_for_another))
    copy_context().run(as_actor(WORKER, lambda: found.append(read(runtime))))
    assert found == [["RUNNING", "RUNNING"]]


def test_a_probe_that_a_busy_machine_has_made_later_takes_no_reading_from_its_pod() -> None:
    simulation, found = Simulation(), list[list[str]]()
    result = {"stdout": "", "stderr": "", "exit_code": 0}
    probe = call(14, 1.004, "exec_sync", {"container_id": "c", "command": ["true"]}, result, PROBER)
    event = CriEvent(1.005, 15, 0, 15, "stopped", POD, msgspec.json.encode({"container_id": "c"}))
    calls = [*CRASH[1:4], probe, *reading(40, 1.006, "CONTAINER_EXITED")]
    runtime = RecordedRuntime(simulation, calls, lambda text: text, [event])
    simulation.run_for(1.001)

    def probed() -> None:
        runtime.client().exec_sync(ContainerId("c"), ["true"], 0)

    copy_context().run(as_actor(PROBER, probed))
    copy_context().run(as_actor(WORKER, lambda: found.append(read(runtime))))
    assert found == [["RUNNING", "RUNNING"]]


@pytest.mark.parametrize(
    ("inspected", "states"),
    [((1.0,), ["CREATED", "RUNNING"]), ((1.0, 1.3), ["CREATED", "RUNNING"]), ((1.4,), ["EXITED", "EXITED"])],
    ids=["now", "again soon", "later"],
)
def test_the_pleg_gets_the_answers_of_one_inspection_however_long_it_took(
    inspected: tuple[float, ...], states: list[str]
) -> None:
    """A container was started between its list and its status, which a busy machine read a tenth of a second later."""
    simulation, found = Simulation(), list[str]()
    known = reading(1, 0.5, "CONTAINER_EXITED", "edged/Pleg")
    calls = [*known, *(one for time in inspected for one in _slow_inspection(time))]
    runtime = RecordedRuntime(simulation, calls, lambda text: text)
    simulation.run_for(0.9999)
    simulation.call(as_actor("edged/Pleg", lambda: found.extend(read(runtime))), name="pleg")
    simulation.run_for(1.0)
    simulation.close()
    assert found == states


def _slow_inspection(time: float) -> list[CriCall]:
    sandboxes, containers, _ = reading(int(10 * time), time, "CONTAINER_CREATED", "edged/Pleg")
    *_, status = reading(int(10 * time), time + 0.1, "CONTAINER_RUNNING", "edged/Pleg")
    return [sandboxes, containers, status]


def test_the_recorded_pleg_inspects_the_same_pods_at_the_same_times() -> None:
    everything = call(50, 3.0, "list_pod_sandboxes", {"sandbox_filter": None}, [], "edged/Pleg")
    changes = [CriEvent(time, 60, 0, 0, "changed", POD, b"{}") for time in (1.5, 3.5)]
    recorded = RecordedInspections([*CRASH, everything], changes)
    assert [(round(time, 4), "" if ref is None else ref.name) for time, ref in recorded.times] == [
        (1.0021, "crashes"),
        (2.9999, ""),
    ]
    assert [recorded.has_relist(now) for now in (1.0, 2.9, 3.1, 4.0)] == [False, True, True, False]
    assert [recorded.handled_at(POD, now) for now in (1.1, 1.6, 3.1, 4.0)] == [1.5, 1.6, 3.5, 4.0]
    assert recorded.handled_at("another", 1.1) == 1.1


def run_of(program: str, times: tuple[float, ...]) -> Recorded:
    """A run in which the PLEG read pod `a` at these times."""
    marks = {POD_UID: "uid-a", POD_NAME: "a", POD_NAMESPACE: "default"}
    request, answer = {"sandbox_filter": {"label_selector": {POD_UID: "uid-a"}}}, [{"id": "s", "labels": marks}]
    calls = [call(span, time, "list_pod_sandboxes", request, answer, "edged/Pleg") for span, time in enumerate(times)]
    begun = tuple(msgspec.structs.replace(one, seconds=0.0) for one in calls)
    return Recorded(TraceHeader(FORMAT, program, "n", 0.0, 1, {}, 1, why="record"), begun)


def test_only_the_records_of_a_simulated_moment_belong_together() -> None:
    times = (1.0, 1.0 + APART, 1.0 + 2 * APART, 1.5)
    moment_of = run_of(SIMULATED, times).moments()
    assert [moment_of(time) for time in (0.5, *times, 1.2)] == [0.5, 1.0, 1.0, 1.0, 1.5, 1.2]
    moment_of = run_of("edgecore 1.0", times).moments()
    assert [moment_of(time) for time in times] == list(times)


def test_a_worker_knows_of_a_removed_container_though_the_pleg_read_the_pod_at_the_same_moment() -> None:
    """The trace has the PLEG's reading behind the worker's; in the run both began at once, and the worker's held."""
    times = tuple(1.5 + number * APART for number in range(4))
    run = run_of(SIMULATED, (*times, 1.7))
    watch = Watch(recorded_pleg(RecordedInspections(run.calls()[3:], [], run.moments())))
    _, container = watch.pod("a")
    watch.simulation.run_for(times[2])
    watch.runtime.end("main", 1)
    assert watch.looked(0.1) == ["a"]
    watch.runtime.remove_container(container)
    watch.hints.add_inspection(WorkerInspection(watch.reader.read_pod(ref("a")), OWNER, times[1]))
    assert watch.looked(0.2) == []
    watch.stop()


def test_a_recorded_relist_reads_the_pods_that_it_read_and_leaves_the_others_to_their_workers() -> None:
    """Whichever a worker has at its time; a relist that was not recorded reads all but those."""
    marks = [{POD_UID: f"uid-{name}", POD_NAME: name, POD_NAMESPACE: "default"} for name in "ab"]
    pods = [{"id": f"s-{name}", "labels": labels} for name, labels in zip("ab", marks, strict=True)]
    calls: list[CriCall] = []
    for time, name in ((1.0, "a"), (2.0, "b")):
        everything = {"sandbox_filter": None}
        calls.append(call(len(calls), time + 0.0001, "list_pod_sandboxes", everything, pods, "edged/Pleg"))
        asked = {"sandbox_id": f"s-{name}"}
        calls.append(call(len(calls), time + 0.0003, "pod_sandbox_status", asked, {}, "edged/Pleg"))
    watch = Watch(recorded_pleg(RecordedInspections(calls, [])))
    watch.simulation.run_for(0.5)
    watch.hints.add_sync(PodUid("uid-a"), watch.simulation.clock.monotonic())
    for name in "ab":
        watch.sandbox(name)
    assert [watch.look() for _ in range(2)] == [["a"], ["b"]]
    watch.sandbox("c")
    assert watch.look(5.0) == ["c"]
    watch.stop()
