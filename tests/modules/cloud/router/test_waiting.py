"""Calls that wait, their order and their bounds, and the counts of Rules: laws over drawn events."""

from collections import defaultdict
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from beehive.http.call import CallFailedError, HttpCall, HttpReply, ServerRefusedError
from beehive.module import Module
from beehive.testing import FakeContext
from modules.apimachinery.kinds import ObjectKey
from modules.cloud.client.calls import ApiCall, ApiResult
from modules.cloud.router import deliveries, status_writer
from modules.cloud.router.deliveries import PARALLEL, OutgoingCalls, may_repeat
from modules.cloud.router.records import RuleRecord
from modules.cloud.router.rest_service import RestAnswer
from modules.cloud.router.status_writer import MOST_ERRORS, RuleStatusWriter
from modules.cloud.router.waiting_calls import MOST_OF_NAMESPACE, MOST_OF_RULE, WaitingCalls

KEYS = [ObjectKey("Rule", "cap", name) for name in "ab"]


@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["add", "answer", "gone", "wait"]), st.integers(0, 5), st.sampled_from(["n1", "n2"])),
        max_size=40,
    )
)
def test_each_caller_gets_one_answer_and_only_of_the_node_that_it_asked(steps: list[tuple[str, int, str]]) -> None:
    """By the answer, the end of that node's connection, or the end of the time; then nothing is remembered of it."""
    context = FakeContext()
    calls = WaitingCalls(cast("Module", context), 10.0)
    answers: dict[str, list[tuple[int, float]]] = defaultdict(list)
    asked: dict[str, tuple[str, float]] = {}
    for number, (step, which, node) in enumerate(steps):
        now = context.clock.monotonic()
        match step:
            case "add":
                name, seconds = str(number), None if which > 3 else float(which * 5)

                def answered(answer: RestAnswer, _why: str, name: str = name) -> None:
                    answers[name].append((answer.status, context.clock.monotonic()))

                calls.add(name, node, KEYS[which % 2], answered, seconds)
                asked[name] = (node, now + min(10.0, 10.0 if seconds is None else seconds))
            case "answer" if asked:
                name = list(asked)[which % len(asked)]
                is_open = not answers[name]
                assert calls.answer(name, node, RestAnswer(200, b""), "") is (is_open and asked[name][0] == node)
            case "gone":
                others = [name for name, (of, _) in asked.items() if of != node and not answers[name]]
                calls.node_gone(node)
                assert not any(answers[name] for name in others)
                assert all(answers[name] for name, (of, _) in asked.items() if of == node)
            case _:
                context.simulation.run_for(float(which))
        now = context.clock.monotonic()
        for name, (_, until) in asked.items():
            assert len(answers[name]) <= 1
            assert answers[name] or now <= until
            assert not answers[name] or answers[name][0][0] != 504 or answers[name][0][1] >= until
        left = sum(1 for name in asked if not answers[name])
        assert all(calls.has_room(key) for key in KEYS) or left >= MOST_OF_RULE
    context.simulation.run_for(20.0)
    assert all(len(each) == 1 for each in answers.values())
    assert (calls._calls, calls._of_rule, calls._of_namespace) == ({}, {}, {})


