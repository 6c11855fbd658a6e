"""What the engine, its queue and its pauses keep, and for how long."""

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from beehive.simulation.scheduler import VirtualClock
from modules.apimachinery.kinds import JsonObject, ObjectKey
from modules.cloud.client.calls import ApiCall, ApiResult
from modules.cloud.controllers import engine as engine_module
from modules.cloud.controllers import failure_pauses, lost_objects
from modules.cloud.controllers.engine import Engine
from modules.cloud.controllers.event_recorder import _LONGEST, _REMEMBERED, EventRecorder
from modules.cloud.controllers.failure_pauses import FailurePauses
from modules.cloud.controllers.lost_objects import LostObjects
from modules.cloud.controllers.plan import NOTHING, WARNING, EventNote, ReconcilePlan, create, delete, patch
from modules.cloud.controllers.view import View
from modules.cloud.controllers.work_queue import WorkQueue
from modules.cloud.storage.watch_history import ObjectChanged
from tests.modules.cloud.controllers.test_lost_objects import lose, pod
from tests.support.failing import left_by_repeating

SUM = ObjectKey("Job", "default", "sum")
Answer = Callable[[ApiResult], None]


class Bench:
    """An engine whose controller of Nodes plans what a test says, and the calls that it makes."""

    def __init__(self) -> None:
        self.clock, self.looks, self.calls = VirtualClock(1), list[str](), list[tuple[ApiCall, Answer]]()
        self.plan: Callable[[View, ObjectKey], ReconcilePlan] = lambda _view, _key: NOTHING
        self.engine = Engine({"Node": self._reconcile}, self._perform, self.clock, lambda: None)
        self._versions = count(1)

    def _reconcile(self, view: View, key: ObjectKey, _now: float) -> ReconcilePlan:
        self.looks.append(key.name)
        return self.plan(view, key)

    def _perform(self, call: ApiCall, then: Answer) -> None:
        self.calls.append((call, then))

    def tell(self, name: str = "a", change: str = "ADDED") -> JsonObject:
        """A Node has changed; it is looked at."""
        metadata = {"name": name, "uid": name, "resourceVersion": str(next(self._versions))}
        node = {"apiVersion": "v1", "kind": "Node", "metadata": metadata}
        self.engine.handle(ObjectChanged(change, node))
        self.engine.run()
        return node

    def answer(self, result: ApiResult | None = None, **refusal: Any) -> None:
        """Answer the oldest call, by default with a refusal."""
        self.calls.pop(0)[1](result or ApiResult(refusal={"message": "no", **refusal}))
        self.engine.run()


def test_a_time_that_is_over_is_no_reason_to_look_without_end() -> None:
    bench = Bench()
    bench.plan = lambda _view, _key: ReconcilePlan(again_at=1.0)
    bench.tell()
    assert (bench.looks, bench.engine.queue.next_time()) == (["a"], bench.clock.now() + 1.0)


