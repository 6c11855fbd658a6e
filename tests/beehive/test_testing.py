"""The harness that every module is tested with."""

import pytest

from beehive import BeehiveError, DeliveryMode, Message, Module, Operation, RequestTimeoutError, ResourceType, handles
from beehive.testing import Harness
from tests.beehive.beds import Log


class Middle(Module):
    """Asks another module before it answers, and reports every minute."""

    name = "middle"

    def __init__(self, log: Log) -> None:
        super().__init__()
        self.log = log

    def on_start(self) -> None:
        self.every(60, lambda: self.broadcast("hub", self.message("default/nodestatus", Operation.UPDATE)))

    @handles(ResourceType.POD, Operation.QUERY)
    def query(self, message: Message) -> None:
        question = self.message(message.route.resource, Operation.QUERY)
        self.request("metamanager", question, 10, lambda result: self.answered(message, result))

    def answered(self, request: Message, result: Message | BeehiveError) -> None:
        self.log(result)
        self.reply(request, result.content if isinstance(result, Message) else str(result))


def test_messages_that_leave_the_module_are_captured(log: Log) -> None:
    """They are kept by destination (module or group) with their delivery mode; only the test lets time pass."""
    with Harness() as bee:
        bee.start(Middle, log)
        assert bee.sent == []
        bee.run_for(150)
        assert [sent.mode for sent in bee.sent] == [DeliveryMode.BROADCAST, DeliveryMode.BROADCAST]
        assert len(bee.sent_to("hub")) == 2
        bee.forget()
        assert bee.sent_to("hub") == []


class Hasty(Module):
    """Changes what it has sent."""

    name = "hasty"

    def __init__(self) -> None:
        super().__init__()
        self._pods: dict[str, int] = {}

    @handles(ResourceType.POD)
    def take(self, message: Message) -> None:
        self._pods[message.route.resource] = len(self._pods)
        self.broadcast("hub", self.message("default/pod", Operation.UPDATE, self._pods))


def test_a_content_that_changes_after_it_was_sent_fails_the_test() -> None:
    """The receiver and the recorder read it on other threads, later."""

    def sends(count: int) -> None:
        with Harness() as bee:
            bee.start(Hasty)
            for number in range(count):
                bee.send("hasty", bee.message(f"default/pod/{number}", "insert"))

    sends(1)
    with pytest.raises(AssertionError, match="update default/pod of hasty was changed after it was sent"):
        sends(2)


def test_an_absent_module_answers_as_the_test_wants(log: Log) -> None:
    """The answer comes later on the module's thread, without time passing; silence ends at the deadline."""
    with Harness() as bee:
        bee.start(Middle, log)
        bee.answer("metamanager", lambda message: message.reply(bee.clock, "stored"))
        before = bee.clock.monotonic()
        bee.send("middle", bee.message("default/pod/a", "query"))
        assert [result.content for result in log.entries] == ["stored"]
        assert bee.clock.monotonic() == before
        assert bee.ask("middle", bee.message("default/pod/a", "query")).content == "stored"
        bee.answer("metamanager", lambda _message: None)
        bee.ask("middle", bee.message("default/pod/a", "query"))
        assert isinstance(log.entries[-1], RequestTimeoutError)


def test_a_question_may_be_asked_without_waiting(log: Log) -> None:
    """The future is settled when the simulation has come so far."""
    with Harness() as bee:
        bee.start(Middle, log)
        future = bee.future("middle", bee.message("default/pod/a", "query"), seconds=5)
        bee.settle()
        assert not future.settled
        [question] = bee.sent_to("metamanager")
        assert question.header.sync
        bee.hive.respond(question.reply(bee.clock, "by hand"))
        assert future.get().content == "by hand"


def test_a_failing_start_is_the_test_s_failure() -> None:
    """It is raised, not swallowed."""

    class Broken(Module):
        name = "broken"

        def on_start(self) -> None:
            raise ValueError("no")

    with Harness() as bee:
        bee.add(Broken)
        with pytest.raises(BeehiveError, match="broken"):
            bee.start()


def test_a_harness_leaves_nothing_running(log: Log) -> None:
    """Its end stops the hive."""
    with Harness() as bee:
        bee.start(Middle, log)
        assert bee.simulation.scheduler.alive()
    assert bee.simulation.scheduler.alive() == []
