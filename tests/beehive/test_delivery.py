"""Messages between modules: one, to a group, with an answer; on both runtimes."""

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from beehive import (
    Actor,
    BeehiveError,
    DropReason,
    Hive,
    Message,
    Module,
    Operation,
    OverflowPolicy,
    RequestError,
    RequestTimeoutError,
    ResourceType,
    handles,
)
from beehive.errors import UndeliverableError
from beehive.testing import Harness
from tests.beehive.beds import Bed, Log


class Worker(Module):
    """Notes what it gets and answers queries; silent about secrets."""

    name = "worker"
    group = "workers"

    def __init__(self, log: Log) -> None:
        super().__init__()
        self.log = log

    @handles(ResourceType.POD, Operation.INSERT)
    def pod(self, message: Message) -> None:
        self.log((str(self.name), message.content))

    @handles(ResourceType.POD, Operation.QUERY)
    def query(self, message: Message) -> None:
        self.reply(message, f"answer of {self.name}")

    @handles(ResourceType.SECRET, Operation.QUERY)
    def silence(self, message: Message) -> None:
        self.log(("asked", message))

    @handles(ResourceType.NODE, Operation.QUERY)
    def twice(self, message: Message) -> None:
        self.reply(message, 1)
        self.reply(message, 2)


class Second(Worker):
    """Another member of the group."""

    name = "second"


class Asker(Module):
    """Passes questions on and notes the answers, on its own thread."""

    name = "asker"

    def __init__(self, log: Log) -> None:
        super().__init__()
        self.log = log
        self.busy = False

    @handles()
    def ask(self, message: Message) -> None:
        self.busy = True
        question = self.message(message.route.resource, Operation.QUERY)
        seconds = 0.2 if question.route.resource == "default/secret/a" else 30.0
        self.request(str(message.content), question, seconds, self.answered)
        self.busy = False

    def answered(self, result: Message | BeehiveError) -> None:
        assert not self.busy
        self.log(result)


def start(bed: Bed, log: Log, *modules: type[Module], **options: Any) -> Hive:
    """A started hive of modules that take a log."""
    hive = bed.hive(**options)
    for module in modules:
        hive.add(module, log)
    hive.start()
    return hive


def test_messages_of_one_sender_arrive_in_order(bed: Bed, log: Log) -> None:
    """What one thread sends to one module is handled in the order of sending."""
    hive = start(bed, log, Worker)
    for number in range(500):
        hive.send("worker", bed.message(content=number))
    bed.until(lambda: len(log) == 500)
    assert log.entries == [("worker", number) for number in range(500)]


@pytest.mark.parametrize(
    ("destination", "resource", "operation", "reason"),
    [
        ("nobody", "default/pod/a", "insert", DropReason.NO_MODULE),
        ("worker", "default/pod/a", "patch", DropReason.NO_HANDLER),
        ("worker", "default/configmap/a", "insert", DropReason.NO_HANDLER),
        ("worker", "a/b/c/d/e", "insert", DropReason.NO_HANDLER),
        ("worker", "", "", DropReason.NO_HANDLER),
    ],
)
def test_undeliverable_messages_are_dead_letters(
    bed: Bed, log: Log, destination: str, resource: str, operation: str, reason: DropReason
) -> None:
    """A message that no module handles is kept with its reason, and the module goes on."""
    hive = start(bed, log, Worker)
    message = bed.message(resource, operation)
    hive.send(destination, message)
    assert [(letter.module, letter.message, letter.reason) for letter in hive.dead_letters] == [
        (destination, message, reason)
    ]
    hive.send("worker", bed.message())
    bed.until(lambda: len(log) == 1)


def test_broadcast_reaches_every_member_of_the_group(bed: Bed, log: Log) -> None:
    """Each module of the group gets the message; one without a handler for it has it among the dead letters."""

    class Deaf(Module):
        name = "deaf"
        group = "workers"

        def __init__(self, log: Log) -> None:
            super().__init__()

    hive = start(bed, log, Worker, Second, Deaf)
    assert hive.members("workers") == ["worker", "second", "deaf"]
    hive.broadcast("workers", bed.message(content=1))
    bed.until(lambda: len(log) == 2)
    assert sorted(log.entries) == [("second", 1), ("worker", 1)]
    assert [(letter.module, letter.reason) for letter in hive.dead_letters] == [("deaf", DropReason.NO_HANDLER)]
    hive.broadcast("nobody", bed.message())
    assert hive.dead_letters.counts[DropReason.NO_GROUP] == 1


