"""Whoever gives an answer to the bus learns whether somebody waited for it; edgehub stores what nobody did. Only those
may answer who were asked.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import beehive
import edged
import edgehub
import metamanager
import modules
from beehive import Message, Module, handles
from beehive.delivery import DropReason
from beehive.runtime import Future
from beehive.testing import Harness


def test_respond_returns_whether_somebody_waited() -> None:
    """True for the first answer to an open request, False for a second one and for one to nothing."""
    with Harness() as bee:
        asked: list[Message] = []
        bee.answer("absent", asked.append)
        bee.start()
        future = bee.future("absent", bee.message("default/pod/p", "query"))
        answer = asked[0].reply(bee.clock)
        assert bee.hive.respond(answer)
        assert future.get().id == answer.id
        assert not bee.hive.respond(answer)
        assert not bee.hive.respond(bee.message("default/pod/p", "response", parent_id="nobody"))


class _Asked(Module):
    """Remembers what it was asked and leaves the answer to others."""

    name = "asked"
    group = "some"

    @handles()
    def take(self, message: Message) -> None:
        """Says nothing."""


class _Other(Module):
    """Answers what it was never asked, knowing the request's id."""

    name = "other"
    group = "rest"

    @handles()
    def take(self, message: Message) -> None:
        """Forges an answer to the request that the content names."""
        forged = self.message("default/secret/s", "response", "forged", parent_id=message.content_as(str))
        self.respond(forged)


class Asked(NamedTuple):
    """A question that waits for an answer."""

    bee: Harness
    question: Message
    future: Future[Message]


@pytest.fixture
def asked() -> Iterator[Asked]:
    with Harness() as bee:
        bee.add(_Asked)
        bee.start(_Other)
        question = bee.message("default/secret/s", "query")
        yield Asked(bee, question, bee.future("asked", question))


def test_a_module_that_was_not_asked_cannot_answer(asked: Asked) -> None:
    """Knowing a request's id is not enough: the forged answer becomes a dead letter, and the sender keeps waiting."""
    bee, question, future = asked
    bee.send("other", bee.message("a/b/c", "forge", question.id))
    assert not future.settled
    assert [(letter.time, letter.module, letter.reason) for letter in bee.hive.dead_letters] == [
        (bee.clock.now(), "other", DropReason.FOREIGN_ANSWER)
    ]
    assert bee.hive.pending_requests.unmatched == {DropReason.FOREIGN_ANSWER: 1}
    assert bee.hive.respond(question.reply(bee.clock, "honest"), "asked")
    assert future.get().content == "honest"


def test_a_module_that_was_asked_may_delegate_the_request(asked: Asked) -> None:
    """Then the delegate answers; a module that was not asked can delegate neither to itself nor to others."""
    bee, question, future = asked
    bee.hive.pending_requests.delegate(question.id, "other", ["other"])
    assert not bee.hive.respond(question.reply(bee.clock, "forged"), "other")
    bee.hive.pending_requests.delegate(question.id, "asked", ["other"])
    assert bee.hive.respond(question.reply(bee.clock, "honest"), "other")
    assert future.get().content == "honest"


def test_who_has_delegated_a_request_may_still_answer_it(asked: Asked) -> None:
    """With an error, when the delegate cannot."""
    bee, question, future = asked
    bee.hive.pending_requests.delegate(question.id, "asked", ["other"])
    assert bee.hive.respond(question.reply(bee.clock, "not now"), "asked")
    assert future.get().content == "not now"


def test_modules_say_who_answers() -> None:
    """No module of the product answers in the name of whichever was asked."""
    packages = [Path(package.__file__ or "").parent for package in (beehive, edged, edgehub, metamanager, modules)]
    calls = [
        f"{path.name}: {line.strip()}"
        for package in packages
        for path in package.rglob("*.py")
        for line in path.read_text().splitlines()
        if "hive.respond(" in line and path.name != "testing.py"
    ]
    assert [call for call in calls if "self.name)" not in call and "ModuleName." not in call] == [
        "stub_module.py: self._hive.respond(reply)"  # a recorded answer, to the question that was asked then
    ]
