"""The client against the module: both ways of asking."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import msgspec
import pytest

from beehive import Group, Hive, Message, Module, ModuleName, Operation, ResourceType, Threads, handles
from beehive.testing import Harness
from metamanager.client import (
    AlreadyExistsError,
    AsyncMetaClient,
    MetaClient,
    NoAnswerError,
    NotConnectedError,
    NotFoundError,
    RejectedError,
)
from metamanager.errors import StoreError, StoreWriteError
from metamanager.sqlite_store import SqliteStore
from tests.metamanager.support import META, NOT_FOUND, cloud_answers, from_cloud, node, shape, thing

THING = msgspec.json.encode(thing())
OBJECT = {"Object": thing(), "Err": None}


def test_objects_of_the_store_are_returned() -> None:
    """The bytes that came; lists over all namespaces or one."""
    with node() as bee:
        meta = MetaClient(bee.hive)
        text = b'{ "metadata": {"name": "a", "namespace": "default"} }'
        bee.send(META, from_cloud(bee, "default/secret/a", Operation.INSERT, msgspec.Raw(text)))
        bee.send(META, from_cloud(bee, "default/pod/a", Operation.INSERT, msgspec.Raw(text)))
        assert meta.get(ResourceType.SECRET, "default", "a") == text
        assert meta.list_all(ResourceType.POD) == meta.list_all(ResourceType.POD, "default") == [text]
        assert meta.list_all(ResourceType.POD, "other") == meta.list_all(ResourceType.CONFIGMAP) == []
        with pytest.raises(NotFoundError):
            meta.get(ResourceType.PODPATCH, "default", "b")


def test_a_token_is_requested_as_kubeedge_requests_it() -> None:
    """Of the cloud, for edged's worker."""
    with node(connected=True) as bee:
        cloud_answers(bee, lambda _: thing())
        assert MetaClient(bee.hive).token("default", "sa", {"spec": {}}) == THING
        first = bee.sent[0].message
        assert shape(first) == ("query", "default/serviceaccounttoken/sa", msgspec.Raw(b'{"spec":{}}'))
        assert (first.route.source, first.route.group) == (ModuleName.EDGED, Group.META)


def test_a_silent_cloud_and_a_missing_metamanager_are_no_answer() -> None:
    """The first after metamanager's own deadline, which is the shorter one."""
    with node(connected=True) as bee:
        with pytest.raises(NoAnswerError, match="from the cloud"):
            MetaClient(bee.hive).get(ResourceType.CONFIGMAP, "default", "a")
        with pytest.raises(NoAnswerError):
            MetaClient(bee.hive, seconds=0.5).get(ResourceType.CONFIGMAP, "default", "a")
    hive = Hive(Threads())
    with pytest.raises(NoAnswerError, match="reach"):
        MetaClient(hive).list_all(ResourceType.POD)


Ask = Callable[[AsyncMetaClient, Callable[[Any], None]], None]
_RAW = msgspec.Raw(THING)
QUESTIONS: dict[str, tuple[Ask, tuple[str, str, Any], Any, Any]] = {
    "get": (lambda meta, then: meta.get("configmap", "default", "a", then=then),
            ("query", "default/configmap/a", None), thing(), THING),
    "lease": (lambda meta, then: meta.get("lease", "kube-node-lease", "n", then=then),
              ("query", "kube-node-lease/lease/n", None), OBJECT, THING),
    "create": (lambda meta, then: meta.create("node", "", "n", THING, then=then),
               ("insert", "null/node/n", _RAW), OBJECT, THING),
    "update": (lambda meta, then: meta.update("lease", "k", "n", thing(), then=then),
               ("update", "k/lease/n", _RAW), OBJECT, THING),
    "patch": (lambda meta, then: meta.patch(ResourceType.PODPATCH, "default", "a", b"{}", then=then),
              ("patch", "default/podpatch/a", "{}"), OBJECT, THING),
    "delete": (lambda meta, then: meta.delete("pod", "default", "a", {"gracePeriodSeconds": 0}, then=then),
               ("delete", "default/pod/a", msgspec.Raw(b'{"gracePeriodSeconds":0}')), "OK", None),
}  # fmt: skip
"""Each call: what it does, what reaches the cloud, what the cloud says, what comes back."""


class Asker(Module):
    """A module that asks without blocking and keeps the answers."""

    name = ModuleName.EDGED
    group = Group.EDGED
    outcomes: list[Any]

    @handles(None, "ask")
    def ask(self, message: Message) -> None:
        """Put a question, or every one."""
        for name in [message.content_as(str)] if message.content else QUESTIONS:
            QUESTIONS[name][0](AsyncMetaClient(self), self.outcomes.append)

    @handles()
    def others(self, message: Message) -> None:
        """What metamanager hands on."""