def test_the_callers_of_a_namespace_leave_connections_for_those_of_others() -> None:
    """Each of 256 waited for an application of the tenant that never answered, with eight Rules."""
    calls = WaitingCalls(cast("Module", FakeContext()), 10.0)
    taken = 0
    for number in range(8 * MOST_OF_RULE):
        rule = ObjectKey("Rule", "a", str(number // MOST_OF_RULE))
        if calls.has_room(rule):
            calls.add(str(number), "n1", rule, lambda *_: None, None)
            taken += 1
    assert taken == MOST_OF_NAMESPACE
    assert calls.has_room(ObjectKey("Rule", "bank", "r"))


REFUSED, RESET, SLOW = (
    CallFailedError("x", "refused", sent=False), CallFailedError("x", "reset", sent=True),
    CallFailedError("x", "slow", sent=True, timed_out=True),
)  # fmt: skip


@pytest.mark.parametrize(
    ("method", "error", "repeats"),
    [
        ("POST", REFUSED, True),
        ("POST", ServerRefusedError("x", "link-local", sent=False), False),
        ("POST", RESET, False),
        ("PUT", RESET, True),
        ("PUT", SLOW, False),
        ("GET", SLOW, False),
    ],
)
def test_what_may_have_been_carried_out_is_not_repeated(method: str, error: CallFailedError, repeats: bool) -> None:
    assert may_repeat(HttpCall(method, "host", 80, "/", (), b""), error) is repeats


@given(
    sizes=st.lists(st.tuples(st.integers(0, 1), st.integers(1, 60), st.integers(0, 4)), max_size=30),
    pauses=st.lists(st.sampled_from([0.0, 0.5, 3.0]), min_size=30, max_size=30),
)
def test_calls_of_a_rule_are_made_in_order_and_all_that_wait_are_bounded(
    sizes: list[tuple[int, int, int]], pauses: list[float]
) -> None:
    """The next one begins when the one before has succeeded, or has failed four times."""
    context, made, ended = FakeContext(), list[str](), list[str]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deliveries, "MOST_BYTES", 240)  # of one namespace: 120
        patch.setattr(deliveries, "MOST_WAITING_BYTES", 90)
        calls = OutgoingCalls(cast("Module", context), frozenset)
        failures: dict[str, int] = {}

        def submit(_task: Callable[[], Any], done: Callable[[Any], None], _share: str) -> None:
            name = cast("Any", _task).args[0].target
            made.append(name)
            failures[name] -= 1
            outcome = REFUSED if failures[name] >= 0 else HttpReply(200, (), b"")
            context.after(1.0, lambda: done(outcome))

        calls._calls = cast("Any", SimpleNamespace(submit=submit))
        taken: dict[ObjectKey, list[str]] = defaultdict(list)
        waiting: dict[str, int] = {}
        for number, (rule, size, fails) in enumerate(sizes):
            name = f"{rule}-{number}"
            failures[name] = fails

            def done(_outcome: object, name: str = name) -> None:
                ended.append(name)
                del waiting[name]

            own = sum(size for each, size in waiting.items() if each.startswith(f"{rule}-"))
            has_room = sum(waiting.values()) + size <= 120 and (not own or own + size <= 90)
            waiting[name] = size
            if calls.submit(KEYS[rule], HttpCall("POST", "host", 80, name, (), b"x" * size), done):
                taken[KEYS[rule]].append(name)
                assert has_room
            else:
                del waiting[name]
                assert not has_room
            context.simulation.run_for(pauses[number])
        context.simulation.run_for(1000.0)
    for rule, key in enumerate(KEYS):
        assert [each for each in ended if each.startswith(f"{rule}-")] == taken[key]
        order = [each for each in made if each.startswith(f"{rule}-")]
        expected = [name for name in taken[key] for _ in range(min(4, 1 + sizes[int(name[2:])][2]))]
        assert order == expected
    assert (calls._lines, dict(calls._sizes)) == ({}, {})


def test_the_rules_of_a_namespace_leave_room_for_those_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenant's 1,000 Rules of a server that answers after 30 s let each other Rule wait for a quarter of an hour."""
    running = list[Callable[[], None]]()
    runtime = SimpleNamespace(call=lambda run, **_: running.append(run))
    monkeypatch.setattr(deliveries, "MOST_BYTES", 4000)
    calls = OutgoingCalls(cast("Module", SimpleNamespace(runtime=runtime, name="router", clock=None)), frozenset)

    def submit(namespace: str, number: int) -> bool:
        call = HttpCall("POST", "host", 80, f"/{namespace}", (), bytes(40))
        return calls.submit(ObjectKey("Rule", namespace, str(number)), call, lambda _: None)

    assert [submit("a", number) for number in range(51)] == [True] * 50 + [False]
    assert len(running) == PARALLEL // 2
    assert all(submit("bank", number) for number in range(50))
    assert len(running) == PARALLEL
    assert not submit("more", 0), "there is no room for any"


@example([("ok", 0), ("wait", 3), ("wait", 1), ("wait", 0), ("ok", 0)])
@example([("refuse", 1), *[("failed", 0)] * MOST_ERRORS, ("wait", 3), ("wait", 1), ("failed", 0)])
@example([("refuse", 1), ("ok", 0), ("wait", 3), ("wait", 1), ("wait", 0), ("ok", 0)])
@example([("ok", 0), ("again", 0)])
@example([("ok", 1), ("ok", 0), ("wait", 3), ("again", 0)])
@example([("ok", 0), ("wait", 3), ("again", 0)])
@example([("ok", 0), ("wait", 3), ("wait", 1), ("again", 0)])
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["ok", "failed", "wait", "wait", "refuse", "again"]), st.integers(0, 5)), max_size=40
    )
)
def test_all_deliveries_are_counted_once_however_writes_are_refused(steps: list[tuple[str, int]]) -> None:
    """A Rule that was made again begins anew; the newest errors are kept, in order. One status is written at a time,
    and none without a cause.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(status_writer, "_PARALLEL", 1)
        _count_all(steps)


def test_only_refusals_in_a_row_end_the_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_writer, "_TRIES", 3)
    _count_all([("refuse", 2), ("ok", 0), *[("wait", 5)] * 4, ("refuse", 2), ("ok", 0)])


def _count_all(steps: list[tuple[str, int]]) -> None:
    context = FakeContext()
    rules: dict[ObjectKey, RuleRecord | None]
    rules = {key: RuleRecord(key, f"{key.name}-0", "", "", "", {}, {}) for key in KEYS}
    stored = {key: {"metadata": {"uid": f"{key.name}-0"}, "status": {}} for key in KEYS}
    wanted: dict[ObjectKey, tuple[int, list[str]]] = {key: (0, []) for key in KEYS}
    writer = RuleStatusWriter(cast("Module", context), lambda key: (rules[key], None))
    refused, made = 0, 0

    def call(asked: ApiCall, answered: Callable[[ApiResult], None]) -> None:
        nonlocal refused, made
        made += 1
        key = ObjectKey("Rule", asked.namespace, asked.name)
        if asked.verb == "update" and refused:
            refused -= 1
            context.after(0.1, lambda: answered(ApiResult(refusal={"code": 409})))
            return
        if asked.verb == "update" and asked.body["metadata"] != stored[key]["metadata"]:
            context.after(0.1, lambda: answered(ApiResult(refusal={"code": 409})))
            return
        if asked.verb == "update":
            stored[key] = asked.body
        found, is_late = stored[key], asked.verb == "get" and made % 2
        context.after(0.1, lambda: answered(ApiResult(stored[key] if is_late else found)))

    writer._call = call  # type: ignore[method-assign, assignment]
    for number, (step, which) in enumerate(steps):
        key = KEYS[which % 2]
        successes, errors = wanted[key]
        match step:
            case "ok":
                writer.succeeded(key)
                wanted[key] = successes + 1, errors
            case "failed":
                writer.failed(key, f"number {number}")
                wanted[key] = successes, [*errors, f"number {number}"]
            case "refuse":
                refused = which
            case "again":
                rules[key] = None
                writer.refresh(key)
                uid = f"{key.name}-{number}"
                rules[key] = RuleRecord(key, uid, "", "", "", {}, {})
                writer.refresh(key)
                stored[key] = {"metadata": {"uid": uid}, "status": {}}
                wanted[key] = 0, []
            case _:
                context.simulation.run_for(
                    (0.05, 0.1, 0.95, 1.0, 9.95, 20.0)[which]
                )  # within a read, a write, or the rest
    context.simulation.run_for(600.0)
    before = made
    context.simulation.run_for(600.0)
    assert made == before
    for key in KEYS:
        status: Any = stored[key]["status"]
        successes, errors = wanted[key]
        assert (status.get("successMessages", 0), status.get("failMessages", 0)) == (successes, len(errors))
        assert [each.partition(": ")[2] for each in status.get("errors", [])] == errors[-MOST_ERRORS:]


class Statuses:
    """A writer of statuses, and the API server in its place."""

    def __init__(self, number: int = 1) -> None:
        self._context = FakeContext()
        self.keys = [ObjectKey("Rule", "cap", f"r{each}") for each in range(number)]
        self.rules: dict[ObjectKey, RuleRecord | None] = {
            key: RuleRecord(key, "uid", "", "", "", {}, {}) for key in self.keys
        }
        self.live: dict[str, Any] = {"metadata": {"uid": "uid"}}
        self.refusal: dict[str, Any] | None = None
        self.asked: list[str] = []
        self.written: list[str] = []
        self.under_way = self.most = 0
        self.writer = RuleStatusWriter(cast("Module", self._context), lambda key: (self.rules[key], None))
        self.writer._call = self._call  # type: ignore[method-assign, assignment]

    def _call(self, asked: ApiCall, answered: Callable[[ApiResult], None]) -> None:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        self.asked.append(asked.verb)
        if asked.verb == "update":
            self.written.append(asked.name)
            self.live = asked.body
        result = ApiResult(refusal=self.refusal) if self.refusal else ApiResult(self.live)

        def answer() -> None:
            self.under_way -= 1
            answered(result)

        self._context.after(0.1, answer)

    def run_for(self, seconds: float) -> None:
        """Let time pass."""
        self._context.simulation.run_for(seconds)


def test_statuses_are_written_a_few_at_a_time_and_none_waits_for_rules_that_are_gone() -> None:
    """At the start all are looked at."""
    statuses = Statuses(24)
    for key in statuses.keys:
        statuses.writer.succeeded(key)
    statuses.run_for(status_writer.FIRST + 0.05)
    for key in statuses.keys[8:16]:
        statuses.rules[key] = None
    statuses.run_for(5.0)
    assert statuses.most == 8
    assert statuses.written == [each.name for each in (*statuses.keys[:8], *statuses.keys[16:])]


def test_a_status_is_written_seldom_and_only_if_it_has_changed() -> None:
    statuses = Statuses()
    for seconds, writes in ((3.0, 1), (3.0, 1), (status_writer.INTERVAL, 2)):
        statuses.writer.succeeded(statuses.keys[0])
        statuses.run_for(seconds)
        assert len(statuses.written) == writes
    statuses.writer.refresh(statuses.keys[0])
    statuses.run_for(2 * status_writer.INTERVAL)
    assert len(statuses.written) == 2
    statuses.writer.failed(statuses.keys[0], "x" * 5000)
    statuses.run_for(2 * status_writer.INTERVAL)
    assert len(statuses.live["status"]["errors"][0]) < 400


def test_a_rule_that_is_gone_or_another_one_by_then_gets_no_status() -> None:
    statuses = Statuses()
    statuses.live = {"metadata": {"uid": "another"}}
    statuses.writer.succeeded(statuses.keys[0])
    statuses.run_for(1000.0)
    statuses.refusal = {"code": 404, "message": "not found"}
    statuses.writer.succeeded(statuses.keys[0])
    statuses.run_for(1000.0)
    assert statuses.asked == ["get", "get"]
