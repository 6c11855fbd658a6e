"""The engine goes on with other objects when a controller fails with one, or somebody writes nonsense into it."""

import random
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from beehive.simulation import Simulation
from beehive.simulation.scheduler import VirtualClock
from modules.apimachinery.kinds import ObjectKey
from modules.cloud.client.calls import ApiCall, ApiResult
from modules.cloud.controllers.engine import Engine
from modules.cloud.controllers.event_recorder import EventRecorder
from modules.cloud.controllers.failure_pauses import FailurePauses
from modules.cloud.controllers.plan import NOTHING, WARNING, EventNote, ReconcilePlan, create, delete, patch
from modules.cloud.controllers.view import View
from modules.cloud.controllers.work_meter import WorkMeter
from modules.cloud.controllers.work_queue import WorkQueue
from modules.cloud.storage.watch_history import ObjectChanged
from tests.modules.cloud.controllers.site import site_of, workload

_HUGE = "9" * 5000
"""Python refuses to read a number of more than 4,300 digits, with an error."""


def test_a_controller_that_fails_with_one_object_serves_the_others(caplog: pytest.LogCaptureFixture) -> None:
    clock, looks = VirtualClock(1), []

    def reconcile(_view: object, key: ObjectKey, _now: float) -> ReconcilePlan:
        looks.append(key.name)
        if key.name == "bad":
            raise KeyError(key.name)
        return NOTHING

    engine = Engine({"Node": reconcile}, lambda *_: None, clock, lambda: None)
    for version, name in enumerate(("bad", "good"), start=1):
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "resourceVersion": str(version)}}
        engine.handle(ObjectChanged("ADDED", node))
    pauses = []
    for _ in range(3):
        again = engine.run()
        assert again is not None
        pauses.append(again - clock.now())
        clock.jump_wall(pauses[-1])
    assert looks == ["bad", "good", "bad", "bad"]
    assert pauses == sorted(pauses)
    assert pauses[0] > 0
    assert caplog.text.count("node/bad cannot be reconciled") == 3
    caplog.clear()