def test_a_request_gets_the_answer_of_its_parent_id(bed: Bed, log: Log) -> None:
    """The answer carries the request's id, resource, source, and the request says that its sender waits."""
    hive = start(bed, log, Worker)
    question = bed.message(operation=Operation.QUERY)
    answer = hive.request("worker", question, 60).get()
    assert answer.content == "answer of worker"
    assert (answer.parent_id, answer.route.resource) == (question.id, question.route.resource)
    assert (answer.route.source, answer.route.operation) == ("test", Operation.RESPONSE)
    assert answer.id != question.id
    hive.request("worker", bed.message("default/secret/s", Operation.QUERY), 0.01)
    bed.until(lambda: len(log) == 1)
    assert log.entries[0][1].header.sync


def test_an_answer_from_inside_of_send_is_not_lost(bed: Bed) -> None:
    """The waiter is there before the message leaves, so that the fastest answer finds it."""
    hive: Hive

    def answer_at_once(_destination: str, message: Message, _way: Any) -> bool:
        hive.respond(message.reply(bed.clock, "at once"))
        return True

    hive = bed.hive(outside=answer_at_once)
    hive.start()
    future = hive.request("elsewhere", bed.message(operation=Operation.QUERY), 60)
    assert future.settled
    assert future.get().content == "at once"


def test_a_request_that_nobody_answers_ends_at_its_deadline(bed: Bed, log: Log) -> None:
    """It fails with a retryable `RequestTimeoutError`, not before and not long after; the late answer is counted."""
    hive = start(bed, log, Worker)
    begin = bed.clock.monotonic()
    with pytest.raises(RequestTimeoutError) as caught:
        hive.request("worker", bed.message("default/secret/s", Operation.QUERY), 0.05).get()
    assert 0.05 <= bed.clock.monotonic() - begin < 60
    assert caught.value.retryable
    assert len(hive.pending_requests) == 0
    bed.until(lambda: len(log) == 1)
    _, question = log.entries[0]
    hive.respond(question.reply(bed.clock))
    assert hive.pending_requests.unmatched == {DropReason.LATE_ANSWER: 1}


def test_a_second_answer_and_an_unknown_one_are_counted_and_dropped(bed: Bed, log: Log) -> None:
    """The first answer counts; the second and one to nothing end in counters."""
    hive = start(bed, log, Worker)
    assert hive.request("worker", bed.message("null/node/n", Operation.QUERY), 60).get().content == 1
    bed.until(lambda: hive.pending_requests.unmatched[DropReason.DOUBLE_ANSWER] == 1)
    hive.respond(bed.message().reply(bed.clock))
    assert hive.pending_requests.unmatched[DropReason.UNKNOWN_ANSWER] == 1


@pytest.mark.parametrize(("destination", "resource"), [("nobody", "default/pod/a"), ("worker", "default/event/a")])
def test_an_undeliverable_request_fails_immediately(bed: Bed, log: Log, destination: str, resource: str) -> None:
    """Nobody waits for the deadline of a request that is a dead letter already."""
    hive = start(bed, log, Worker)
    future = hive.request(destination, bed.message(resource, Operation.QUERY), 3600)
    assert future.settled
    with pytest.raises(UndeliverableError, match=destination):
        future.get()
    assert len(hive.pending_requests) == 0


def test_the_same_id_waits_only_once_but_may_be_sent_again(bed: Bed, log: Log) -> None:
    """A second request with an open one's id fails without disturbing it; after the end it may be tried again."""
    hive = start(bed, log, Worker)
    question = bed.message("default/secret/s", Operation.QUERY)
    first, second = bed.on_the_clock(lambda: [hive.request("worker", question, seconds) for seconds in (0.2, 3600)])
    with pytest.raises(RequestError, match="waiting already"):
        second.get()
    with pytest.raises(RequestTimeoutError):
        first.get()
    again = hive.request("worker", question, 60)
    bed.until(lambda: len(log) == 2)
    hive.respond(question.reply(bed.clock, "now"))
    assert again.get().content == "now"


