"""The client against the module: both ways of asking, in both runtimes."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
import pytest

from beehive import Group, Hive, Message, Module, ModuleName, Operation, ResourceType, Source, Threads, handles
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
from metamanager.errors import StoreWriteError
from metamanager.module import MetaManager, MetaSettings
from metamanager.sqlite_store import SqliteStore
from tests.metamanager.support import META, NOT_FOUND, cloud_answers, from_cloud, node, shape, thing

CLOUD = ModuleName.EDGEHUB
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


def questions(meta: MetaClient) -> list[tuple[Any, tuple[str, str, Any], Any, Any]]:
    """Each call: what it does, what reaches the cloud, what the cloud says, what comes back."""
    raw = msgspec.Raw(THING)
    options: dict[str, Any] = {"gracePeriodSeconds": 0}
    request: dict[str, Any] = {"spec": {}}
    return [
        (lambda: meta.get("configmap", "default", "a"), ("query", "default/configmap/a", None), thing(), THING),
        (lambda: meta.get("lease", "kube-node-lease", "n"), ("query", "kube-node-lease/lease/n", None), OBJECT, THING),
        (lambda: meta.create("node", "", "n", THING), ("insert", "null/node/n", raw), OBJECT, THING),
        (lambda: meta.update("lease", "k", "n", thing()), ("update", "k/lease/n", raw), OBJECT, THING),
        (lambda: meta.token("default", "sa", request), ("query", "default/serviceaccounttoken/sa",
                                                       msgspec.Raw(b'{"spec":{}}')), thing(), THING),
        (lambda: meta.patch(ResourceType.PODPATCH, "default", "a", b"{}"), ("patch", "default/podpatch/a", "{}"),
         OBJECT, THING),
        (lambda: meta.patch(ResourceType.NODEPATCH, "", "n", "{}"), ("patch", "null/nodepatch/n", "{}"), OBJECT, THING),
        (lambda: meta.delete("pod", "default", "a", options), ("delete", "default/pod/a",
                                                              msgspec.Raw(b'{"gracePeriodSeconds":0}')), "OK", None),
    ]  # fmt: skip


@pytest.mark.parametrize("number", range(8))
def test_each_question_reaches_the_cloud_as_kubeedge_asks_it(number: int) -> None:
    """Operation, resource and content as in the wire catalogue (docs/protocol.md, "Upstream"), and the object comes
    back.
    """
    with node(connected=True) as bee:
        call, asked, content, result = questions(MetaClient(bee.hive))[number]
        cloud_answers(bee, lambda _: content)
        bee.answer(Group.HUB, lambda sent: sent.reply(bee.clock, content) if sent.header.sync else None)
        assert call() == result
        first = bee.sent[0].message
        assert shape(first) == asked
        assert (first.route.source, first.route.group) == (ModuleName.EDGED, Group.META)


def test_a_status_is_accepted_immediately_without_a_cloud() -> None:
    """No object comes back."""
    with node() as bee:
        assert MetaClient(bee.hive).update(ResourceType.PODSTATUS, "default", "a", {"UID": "u"}) is None


def test_a_refusal_of_the_cloud_is_its_error() -> None:
    """With Kubernetes' status."""
    exists = {"ErrStatus": {"reason": "AlreadyExists", "code": 409, "message": "nodes n already exists"}}
    with node(connected=True) as bee:
        meta = MetaClient(bee.hive)
        cloud_answers(bee, lambda _: {"Object": thing(), "Err": exists})
        with pytest.raises(AlreadyExistsError, match="already exists"):
            meta.create(ResourceType.NODE, "", "n", THING)
        cloud_answers(bee, lambda _: NOT_FOUND)
        with pytest.raises(NotFoundError):
            meta.get(ResourceType.CONFIGMAP, "default", "a")


def test_without_a_connection_it_is_reported_immediately() -> None:
    """No virtual time passes."""
    with node() as bee:
        meta, before = MetaClient(bee.hive), bee.clock.monotonic()
        for call in (
            lambda: meta.create("node", "", "n", THING),
            lambda: meta.get("configmap", "default", "a"),
            lambda: meta.patch(ResourceType.PODPATCH, "default", "a", "{}"),
            lambda: meta.delete("pod", "default", "a", {}),
        ):
            with pytest.raises(NotConnectedError) as caught:
                call()
            assert caught.value.retryable
        assert bee.clock.monotonic() == before


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


class Asker(Module):
    """A module that asks without blocking and keeps the answers."""

    name = ModuleName.EDGED
    group = Group.EDGED
    outcomes: list[Any]

    @handles(None, "ask-all")
    def ask_all(self, _message: Message) -> None:
        """Put every question."""
        meta, keep = AsyncMetaClient(self), self.outcomes.append
        meta.list_all(ResourceType.POD, then=keep)
        meta.get(ResourceType.CONFIGMAP, "default", "a", then=keep)
        meta.create(ResourceType.NODE, "", "n", THING, then=keep)
        meta.update(ResourceType.LEASE, "k", "n", THING, then=keep)
        meta.patch(ResourceType.PODPATCH, "default", "a", "{}", then=keep)
        meta.delete(ResourceType.POD, "default", "a", {}, then=keep)
        meta.token("default", "sa", {"spec": {}}, then=keep)

    @handles()
    def others(self, message: Message) -> None:
        """What metamanager hands on."""


class Cloud(Module):
    """A hub whose cloud answers everything with an object."""

    name = ModuleName.EDGEHUB
    group = Group.HUB

    @handles()
    def take(self, message: Message) -> None:
        """Answer what waits."""
        if message.header.sync:
            self.reply(message, OBJECT, source=ModuleName.EDGECONTROLLER)


@contextmanager
def threads(path: Path) -> Iterator[Hive]:
    """The real thing: a hub, metamanager and an asker on threads."""
    hive = Hive(Threads())
    hive.add(Cloud)
    hive.add(MetaManager, MetaSettings(str(path)))
    hive.add(Asker)
    hive.start()
    try:
        yield hive
    finally:
        hive.stop()


def tell_connected(hive: Hive) -> None:
    hive.send(META, Message.new(
        hive.clock, source=Source.EDGEHUB, resource="node/connection", operation=Operation.CONNECT,
        content="cloud_connected",
    ))  # fmt: skip


def test_questions_in_turns_get_values_or_errors_in_the_modules_turn() -> None:
    """Without a connection: a list, and six errors, as values."""
    Asker.outcomes = []
    with node(beside=Asker) as bee:
        bee.send(ModuleName.EDGED, bee.message("", "ask-all"))
        assert Asker.outcomes[0] == []
        assert [type(outcome) for outcome in Asker.outcomes[1:]] == [NotConnectedError] * 6


def test_a_worker_waits_for_real(tmp_path: Path) -> None:
    """On threads, with a real file: create, get and list."""
    with threads(tmp_path / "edgecore.db") as hive:
        meta = MetaClient(hive, seconds=60)
        tell_connected(hive)
        assert meta.create(ResourceType.NODE, "", "n", THING) == THING
        assert meta.get(ResourceType.CONFIGMAP, "default", "a") == THING
        assert meta.patch(ResourceType.PODPATCH, "default", "a", "{}") == THING
        assert meta.list_all(ResourceType.CONFIGMAP) == [THING]


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
        bee.add(Asker)
        bee.start()
        bee.send(ModuleName.EDGED, bee.message("", "ask-all"))
        bee.run_for(66)
        assert [type(outcome) for outcome in Asker.outcomes] == [NoAnswerError] * 7
        assert all(outcome.retryable for outcome in Asker.outcomes)