def test_the_plans_own_time_is_not_put_off_by_what_is_made_later(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    now = bench.clock.now()
    monkeypatch.setattr(engine_module, "breach_of", lambda *_: "")
    monkeypatch.setattr(bench.engine._lost_objects, "until", lambda *_: now + 300.0)
    bench.plan = lambda _view, _key: ReconcilePlan((create(pod("p")),), again_at=now + 10.0)
    bench.tell()
    assert (bench.calls, bench.engine.queue.next_time()) == ([], now + 10.0)


def test_an_object_that_comes_to_rest_each_time_is_always_looked_at_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only one that never does is looked at each second."""
    monkeypatch.setattr(engine_module, "_STEADY", 3)
    bench, writes = Bench(), iter(range(99))

    def plan(view: View, key: ObjectKey) -> ReconcilePlan:
        found = view.find(key)
        return ReconcilePlan((patch(found, {}),)) if found and next(writes) % 2 == 0 else NOTHING

    bench.plan = plan
    for number in range(6):
        bench.tell(change="MODIFIED" if number else "ADDED")
        (call, then), = bench.calls  # fmt: skip
        bench.calls.clear()
        then(ApiResult(object=bench.tell(change="MODIFIED")))
        bench.engine.run()
        assert call.verb == "patch"
        assert len(bench.looks) == 2 * (number + 1), "the second look has nothing to do"


def test_objects_that_come_fail_and_go_leave_nothing(caplog: pytest.LogCaptureFixture) -> None:
    bench, numbers = Bench(), count()

    def plan(view: View, key: ObjectKey) -> ReconcilePlan:
        if (found := view.find(key)) is None:
            return NOTHING
        if key.name.startswith("bad"):
            raise KeyError(key.name)
        foreign = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "other"}}
        return ReconcilePlan((create(foreign) if key.name.startswith("breach") else delete(found),))

    bench.plan = plan

    def cycle() -> None:
        number = next(numbers)
        for word in ("bad", "breach", "refused", "gone"):
            bench.tell(f"{word}-{number}")
        bench.answer(code=500)
        bench.answer(ApiResult(object={"kind": "Status"}))
        for word in ("bad", "breach", "refused", "gone"):
            bench.clock.jump_wall(100.0)
            bench.tell(f"{word}-{number}", "DELETED")
        while bench.calls:
            bench.answer(ApiResult(object={"kind": "Status"}))
        bench.clock.jump_wall(100.0)
        bench.engine.run()
        bench.looks.clear()

    engine = bench.engine
    assert not left_by_repeating(cycle, engine.queue, engine._running, engine._awaited, engine._streaks,
                                 engine._breaches, engine._lost_objects, engine.view)  # fmt: skip
    caplog.clear()


def test_a_breach_that_comes_back_is_logged_again(caplog: pytest.LogCaptureFixture) -> None:
    bench, plans = Bench(), iter([True, True, False, True])
    foreign = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"}}
    bench.plan = lambda _view, _key: ReconcilePlan((create(foreign),)) if next(plans, False) else NOTHING
    bench.tell()
    for _ in range(3):
        bench.clock.jump_wall(100.0)
        bench.tell(change="MODIFIED")
    assert caplog.text.count("nothing is written for") == 2
    caplog.clear()


def test_the_first_of_several_refusals_counts_and_a_deletion_that_was_refused_is_not_the_controllers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench, refused = Bench(), list[str]()
    monkeypatch.setattr(bench.engine._lost_objects, "refused", refused.append)

    def plan(view: View, key: ObjectKey) -> ReconcilePlan:
        found = view.find(key)
        write = delete(found) if found else None
        if write is None or refused:
            return NOTHING
        return ReconcilePlan(tuple(
            write if not why else patch(found or {}, {}, counts_as=why) for why in ("", "First", "Second")
        ))  # fmt: skip

    bench.plan = plan
    bench.tell()
    node = bench.tell(change="MODIFIED")
    bench.answer(ApiResult(object=node))
    for why in ("one", "two"):
        bench.answer(code=422, message=why)
    found = bench.engine.view.refusals
    assert [(each.reason, each.message) for each in found.values()] == [("First", "one")]
    bench.tell("b")
    bench.answer(code=403)
    assert refused == ["b"]


def test_an_event_that_nobody_has_any_more_is_stored_again(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    bench.plan = lambda _view, _key: ReconcilePlan(events=(EventNote(WARNING, "Told", "again"),))
    bench.tell()
    bench.tell(change="MODIFIED")
    (first, then), (second, again) = bench.calls
    bench.calls.clear()
    then(ApiResult(object=first.body))
    again(ApiResult(refusal={"code": 404}))
    assert (first.verb, second.verb) == ("create", "update")
    assert [(call.verb, call.name, call.body["count"]) for call, _ in bench.calls] == [("create", "", 2)]


def test_the_longest_pause_stays_after_however_many_failures() -> None:
    queue = WorkQueue()
    assert max(queue.failed(SUM, 0.0) for _ in range(2000)) == 60.0
    queue.forget(SUM)
    assert queue.failed(SUM, 0.0) < 1.0


def test_the_time_of_a_key_that_no_longer_waits_wakes_nobody() -> None:
    queue = WorkQueue()
    queue.add_at(SUM, 5.0)
    queue.pause(SUM, 9.0)
    assert queue.next_time() == 9.0
    queue.forget(SUM)
    assert queue.next_time() is None


def test_few_pauses_are_kept_those_that_were_asked_for_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failure_pauses, "_MOST", 2)
    pauses = FailurePauses()
    for place in ("a", "b", "a", "c"):
        pauses.until(place, {"metadata": {"uid": "u"}}, 0.0)
    assert [*pauses._pauses] == ["a", "c"]


def test_few_losses_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lost_objects, "_MOST", 2)
    lost = LostObjects()
    for uid in "abc":
        gone = pod(uid)
        gone["metadata"]["ownerReferences"][0]["uid"] = f"set-{uid}"
        lost.changed(gone, gone, 1.0, is_gone=True)
    assert len(lost._pauses) == 2
    lost.mean("d")
    assert lose(lost, 1.0, "d") == 0.0
    assert not lost._meant


def test_few_events_with_short_messages_are_kept() -> None:
    recorder, about = EventRecorder(VirtualClock(1)), {**pod("a"), "apiVersion": "v1"}
    for number in range(2 * _REMEMBERED):
        call = recorder.call(about, EventNote(WARNING, "Refused", f"{number} {'x' * _LONGEST}"))
    assert len(call.body["message"]) == _LONGEST
    assert len(recorder._latest) == _REMEMBERED