@contextmanager
def asked(name: str, answer: Any) -> Iterator[Harness]:
    """A node whose edged has put a question, to which the cloud has answered."""
    Asker.outcomes = []
    with node(connected=True, beside=Asker) as bee:
        cloud_answers(bee, lambda _: answer)
        bee.answer(Group.HUB, lambda sent: sent.reply(bee.clock, answer) if sent.header.sync else None)
        bee.send(ModuleName.EDGED, bee.message("", "ask", name))
        bee.settle()
        yield bee


@pytest.mark.parametrize("name", QUESTIONS)
def test_each_question_reaches_the_cloud_as_kubeedge_asks_it(name: str) -> None:
    """Operation, resource and content as in the wire catalogue (docs/protocol.md, "Upstream"), and the object comes
    back.
    """
    _, reached, content, result = QUESTIONS[name]
    with asked(name, content) as bee:
        assert Asker.outcomes == [result]
        first = bee.sent[0].message
        assert shape(first) == reached
        assert (first.route.source, first.route.group) == (ModuleName.EDGED, Group.META)


@pytest.mark.parametrize(
    ("name", "status", "error"),
    [
        ("create", {"reason": "AlreadyExists", "code": 409, "message": "nodes n already exists"}, AlreadyExistsError),
        ("get", NOT_FOUND["ErrStatus"], NotFoundError),
    ],
)
def test_a_refusal_of_the_cloud_is_its_error(name: str, status: dict[str, Any], error: type[RejectedError]) -> None:
    """With Kubernetes' status."""
    with asked(name, {"Object": thing(), "Err": {"ErrStatus": status}}):
        (outcome,) = Asker.outcomes
        assert isinstance(outcome, error)
        assert outcome.status.message == status["message"]


def test_without_a_connection_it_is_reported_immediately() -> None:
    """No virtual time passes."""
    Asker.outcomes = []
    with node(beside=Asker) as bee:
        before = bee.clock.monotonic()
        bee.send(ModuleName.EDGED, bee.message("", "ask"))
        bee.settle()
        assert [type(outcome) for outcome in Asker.outcomes] == [NotConnectedError] * len(QUESTIONS)
        assert all(outcome.retryable for outcome in Asker.outcomes)
        assert bee.clock.monotonic() == before


class Noting(Module):
    """In the place of edged, with events and the note that the store is complete."""

    name = ModuleName.EDGED
    outcomes: list[Any] = []  # noqa: RUF012 - cleared by the test

    @handles(None, "note")
    def note(self, _message: Message) -> None:
        """Ask, note, ask again."""
        meta, keep = AsyncMetaClient(self), self.outcomes.append
        meta.store_is_complete(then=keep)
        meta.record_complete(then=keep)
        meta.store_is_complete(then=keep)

    @handles(None, "event")
    def event(self, message: Message) -> None:
        """Record an event."""
        AsyncMetaClient(self).record_event("default", "e", msgspec.Raw(THING), is_new=message.content_as(bool))

    @handles()
    def others(self, message: Message) -> None:
        """What metamanager hands on."""


def test_the_note_that_the_store_is_complete_is_kept_or_is_an_error() -> None:
    Noting.outcomes = []
    with node(beside=Noting) as bee:
        bee.send(ModuleName.EDGED, bee.message("", "note"))
        assert Noting.outcomes == [False, None, True]
        Noting.outcomes.clear()
        refused = StoreWriteError("change", "f", "disk full", batch_lost=False)
        with mock.patch.object(SqliteStore, "put", side_effect=refused):
            bee.send(ModuleName.EDGED, bee.message("", "note"))
        assert [type(outcome) for outcome in Noting.outcomes] == [bool, RejectedError, bool]
        Noting.outcomes.clear()
        with mock.patch.object(SqliteStore, "get", side_effect=StoreError("read", "f", "disk I/O error")):
            bee.send(ModuleName.EDGED, bee.message("", "note"))
        assert isinstance(Noting.outcomes[0], RejectedError), "it may be complete"


@pytest.mark.parametrize(("is_new", "operation"), [(True, Operation.INSERT), (False, Operation.UPDATE)])
def test_an_event_is_recorded_whole(is_new: bool, operation: str) -> None:
    """A later state, too: a cloud that has missed the first one accepts it."""
    with node(beside=Noting, report_events=True) as bee:
        bee.send(ModuleName.EDGED, bee.message("", "event", is_new))
        (sent,) = bee.sent_to(Group.HUB)
        assert (sent.route.operation, sent.route.resource) == (operation, "default/event/e")
        assert bytes(sent.content_raw()) == THING


def test_metamanager_that_is_not_there_is_an_error_of_the_call() -> None:
    """As a value."""
    Asker.outcomes = []
    with Harness() as bee:
        bee.start(Asker)
        bee.send(ModuleName.EDGED, bee.message("", "ask"), wait=66)
        assert [type(outcome) for outcome in Asker.outcomes] == [NoAnswerError] * len(QUESTIONS)
        assert all(outcome.retryable for outcome in Asker.outcomes)