def test_a_module_goes_on_in_its_own_turn(bed: Bed, log: Log) -> None:
    """`Module.request` returns immediately; answer, deadline and failure come to the callback in the module's turn."""
    hive = start(bed, log, Worker, Asker)
    hive.send("asker", bed.message("default/pod/a", content="worker"))
    bed.until(lambda: len(log) == 1)
    assert log.entries[0].content == "answer of worker"
    hive.send("asker", bed.message("default/pod/a", content="nobody"))
    bed.until(lambda: len(log) == 2)
    assert isinstance(log.entries[1], UndeliverableError)
    hive.send("asker", bed.message("default/secret/a", content="worker"))
    bed.until(lambda: len(log) == 4)
    assert [type(entry) for entry in log.entries[2:]].count(RequestTimeoutError) == 1


def test_an_actor_of_a_module_may_wait_for_an_answer(bed: Bed, log: Log) -> None:
    """Inner actors may block on `hive.request(...).get()`; the module itself goes on meanwhile."""

    class Blocking(Actor):
        def __init__(self, hive: Hive, log: Log) -> None:
            super().__init__()
            self.hive, self.log = hive, log

        def on_receive(self, message: Message) -> None:
            self.log(self.hive.request("worker", message, 60).get().content)

    class Owner(Module):
        name = "owner"

        def __init__(self, log: Log) -> None:
            super().__init__()
            self.log = log

        def on_start(self) -> None:
            self.child = self.start_actor(Blocking, self.hive, self.log)

        @handles(ResourceType.POD)
        def pod(self, message: Message) -> None:
            self.child.tell(self.message("default/pod/a", Operation.QUERY))

    hive = start(bed, log, Worker, Owner)
    hive.send("owner", bed.message())
    bed.until(lambda: len(log) == 1)
    assert log.entries == ["answer of worker"]


def test_several_hives_in_one_process_do_not_meet(bed: Bed) -> None:
    """Modules of the same name in two hives of one runtime get only their own hive's messages."""
    logs = [Log(), Log()]
    hives = [start(bed, log, Worker) for log in logs]
    for number, hive in enumerate(hives):
        hive.send("worker", bed.message(content=number))
    bed.until(lambda: all(len(log) for log in logs))
    assert [log.entries for log in logs] == [[("worker", 0)], [("worker", 1)]]
    question = bed.message("default/secret/s", Operation.QUERY)
    waiting = hives[0].request("worker", question, 60)
    hives[1].respond(question.reply(bed.clock))
    assert not waiting.settled
    assert hives[1].pending_requests.unmatched == {DropReason.UNKNOWN_ANSWER: 1}


def test_states_to_a_request_handler_are_commands_when_requested() -> None:
    """A request is never coalesced, whatever its handler's kind: its answer is waited for."""

    class Stateful(Module):
        name = "stateful"

        @handles(overflow=OverflowPolicy.STATE)
        def state(self, message: Message) -> None:
            self.reply(message)

    with Harness() as bee:
        bee.add(Stateful)
        bee.hive.start()
        futures = [bee.future("stateful", bee.message("default/podstatus", "query")) for _ in range(3)]
        bee.settle()
        assert [future.get().content for future in futures] == ["OK"] * 3


def test_a_hop_takes_three_calls() -> None:
    """Into the hive, to the module's slot, into the inbox: also for an object that was never sent before."""
    log, calls = Log(), list[str]()

    def called(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and Path(frame.f_code.co_filename).name in ("hive.py", "handlers.py", "inbox.py"):
            calls.append(frame.f_code.co_name)

    with Harness() as bee:
        bee.start(Worker, log)
        bee.send("worker", bee.message("default/pod/first", "insert"))
        before = sys.getprofile()
        for broadcast, last in ((False, "put"), (True, "put_deferred")):
            message = bee.message(f"default/pod/{last}", "insert")
            assert message.subject.type == ResourceType.POD  # whoever has made the message has read it
            calls.clear()
            sys.setprofile(called)
            try:
                if broadcast:
                    bee.hive.broadcast("workers", message)
                else:
                    bee.hive.send("worker", message)
            finally:
                sys.setprofile(before)
            assert calls == ["broadcast" if broadcast else "send", "_deliver", last]
        bee.settle()
    assert len(log.entries) == 3
