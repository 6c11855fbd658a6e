"""A store that was lost: what it says of itself, and how a pod is asked of a cloud that answers no query for pods."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from beehive import Message, Module, ModuleName, Operation, handles
from beehive.testing import Harness
from metamanager import client
from metamanager.client import AsyncMetaClient, CallError, NotConnectedError, NotFoundError, RejectedError
from metamanager.sqlite_store import SqliteStore
from tests.metamanager.support import META, NOT_FOUND, cloud_answers, disconnect, from_cloud, node, store_of, thing

POD = "default/pod/a"
UID = {"metadata": {"uid": "uid-1"}}
CONFLICT = {"ErrStatus": {"status": "Failure", "message": "another uid", "reason": "Conflict", "code": 409}}


def ask(bee: Harness) -> Message:
    """edged's question for the pod."""
    return bee.ask(META, client.pod_call("default", "a", "uid-1").message(bee.clock, ModuleName.EDGED))


def is_complete(bee: Harness) -> bool:
    """What the store says of itself."""
    call = client.completeness_call()
    try:
        call.read(bee.ask(META, call.message(bee.clock, ModuleName.EDGED)))
    except NotFoundError:
        return False
    return True


def test_a_pod_that_is_not_stored_is_asked_for_with_a_patch_that_changes_nothing() -> None:
    """KubeEdge's cloud answers that with the pod. It is stored as if it had been pushed, and the next question is
    answered without the cloud.
    """
    with node(connected=True) as bee:
        cloud_answers(bee, lambda _: {"Object": thing(spec="s"), "Err": None})
        answer = ask(bee)
        (question,) = bee.sent_to(ModuleName.EDGEHUB)
        assert (question.route.operation, question.route.resource) == (Operation.PATCH, "default/podpatch/a")
        assert question.content == '{"metadata":{"uid":"uid-1"}}'
        assert b'"spec":"s"' in client.pod_call("default", "a", "uid-1").read(answer)
        disconnect(bee)
        assert '"spec":"s"' in ask(bee).content[0]
        assert store_of(bee).get_all("podpatch") == []


@pytest.mark.parametrize("refusal", [NOT_FOUND, CONFLICT])
def test_a_refusal_is_handed_on_and_not_stored(refusal: dict[str, Any]) -> None:
    with node(connected=True) as bee:
        cloud_answers(bee, lambda _: {"Object": None, "Err": refusal})
        with pytest.raises(RejectedError):
            client.pod_call("default", "a", "uid-1").read(ask(bee))
        assert store_of(bee).get(POD) is None


def test_without_a_connection_it_is_refused_immediately() -> None:
    with node() as bee, pytest.raises(NotConnectedError):
        client.pod_call("default", "a", "uid-1").read(ask(bee))


def test_an_answer_that_a_deletion_has_overtaken_counts_for_nothing() -> None:
    """A real cloudcore writes answers and objects in two loops: between those there is no order."""
    with node(connected=True) as bee:
        request = client.pod_call("default", "a", "uid-1").message(bee.clock, ModuleName.EDGED)
        future = bee.hive.request(META, request, 100)
        bee.settle()
        (question,) = bee.sent_to(ModuleName.EDGEHUB)
        bee.send(META, from_cloud(bee, POD, Operation.DELETE, UID))
        bee.respond(question.reply(bee.clock, {"Object": thing(), "Err": None}, source="edgecontroller"))
        with pytest.raises(CallError, match="deleted") as caught:
            client.pod_call("default", "a", "uid-1").read(future.get())
        assert caught.value.retryable
        assert store_of(bee).get(POD) is None


def test_a_new_store_does_not_say_that_it_is_complete_until_edged_does(tmp_path: Path) -> None:
    """And remembers it."""
    with node(tmp_path / "x.db") as bee:
        assert not is_complete(bee)
        bee.ask(META, client.record_completeness().message(bee.clock, ModuleName.EDGED))
        assert is_complete(bee)
    with node(tmp_path / "x.db") as bee:
        assert is_complete(bee)


def test_the_cloud_cannot_say_it(tmp_path: Path) -> None:
    """The note is this node's own affair."""
    with node(tmp_path / "x.db") as bee:
        for operation in (Operation.INSERT, Operation.UPDATE):
            bee.send(META, from_cloud(bee, "null/store/complete", operation, client.COMPLETE))
        assert not is_complete(bee)


@pytest.mark.parametrize("rows", [0, 1])
def test_a_file_of_an_earlier_version_is_complete_when_it_was_in_use(path: Path, rows: int) -> None:
    """Also one of KubeEdge's: its node keeps its pods."""
    with closing(sqlite3.connect(path)) as earlier:
        earlier.execute("CREATE TABLE meta (key text(256), type text(32), value text, PRIMARY KEY (key))")
        earlier.executemany("INSERT INTO meta VALUES (?, 'pod', '{}')", [(POD,)] * rows)
        earlier.commit()
    with closing(SqliteStore(path)) as store:
        assert len(store.get_all("store")) == rows


class _Asker(Module):
    """Asks as edged does, without blocking."""

    name = ModuleName.EDGED
    answers: list[Any] = []  # noqa: RUF012 - of the one instance

    @handles()
    def take(self, _message: Message) -> None:
        """Go."""
        meta = AsyncMetaClient(self)
        meta.store_is_complete(then=self.answers.append)
        meta.record_complete(then=self.answers.append)
        meta.store_is_complete(then=self.answers.append)
        meta.pod("default", "a", "uid-1", then=self.answers.append)


def test_the_client_asks_in_turns() -> None:
    _Asker.answers.clear()
    with node(beside=_Asker) as bee:
        bee.send(ModuleName.EDGED, bee.message("default/x/go", Operation.UPDATE))
        bee.settle()
        no, noted, yes, error = _Asker.answers
        assert (no, noted, yes) == (False, None, True)
        assert isinstance(error, NotConnectedError)
