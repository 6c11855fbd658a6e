"""The bus knows in whose course everything was sent: handlers, timers, continuations, actors, answers."""

from collections.abc import Iterator

import pytest

from beehive import Actor, DeliveryMode, DeliveryRecord, Hive, Message, Module, Operation, Threads, handles
from beehive.delivery import HiveEvent, ModuleFailed, TimerRun, TurnTaken
from beehive.testing import Harness
from beehive.trace_context import Cause, current_cause, current_context, resumed


class Tape:
    """A tap and watcher that keeps everything."""

    def __init__(self) -> None:
        self.records: list[DeliveryRecord] = []
        self.happened: list[HiveEvent] = []

    def delivered(self, record: DeliveryRecord) -> None:
        self.records.append(record)

    def of(self, operation: str) -> DeliveryRecord:
        """The only record of that operation."""
        [record] = [record for record in self.records if record.message.route.operation == operation]
        return record


class Helper(Actor):
    """Sends in the course of what it was told."""

    def __init__(self, hive: Hive) -> None:
        super().__init__()
        self._hive = hive

    def on_receive(self, message: Message) -> None:
        self._hive.send("second", message.with_route(operation="by-helper"))


class First(Module):
    """Sends on by every means there is."""

    name = "first"

    def on_start(self) -> None:
        self._helper = self.start_actor(Helper, self.hive, name="first/helper")

    @handles(None, "handler")
    def by_handler(self, message: Message) -> None:
        self.send("second", message.with_route(operation="from-handler"))

    @handles(None, "timer")
    def by_timer(self, message: Message) -> None:
        self.after(5, lambda: self.send("second", message.with_route(operation="by-timer")))

    @handles(None, "period")
    def by_period(self, message: Message) -> None:
        self._ticker = self.every(10, lambda: self.send("second", message.with_route(operation="by-period")))

    @handles(None, "helper")
    def by_helper(self, message: Message) -> None:
        self._helper.tell(message)

    @handles(None, "request")
    def by_request(self, message: Message) -> None:
        question = self.message("a/b/c", "question")
        self.request("second", question, 9, lambda _: self.send("second", message.with_route(operation="by-answer")))

    @handles(None, "fail")
    def fail(self, message: Message) -> None:
        raise ValueError("on purpose")


class Second(Module):
    """Takes all and answers questions."""

    name = "second"

    @handles(None, "question")
    def answer(self, message: Message) -> None:
        self.reply(message)
        self.send("second", message.with_route(operation="after-answer"))

    @handles()
    def take(self, message: Message) -> None:
        """Nothing to do."""


@pytest.fixture
def tape() -> Tape:
    """An empty one."""
    return Tape()


@pytest.fixture
def bee(tape: Tape) -> Iterator[Harness]:
    """Both modules, observed."""
    with Harness(taps=(tape,)) as harness:
        harness.hive.watchers.append(tape.happened.append)
        harness.add(First)
        harness.add(Second)
        harness.start()
        yield harness


def begin(bee: Harness, tape: Tape, operation: str) -> DeliveryRecord:
    """Send from outside and wait; the record of that first delivery, which begins a trace."""
    bee.send("first", bee.message("a/b/c", operation), wait=20)
    first = tape.of(operation)
    assert (first.sender, first.cause, first.trace) == ("", 0, first.span)
    return first


def test_a_message_sent_by_a_handler_has_the_handled_one_as_its_cause(bee: Harness, tape: Tape) -> None:
    first = begin(bee, tape, "handler")
    sent = tape.of("from-handler")
    assert (sent.sender, sent.cause, sent.trace) == ("first", first.span, first.span)
    assert sent.span not in (0, first.span)


def test_a_timer_carries_the_cause_to_its_messages(bee: Harness, tape: Tape) -> None:
    first = begin(bee, tape, "timer")
    [fired] = [event for event in tape.happened if isinstance(event, TimerRun)]
    assert (fired.module, fired.seconds, fired.periodic, fired.cause) == ("first", 5, False, first.span)
    assert fired.waited == 5.0
    assert "by_timer" in fired.name
    sent = tape.of("by-timer")
    assert (sent.cause, sent.trace) == (fired.span, first.span)