def node(version: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a", "resourceVersion": version}}


def test_an_object_is_looked_at_again_when_the_view_has_the_write() -> None:
    """Or what was made would be made once more."""
    looks, answers = list[str](), list[Callable[[ApiResult], None]]()

    def reconcile(_view: object, key: ObjectKey, _now: float) -> ReconcilePlan:
        looks.append(key.name)
        return ReconcilePlan((delete(node("1")),) * 3) if len(looks) == 1 else NOTHING

    engine = Engine({"Node": reconcile}, lambda _, then: answers.append(then), VirtualClock(1), lambda: None)
    engine.handle(ObjectChanged("ADDED", node("1")))
    engine.run()
    for number, version in enumerate(("2", "5", "4")):  # first one, then two beside each other
        answers[number](ApiResult(object=node(version)))
    for version, number in (("3", 1), ("4", 1), ("5", 2)):
        engine.handle(ObjectChanged("MODIFIED", node(version)))
        engine.run()
        assert len(looks) == number


@pytest.mark.parametrize(
    ("verb", "code", "details", "told"),
    [
        ("patch", 409, {}, False), ("patch", 404, {}, False), ("patch", 403, {}, True), ("create", 409, {}, True),
        ("create", 404, {}, True), ("create", 403, {"causes": [{"reason": "NamespaceTerminating"}]}, False),
        ("create", 404, {"kind": "namespaces"}, False),
    ],
)  # fmt: skip
def test_a_refusal_has_an_event_unless_the_view_was_only_older_or_the_namespace_ends(
    verb: str, code: int, details: dict[str, Any], told: bool
) -> None:
    refused, asked = EventNote(WARNING, "Refused", "it is refused: {why}"), list[ApiCall]()
    metadata = {"name": "a", "namespace": "default", "resourceVersion": "1"}
    deployment, made = (
        {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata} for kind in ("Deployment", "ReplicaSet")
    )

    def perform(call: ApiCall, then: Callable[[ApiResult], None]) -> None:
        asked.append(call)
        refusal = {"code": code, "message": "no", "details": details}
        then(ApiResult(refusal=refusal) if call.plural == "replicasets" else ApiResult())

    def reconcile(_view: object, _key: ObjectKey, _now: float) -> ReconcilePlan:
        write = create(made, refused=refused) if verb == "create" else patch(made, {"spec": {}}, refused=refused)
        return ReconcilePlan((write,))

    engine = Engine({"Deployment": reconcile}, perform, VirtualClock(1), lambda: None)
    engine.handle(ObjectChanged("ADDED", deployment))
    engine.run()
    assert [call.plural for call in asked] == ["replicasets", *(["events"] if told else [])]


def test_an_event_that_happens_again_is_counted_until_many_others_have_happened() -> None:
    recorder = EventRecorder(VirtualClock(1))
    about = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a", "uid": "u", "resourceVersion": "1"}}

    def counted(message: str) -> tuple[str, int]:
        call = recorder.call(about, EventNote(WARNING, "Refused", message))
        return call.verb, call.body["count"]

    assert [counted("x") for _ in range(3)] == [("create", 1), ("update", 2), ("update", 3)]
    for number in range(255):
        assert counted(str(number)) == ("create", 1)
    assert counted("x") == ("update", 4)
    assert counted("one more") == ("create", 1)
    assert counted("0") == ("create", 1), "the one that has not happened for the longest time is forgotten"


_REFUSED = msgspec.structs.replace(delete(node("1")), counts_as="FailedDelete")


def test_an_object_whose_refused_write_is_not_wanted_any_more_is_looked_at_once_more() -> None:
    """Its status shows the refusal, until that is over."""
    clock, refusals = VirtualClock(1), list[bool]()

    def reconcile(view: View, key: ObjectKey, _now: float) -> ReconcilePlan:
        refusals.append(key in view.refusals)
        return ReconcilePlan((_REFUSED,)) if len(refusals) == 1 else NOTHING

    engine = Engine({"Node": reconcile}, lambda _, then: then(ApiResult(refusal={"code": 403})), clock, lambda: None)
    engine.handle(ObjectChanged("ADDED", node("1")))
    for _ in range(5):
        engine.run()
        clock.jump_wall(600.0)
    assert refusals == [False, True, True, False]


def test_a_write_that_succeeds_ends_its_refusal() -> None:
    clock, refusals = VirtualClock(1), list[bool]()
    answers = [ApiResult(refusal={"code": 403}), ApiResult(object=node("2"))]

    def reconcile(view: View, key: ObjectKey, _now: float) -> ReconcilePlan:
        refusals.append(key in view.refusals)
        return ReconcilePlan((_REFUSED,)) if answers else NOTHING

    engine = Engine({"Node": reconcile}, lambda _, then: then(answers.pop(0)), clock, lambda: None)
    engine.handle(ObjectChanged("ADDED", node("1")))
    for _ in range(2):
        engine.run()
        clock.jump_wall(600.0)
    assert (refusals, engine.view.refusals) == ([False, True, True], {})


@pytest.mark.parametrize("other", [{"uid": "v"}, {"reason": "Failed"}, {"message": "y"}], ids=str)
def test_an_event_of_another_object_reason_or_message_is_another_one(other: dict[str, str]) -> None:
    recorder, calls = EventRecorder(VirtualClock(1)), list[ApiCall]()
    for changed in ({}, other, {}):
        given = {"uid": "u", "reason": "Refused", "message": "x", **changed}
        metadata = {"name": "a", "uid": given["uid"], "resourceVersion": "1"}
        about = {"apiVersion": "v1", "kind": "Node", "metadata": metadata}
        calls.append(recorder.call(about, EventNote(WARNING, given["reason"], given["message"])))
    assert [(call.verb, call.body["count"]) for call in calls] == [("create", 1), ("create", 1), ("update", 2)]


class _Lives:
    """Two objects with a controller that draws its writes, and an API server that draws its answers."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)  # noqa: S311 - the same in each run
        self._clock = VirtualClock(seed)
        self._version = 1
        self._calls: list[tuple[ApiCall, Callable[[ApiResult], None]]] = []
        self._unseen: list[dict[str, Any]] = []
        self._written: dict[str, int] = {}
        self._is_answering = False
        self.wrong: list[str] = []
        self.left = {"a": 4, "b": 4}
        self._engine = Engine({"Node": self._reconcile}, self._perform, self._clock, lambda: None)
        for name in self.left:
            self._engine.handle(ObjectChanged("ADDED", self._made(name)))

    def step(self, refused: float, seen: float) -> None:
        """Let time pass, and perhaps an answer and a change come."""
        self._clock.jump_wall(self._draw.choice((0.0, 0.5, 30.0)))
        self._engine.run()
        if self._calls and self._draw.random() < 0.7:
            self._is_answering = True
            self._answer(*self._calls.pop(self._draw.randrange(len(self._calls))), refused)
            self._is_answering = False
        if self._unseen and self._draw.random() < seen:
            self._engine.handle(ObjectChanged("MODIFIED", self._unseen.pop(0)))

    def _answer(self, call: ApiCall, then: Callable[[ApiResult], None], refused: float) -> None:
        if self._draw.random() < refused:
            code = self._draw.choice((403, 404, 409, 422))
            then(ApiResult(refusal={"code": code, "message": f"{self._version}"}))
            return
        made = self._made(call.name)
        self._written[call.name] = self._version
        self._unseen.append(made)
        then(ApiResult(object=made))

    def _made(self, name: str) -> dict[str, Any]:
        self._version += 1
        metadata = {"name": name, "resourceVersion": str(self._version)}
        return {"apiVersion": "v1", "kind": "Node", "metadata": metadata}

    def _reconcile(self, view: View, key: ObjectKey, _now: float) -> ReconcilePlan:
        if not self._is_answering:  # after a refusal only the status is taken from the plan
            self.left[key.name] -= 1
            if any(call.name == key.name for call, _ in self._calls):
                self.wrong.append(f"{key.name} is looked at while its writes are under way")
            if view.versions.get("Node", 0) < self._written.get(key.name, 0):
                self.wrong.append(f"{key.name} is looked at before its writes are seen")
        found = view.find(key)
        if self.left[key.name] <= 0 or found is None:
            return NOTHING
        writes = tuple(patch(found, {}, counts_as="FailedCreate") for _ in range(self._draw.randint(1, 4)))
        return ReconcilePlan(writes, patch(found, {"status": {}}) if self._draw.random() < 0.7 else None)

    def _perform(self, call: ApiCall, then: Callable[[ApiResult], None]) -> None:
        if call.plural != "events":
            self._calls.append((call, then))


def test_no_object_is_looked_at_before_the_view_has_all_that_was_written_for_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """With answers in any order, refusals of any write, and changes that are seen late: or things would be made twice.
    After the last change is seen each object is looked at until nothing is left to do.
    """
    for seed in range(25):
        lives = _Lives(seed)
        for step in range(400):
            lives.step(*((0.4, 0.3) if step < 300 else (0.0, 1.0)))
        assert lives.wrong == [], seed
        assert max(lives.left.values()) <= 0, seed
    caplog.clear()


def test_the_work_is_measured(caplog: pytest.LogCaptureFixture) -> None:
    """From a look to the end of its writes; a look that fails and a write that is refused are tried again."""
    simulation, answers = Simulation(), []
    meter = WorkMeter(simulation.clock)

    def reconcile(_view: object, key: ObjectKey, _now: float) -> ReconcilePlan:
        if key.name == "bad":
            raise KeyError(key.name)
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": key.name, "resourceVersion": "1"}}
        return NOTHING if key.name == "good" else ReconcilePlan((delete(node),))

    def perform(_call: ApiCall, then: Callable[[ApiResult], None]) -> None:
        answers.append(then)

    engine = Engine({"Node": reconcile}, perform, simulation.clock, lambda: None, meter)
    for version, name in enumerate(("bad", "good", "refused", "written"), start=1):
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "resourceVersion": str(version)}}
        engine.handle(ObjectChanged("ADDED", node))
    assert engine.queue.depths() == {"Node": 4}
    engine.run()
    assert meter.depths == {}
    durations = meter.syncs["Node"]
    assert (durations.buckets()[-1][1], meter.retries["Node"]) == (2, 1)
    simulation.run_for(3.0)
    refused, written = answers
    refused(ApiResult(refusal={"code": 403, "message": "no"}))
    written(ApiResult(object={"kind": "Status"}))
    assert (durations.buckets()[-1][1], durations.total, meter.retries["Node"]) == (4, 6.0, 2)
    engine.handle(ObjectChanged("ADDED", {**node, "metadata": {"name": "late", "resourceVersion": "9"}}))
    engine.run()
    assert meter.depths == {}
    engine.stop()
    assert meter.depths == {}
    caplog.clear()


def test_a_key_pauses_longer_after_each_failure_and_not_after_a_success() -> None:
    queue, key = WorkQueue(), ObjectKey("Job", "default", "sum")
    queue.add_at(key, 1.0)
    pauses = [queue.failed(key, 0.0) for _ in range(3)]
    assert pauses == [pauses[0], 2 * pauses[0], 4 * pauses[0]]
    queue.pause(key, 5.0)
    queue.add(key)
    assert (queue.next_time(), queue.get(4.9), queue.get(5.0)) == (5.0, None, key), "a pause is no shorter than asked"
    queue.succeeded(key)
    assert queue.failed(key, 0.0) == pauses[0]


def test_the_pause_after_a_failure_doubles_up_to_a_quarter_of_an_hour_and_starts_over_later() -> None:
    pauses, now, found = FailurePauses(), 0.0, list[float]()
    for number in range(12):
        pod = {"metadata": {"uid": str(number)}}
        until = pauses.until("place", pod, now)
        found.append(until - now)
        now = until
        assert pauses.until("place", pod, now) == until, "each pod counts once"
    assert found == [2.0**number for number in range(10)] + [900.0, 900.0]
    assert pauses.until("place", {"metadata": {"uid": "x"}}, now + 1801.0) == now + 1802.0


def test_no_pause_is_longer_because_the_clock_is_set_back() -> None:
    """As by NTP, an hour after a start with a wrong clock."""
    queue, keys, pod = WorkQueue(), [ObjectKey("Job", "default", name) for name in "ab"], {"metadata": {"uid": "u"}}
    queue.pause(keys[0], 3605.0)
    queue.add_at(keys[1], 3606.0)
    assert queue.get(3600.0) is None
    assert [queue.get(4.0) for _ in range(3)] == [*keys, None]
    pauses = FailurePauses()
    assert [pauses.until("place", pod, now) for now in (3600.0, 4.0, 4.5)] == [3601.0, 5.0, 5.0]


def test_a_pause_outlasts_the_time_at_which_a_key_was_due_before() -> None:
    queue, key = WorkQueue(), ObjectKey("Job", "default", "sum")
    queue.add_at(key, 2.0)
    queue.pause(key, 5.0)
    assert (queue.get(2.0), queue.next_time(), queue.get(5.0)) == (None, 5.0, key)
    queue.add_at(key, 9.0)
    queue.add_at(key, 7.0)
    assert (queue.get(7.0), queue.get(9.0)) == (key, None), "once, at the earlier of two times"


def test_numbers_that_nobody_can_read_stop_no_rollout() -> None:
    site = site_of(workload("Deployment", replicas=2), seconds=5, nodes=("n1",))
    for kind, name in (
        ("ReplicaSet", "deployment.kubernetes.io/revision"),
        ("ReplicaSet", "deployment.kubernetes.io/desired-replicas"),
        ("ReplicaSet", "deployment.kubernetes.io/max-replicas"),
        ("Deployment", "deployment.kubernetes.io/revision"),
    ):
        (found,) = site.all(kind)
        site.patch(found, {"metadata": {"annotations": {name: _HUGE}}})
    site.run_for(5)
    site.apply(workload("Deployment", replicas=3), seconds=5)
    assert len(site.all("Pod")) == 3


def test_a_deployment_does_not_wait_for_thousands_of_services() -> None:
    queue, web = WorkQueue(), ObjectKey("Deployment", "default", "web")
    services = [ObjectKey("Service", "default", f"s{number}") for number in range(3)]
    for key in (*services, web):
        queue.add(key)
    queue.pause(services[2], 5.0)
    assert queue.depths() == {"Service": 2, "Deployment": 1}
    assert [queue.get(9.0) for _ in range(5)] == [services[0], web, services[1], services[2], None]


def test_many_objects_at_once_do_not_fill_the_inbox_of_the_api_server() -> None:
    """A rollout behind 2,000 Services did, and others' calls were refused. The next ones follow the answers."""
    answers = list[Callable[[ApiResult], None]]()

    def reconcile(_view: object, key: ObjectKey, _now: float) -> ReconcilePlan:
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": key.name, "resourceVersion": "1"}}
        return ReconcilePlan((delete(node),))

    engine = Engine({"Node": reconcile}, lambda _, then: answers.append(then), VirtualClock(1), lambda: None)
    for number in range(200):
        metadata = {"name": f"n{number}", "resourceVersion": str(number + 1)}
        engine.handle(ObjectChanged("ADDED", {"apiVersion": "v1", "kind": "Node", "metadata": metadata}))
    for answered in range(0, 200, 10):
        while engine.run() is not None:
            pass
        assert len(answers) == min(200, answered + 64)
        for answer in answers[answered : answered + 10]:
            answer(ApiResult(refusal={"code": 404}))
