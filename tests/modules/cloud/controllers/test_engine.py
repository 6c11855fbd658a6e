"""The engine goes on with other objects when a controller fails with one, or somebody writes nonsense into it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from beehive.simulation import Simulation
from modules.apimachinery.kinds import ObjectKey
from modules.cloud.client.calls import ApiCall, ApiResult
from modules.cloud.controllers.engine import Engine
from modules.cloud.controllers.plan import NOTHING, ReconcilePlan, delete
from modules.cloud.controllers.work_meter import WorkMeter
from modules.cloud.controllers.work_queue import WorkQueue
from modules.cloud.storage.watch_history import ObjectChanged
from tests.modules.cloud.controllers.site import Site, workload

_HUGE = "9" * 5000
"""Python refuses to read a number of more than 4,300 digits, with an error."""


def test_a_controller_that_fails_with_one_object_serves_the_others(caplog: pytest.LogCaptureFixture) -> None:
    now, looks = [100.0], []

    def reconcile(_view: object, key: ObjectKey, _now: float) -> ReconcilePlan:
        looks.append(key.name)
        if key.name == "bad":
            raise KeyError(key.name)
        return NOTHING

    engine = Engine({"Node": reconcile}, lambda *_: None, lambda: now[0], str, lambda: None)
    for version, name in enumerate(("bad", "good"), start=1):
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "resourceVersion": str(version)}}
        engine.take(ObjectChanged("ADDED", node))
    pauses = []
    for _ in range(3):
        again = engine.run()
        assert again is not None
        pauses.append(again - now[0])
        now[0] = again
    assert looks == ["bad", "good", "bad", "bad"]
    assert pauses == sorted(pauses)
    assert pauses[0] > 0
    assert caplog.text.count("node/bad cannot be reconciled") == 3
    caplog.clear()


def test_an_object_is_looked_at_again_when_the_view_has_what_was_written() -> None:
    """Or what was made would be made once more."""
    looks, answers = list[str](), list[Callable[[ApiResult], None]]()

    def node(version: str) -> dict[str, object]:
        return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a", "resourceVersion": version}}

    def reconcile(_view: object, key: ObjectKey, _now: float) -> ReconcilePlan:
        looks.append(key.name)
        return ReconcilePlan((delete(node("1")),) * 3) if len(looks) == 1 else NOTHING

    engine = Engine({"Node": reconcile}, lambda _, then: answers.append(then), lambda: 100.0, str, lambda: None)
    engine.take(ObjectChanged("ADDED", node("1")))
    engine.run()
    for number, version in enumerate(("2", "5", "4")):  # first one, then two beside each other
        answers[number](ApiResult(object=node(version)))
    for version, number in (("3", 1), ("4", 1), ("5", 2)):
        engine.take(ObjectChanged("MODIFIED", node(version)))
        engine.run()
        assert len(looks) == number


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

    engine = Engine({"Node": reconcile}, perform, simulation.clock.monotonic, str, lambda: None, meter)
    for version, name in enumerate(("bad", "good", "refused", "written"), start=1):
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "resourceVersion": str(version)}}
        engine.take(ObjectChanged("ADDED", node))
    assert meter.depths() == {"Node": 4}
    engine.run()
    assert meter.depths() == {}
    durations = meter.syncs["Node"]
    assert (durations.buckets()[-1][1], meter.retries["Node"]) == (2, 1)
    simulation.run_for(3.0)
    refused, written = answers
    refused(ApiResult(refusal={"code": 403, "message": "no"}))
    written(ApiResult(object={"kind": "Status"}))
    assert (durations.buckets()[-1][1], durations.total, meter.retries["Node"]) == (4, 6.0, 2)
    engine.take(ObjectChanged("ADDED", {**node, "metadata": {"name": "late", "resourceVersion": "9"}}))
    engine.stop()
    assert meter.depths() == {}
    caplog.clear()


def test_a_key_pauses_longer_after_each_failure_and_not_after_a_success() -> None:
    queue, key = WorkQueue(), ObjectKey("Job", "default", "sum")
    queue.add_at(key, 1.0)
    pauses = [queue.failed(key, 0.0) for _ in range(3)]
    assert pauses == [pauses[0], 2 * pauses[0], 4 * pauses[0]]
    queue.pause(key, 5.0)
    queue.add(key)
    assert (queue.next_time(), queue.take(4.9), queue.take(5.0)) == (5.0, None, key), "a pause is no shorter than asked"
    queue.succeeded(key)
    assert queue.failed(key, 0.0) == pauses[0]


def test_numbers_that_nobody_can_read_stop_no_rollout() -> None:
    site = Site(nodes=("n1",))
    site.apply(workload("Deployment", replicas=2))
    site.run_for(5)
    for kind, name in (
        ("ReplicaSet", "deployment.kubernetes.io/revision"),
        ("ReplicaSet", "deployment.kubernetes.io/desired-replicas"),
        ("ReplicaSet", "deployment.kubernetes.io/max-replicas"),
        ("Deployment", "deployment.kubernetes.io/revision"),
    ):
        (found,) = site.all(kind)
        site.patch(found, {"metadata": {"annotations": {name: _HUGE}}})
    site.run_for(5)
    site.apply(workload("Deployment", replicas=3))
    site.run_for(5)
    assert len(site.all("Pod")) == 3


def test_many_objects_at_once_do_not_fill_the_inbox_of_the_api_server() -> None:
    """A rollout behind 2,000 Services did, and others' calls were refused. The next ones follow the answers."""
    answers = list[Callable[[ApiResult], None]]()

    def reconcile(_view: object, key: ObjectKey, _now: float) -> ReconcilePlan:
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": key.name, "resourceVersion": "1"}}
        return ReconcilePlan((delete(node),))

    engine = Engine({"Node": reconcile}, lambda _, then: answers.append(then), lambda: 100.0, str, lambda: None)
    for number in range(200):
        metadata = {"name": f"n{number}", "resourceVersion": str(number + 1)}
        engine.take(ObjectChanged("ADDED", {"apiVersion": "v1", "kind": "Node", "metadata": metadata}))
    for answered in range(0, 200, 10):
        while engine.run() is not None:
            pass
        assert len(answers) == min(200, answered + 64)
        for answer in answers[answered : answered + 10]:
            answer(ApiResult(refusal={"code": 404}))