def test_an_answer_and_a_named_call_are_turns_that_watchers_see(bee: Harness, tape: Tape) -> None:
    """When a module takes them is known from nothing else: an answer's record has the time when it was sent."""

    class Asking(Module):
        name = "asking"

        @handles()
        def ask(self, message: Message) -> None:
            self.request("second", self.message("a/b/c", "question"), 5.0, lambda _: None)
            self.call_soon(lambda: None, "named", 1.5)
            self.call_soon(lambda: None)

    with Harness(taps=(tape,)) as harness:
        harness.hive.watchers.append(tape.happened.append)
        harness.add(Asking)
        harness.add(Second)
        harness.start()
        harness.send("asking", harness.message("a/b/c", "begin"))
        harness.run_for(1)
    turns = [event for event in tape.happened if isinstance(event, TurnTaken)]
    [answer] = [record for record in tape.records if record.mode is DeliveryMode.RESPONSE]
    assert sorted((turn.module, turn.name, turn.since) for turn in turns) == [
        ("asking", "answer", None), ("asking", "named", 1.5),
    ]  # fmt: skip
    assert {turn.name: turn.cause for turn in turns}["answer"] == answer.span


def test_each_period_begins_a_trace_of_its_own(bee: Harness, tape: Tape) -> None:
    begin(bee, tape, "period")
    fired = [event for event in tape.happened if isinstance(event, TimerRun)]
    assert [(event.cause, event.trace == event.span, event.periodic) for event in fired] == [(0, True, True)] * 2
    assert [event.waited for event in fired] == [0.0, 0.0]
    sent = [record for record in tape.records if record.message.route.operation == "by-period"]
    assert [record.cause for record in sent] == [event.span for event in fired]


def test_an_actors_messages_are_caused_by_the_message_that_it_handles(bee: Harness, tape: Tape) -> None:
    first = begin(bee, tape, "helper")
    sent = tape.of("by-helper")
    assert (sent.sender, sent.cause, sent.trace) == ("first/helper", first.span, first.span)


def test_an_answer_goes_to_the_asker_who_goes_on_in_its_course(bee: Harness, tape: Tape) -> None:
    first = begin(bee, tape, "request")
    question, answer, after = tape.of("question"), tape.of(Operation.RESPONSE), tape.of("by-answer")
    assert question.cause == first.span
    assert (answer.mode, answer.sender, answer.module, answer.cause) == (
        DeliveryMode.RESPONSE,
        "second",
        "first",
        question.span,
    )
    assert (after.cause, after.trace) == (answer.span, first.span)
    assert (tape.of("after-answer").cause, tape.of("after-answer").trace) == (question.span, first.span)


def test_a_failure_reaches_watchers(bee: Harness, tape: Tape) -> None:
    bee.expect_failures()
    bee.send("first", bee.message("a/b/c", "fail"))
    failures = [event for event in tape.happened if isinstance(event, ModuleFailed)]
    assert [(event.module, str(event.error)) for event in failures] == [("first", "on purpose")]


def test_a_dead_letter_has_its_cause_too(bee: Harness, tape: Tape) -> None:
    record = begin(bee, tape, "unknown")
    assert record.reason is not None


def test_a_raising_watcher_does_not_fail_the_hive(bee: Harness, tape: Tape) -> None:
    def broken(_happened: HiveEvent) -> None:
        raise ValueError("on purpose")

    bee.hive.watchers.insert(0, broken)
    begin(bee, tape, "timer")
    assert tape.of("by-timer").module == "second"


def test_without_taps_nothing_is_numbered() -> None:
    with Harness() as bee:
        bee.add(First)
        bee.start(Second)
        bee.send("first", bee.message("a/b/c", "handler"))
        assert bee.hive.next_span() == 1


def test_threads_keep_their_courses_apart(tape: Tape) -> None:
    """The same under the runtime of production."""
    runtime = Threads()
    hive = Hive(runtime, taps=(tape,))
    hive.add(First)
    hive.add(Second)
    hive.start()
    for _ in range(50):
        question = Message.new(runtime.clock, source="test", resource="a/b/c", operation="question")
        hive.request("second", question, 60).get()
        hive.send("first", question.with_route(operation="handler"))
    hive.stop()
    runtime.close()
    causes = {record.span: record for record in tape.records}
    sent = [record for record in tape.records if record.message.route.operation == "from-handler"]
    assert len(sent) == 50
    assert {causes[record.cause].message.route.operation for record in sent} == {"handler"}
    assert len({record.cause for record in sent}) == 50


def test_a_kept_cause_is_resumed_and_left_again() -> None:
    with resumed(Cause(3, 2)):
        assert current_cause() == Cause(3, 2)
    assert (current_context().span, current_context().trace) == (0, 0)
