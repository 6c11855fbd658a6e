"""The list of the node's pods: asked for in a metaserver's words when the cloud comes, taken as if pushed."""

import base64
import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from beehive import Group, Message, ModuleName, Operation
from beehive.names import DISK_RESOURCE
from beehive.testing import Harness
from metamanager.batch import Batch
from metamanager.errors import StoreWriteError
from metamanager.pod_list import (
    AFTER_REGISTRATION,
    BYTES_A_SECOND,
    FIRST_DELAY,
    MOST_TRIES,
    RETRY_SECONDS,
    SHORTEST_INTERVAL,
    may_replace,
    pods_in,
    request_of,
)
from metamanager.sqlite_store import SqliteStore
from modules.apimachinery.application import Application, Progress, StatusError
from tests.metamanager.support import (
    META,
    NOT_FOUND,
    cloud_answers,
    connect,
    disconnect,
    from_cloud,
    from_edged,
    node,
    reconnect,
    store_of,
    thing,
)

HUB, EDGED = ModuleName.EDGEHUB, ModuleName.EDGED
A, B = "default/pod/a", "default/pod/b"
DAYS = 3 * 86400.0


def pod(name: str = "a", *, on: str = "n1", **fields: Any) -> dict[str, Any]:
    """A pod of a node."""
    return thing(name, **{"uid": f"uid-{name}", "spec": {"nodeName": on}, **fields})


def listing(*pods: Any, **fields: Any) -> bytes:
    """The body of an answer, as an API server's."""
    return json.dumps({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": pods, **fields}).encode()


def answer_to(bee: Harness, request: Message, body: bytes | None, **fields: Any) -> Message:
    """dynamiccontroller's, as it arrives at the node (docs/protocol.md, "Applications")."""
    app = request.content_as(Application)
    given = {key: getattr(app, key) for key in app.__struct_fields__}
    content = Application(**{**given, "status": Progress.APPROVED, "resp_body": body, **fields})
    reply = request.reply(bee.clock, content, source=ModuleName.DYNAMICCONTROLLER)
    where = {"group": Group.RESOURCE, "operation": Operation.APPLICATION_RESPONSE}
    return reply.with_route(resource="ignore/Application/ignore", **where)


@contextmanager
def asking(path: Path | None = None, *, connected: bool = True) -> Iterator[Harness]:
    """metamanager of node n1."""
    with node(path, name="n1", connected=connected) as bee:
        yield bee


@contextmanager
def told(*pods: Any, path: Path | None = None) -> Iterator[Harness]:
    """The same, and the cloud answers with these pods."""
    with asking(path, connected=False) as bee:
        bee.answer(HUB, lambda request: answer_to(bee, request, listing(*pods)))
        connect(bee)
        yield bee


def answers_with(bee: Harness, request: Message, *listed: Any) -> Message | None:
    """The cloud's answer to the question for the list; to others none."""
    is_list = request.route.source == ModuleName.METASERVER
    return answer_to(bee, request, listing(*listed)) if is_list else None


def asked(bee: Harness) -> list[Message]:
    """What the cloud was asked."""
    return [each for each in bee.sent_to(HUB) if each.route.source == ModuleName.METASERVER]


def names(bee: Harness) -> list[str]:
    """The pods in the store."""
    return [json.loads(text)["metadata"]["name"] for text in store_of(bee).get_all("pod")]


def test_the_question_is_a_metaservers() -> None:
    """Byte for byte what a Go edge would write for `kubectl get pods -A --field-selector spec.nodeName=n1`;
    docs/protocol.md, "Asking for pods".
    """
    with asking() as bee:
        (request,) = asked(bee)
        route = request.route
        assert (route.source, route.group, route.resource, route.operation) == (
            "metaserver", "dynamiccontroller", "null", "null",
        )  # fmt: skip
        content = json.loads(bytes(request.content_raw()))
        assert (content["Key"], content["Verb"], content["Nodename"]) == ("/core/v1/pods/null/null", "list", "n1")
        assert base64.b64decode(content["Option"]) == b'{"fieldSelector":"spec.nodeName=n1"}'
        assert (content["ReqBody"], content["Status"], len(content["ID"])) == (None, "InApplying", 64)


def test_a_node_without_a_name_does_not_ask() -> None:
    with node(connected=True) as bee:
        assert bee.sent_to(HUB) == []


def test_listed_pods_are_stored_and_forwarded_as_if_pushed() -> None:
    """Each pod as it stands in the list; nothing is acknowledged, for nothing was delivered."""
    with told(pod("a", version=7), pod("b")) as bee:
        assert names(bee) == ["a", "b"]
        first, second = bee.sent_to(EDGED)
        assert (first.route.resource, second.route.resource) == (A, B)
        assert (first.route.operation, first.route.source, first.route.group) == (
            "update",
            "edgecontroller",
            "resource",
        )
        assert (first.header.resourceversion, first.parent_id) == ("7", "")
        assert first.content_as(dict) == pod("a", version=7)
        assert len(bee.sent_to(HUB)) == 1


def test_the_list_is_requested_at_each_connection_within_a_rate(tmp_path: Path) -> None:
    """A link that comes and goes does not carry all pods each time. A new process asks immediately."""
    with told(pod(), path=tmp_path / "x.db") as bee:
        for _ in range(10):
            reconnect(bee, wait=SHORTEST_INTERVAL / 11)
        assert len(asked(bee)) == 1
        bee.run_for(SHORTEST_INTERVAL)
        assert len(asked(bee)) == 2
        bee.run_for(DAYS)
        assert len(asked(bee)) == 2, "a link that holds needs no second list"
        reconnect(bee)
        assert len(asked(bee)) == 3
    with asking(tmp_path / "x.db") as bee:
        assert len(asked(bee)) == 1


def test_a_list_that_is_long_is_asked_for_less_often() -> None:
    """A thin link has other things to carry."""
    long = [pod(f"p{number}", note="x" * 6000) for number in range(100)]
    apart = len(listing(*long)) / BYTES_A_SECOND
    assert apart > 290
    with told(*long) as bee:
        reconnect(bee, wait=apart - 1)
        assert len(asked(bee)) == 1
        bee.run_for(2)
        assert len(asked(bee)) == 2


def this_node(uid: str) -> dict[str, Any]:
    """The Node object."""
    return {"metadata": {"name": "n1", "uid": uid, "resourceVersion": "1"}}


@pytest.mark.parametrize("resource", ["null/node/n1", "default/node/n1"])
def test_it_is_asked_when_the_node_has_registered_again(tmp_path: Path, resource: str) -> None:
    """KubeEdge drops pods that are bound to a node before it knows the node. A repeated Node object, another node's, or
    one after a restart is not a new registration. One after its deletion is, also with its former uid, from a backup.
    """
    with told(path=tmp_path / "x.db") as bee:
        bee.send(META, from_cloud(bee, resource, Operation.UPDATE, this_node("first")), wait=AFTER_REGISTRATION - 1)
        assert len(asked(bee)) == 1
        bee.run_for(2)
        assert len(asked(bee)) == 2
        bee.send(META, from_cloud(bee, resource, Operation.UPDATE, this_node("first")))
        bee.send(META, from_cloud(bee, "null/node/n2", Operation.UPDATE, this_node("other")), wait=DAYS)
        assert len(asked(bee)) == 2
        bee.send(META, from_cloud(bee, resource, Operation.DELETE))
        for number, uid in ((3, "first"), (4, "second"), (4, "second")):
            bee.send(META, from_cloud(bee, resource, Operation.UPDATE, this_node(uid)), wait=DAYS)
            assert len(asked(bee)) == number
    with told(path=tmp_path / "x.db") as bee:
        bee.send(META, from_cloud(bee, resource, Operation.UPDATE, this_node("second")), wait=DAYS)
        assert len(asked(bee)) == 1


@pytest.mark.parametrize("body", [listing(), b"no list"])
def test_a_node_that_registers_during_a_list_asks_for_another_one(body: bytes) -> None:
    """KubeEdge's cloud may have made, or refused, the first one before it knew the node."""
    with asking() as bee:
        reconnect(bee)
        bee.send(META, from_cloud(bee, "null/node/n1", Operation.UPDATE, this_node("first")))
        bee.respond(answer_to(bee, asked(bee)[0], body), wait=AFTER_REGISTRATION - 1)
        assert len(asked(bee)) == 1
        bee.run_for(2)
        assert len(asked(bee)) == 2


def test_a_registration_counts_when_the_cloud_confirms_it_and_not_when_it_refuses() -> None:
    """The answer to edged's insert; twice, while the list is under way."""
    with asking() as bee:
        contents = iter([{"Object": None, "Err": NOT_FOUND}, {"Object": this_node("first"), "Err": None}])
        for waited in (DAYS, AFTER_REGISTRATION + 1):
            cloud_answers(bee, lambda _: next(contents))
            bee.ask(META, from_edged(bee, "null/node/n1", Operation.INSERT, {"metadata": {"name": "n1"}}))
            bee.answer(HUB, lambda request: answer_to(bee, request, listing()))
            before = len(asked(bee))
            bee.run_for(waited)
        assert len(asked(bee)) == before + 1


def test_an_empty_list_is_one_too(tmp_path: Path) -> None:
    """As a node that is new gets it; a Go list without items has null in their place."""
    for number, body in enumerate((listing(), listing(items=None))):
        with asking(tmp_path / f"{number}.db") as bee:
            bee.respond(answer_to(bee, asked(bee)[0], body), wait=DAYS)
            assert len(asked(bee)) == 1
            assert bee.sent_to(EDGED) == []


def test_newer_states_in_the_store_are_not_undone() -> None:
    """Neither is a newer state replaced, nor another pod of the name that is newer, nor what the list does not have
    removed. An older state, and an older pod, give way.
    """
    had = {
        "a": pod("a", version=5),
        "b": pod("b", version=9, uid="again"),
        "c": pod("c", version=2),
        "d": pod("d", version=2, uid="before"),
        "e": pod("e"),
    }
    listed = (pod("a", version=4), pod("b", version=8), pod("c", version=3), pod("d", version=3))
    with asking(connected=False) as bee:
        bee.answer(HUB, lambda request: answers_with(bee, request, *listed))
        for name, each in had.items():
            bee.send(META, from_cloud(bee, f"default/pod/{name}", Operation.INSERT, each))
        bee.forget()
        connect(bee)
        now = {each["metadata"]["name"]: each for each in map(json.loads, store_of(bee).get_all("pod"))}
        assert now == {**had, "c": listed[2], "d": listed[3]}
        assert [each.route.resource for each in bee.sent_to(EDGED)] == ["default/pod/c", "default/pod/d"]


@pytest.mark.parametrize(
    ("deleted", "left"), [({"uid": "uid-a"}, ["b"]), ({}, ["b"]), ({"uid": "one-before"}, ["a", "b"])]
)
def test_a_deletion_overtakes_the_list(deleted: dict[str, str], left: list[str]) -> None:
    """A real cloudcore writes answers and objects in two loops. Without a uid whichever pod of the name is meant."""
    with asking() as bee:
        bee.send(META, from_cloud(bee, A, Operation.DELETE, {"metadata": {"name": "a", **deleted}}))
        bee.respond(answer_to(bee, asked(bee)[0], listing(pod("a"), pod("b"))))
        assert names(bee) == left


def test_each_deletion_during_the_list_overtakes_it() -> None:
    with asking() as bee:
        for name in "ab":
            deleted = {"metadata": {"name": name, "uid": f"uid-{name}"}}
            bee.send(META, from_cloud(bee, f"default/pod/{name}", Operation.DELETE, deleted))
        bee.respond(answer_to(bee, asked(bee)[0], listing(pod("a"), pod("b"), pod("c"))))
        assert names(bee) == ["c"]


def test_deletions_from_before_the_request_are_ignored(tmp_path: Path) -> None:
    """What the list has then was made after that."""
    with asking(tmp_path / "x.db", connected=False) as bee:
        bee.send(META, from_cloud(bee, A, Operation.DELETE, {"metadata": {"name": "a"}}))
        connect(bee)
        bee.respond(answer_to(bee, asked(bee)[0], listing(pod())))
        assert names(bee) == ["a"]


def test_a_silent_cloud_is_asked_some_times_and_no_more(caplog: pytest.LogCaptureFixture) -> None:
    """For any changes of the link meanwhile; one line in the log. The node still does its work."""
    with caplog.at_level(logging.WARNING), asking() as bee:
        for _ in range(MOST_TRIES + 3):
            reconnect(bee, wait=DAYS)
        assert len(asked(bee)) == MOST_TRIES
        bee.send(META, from_cloud(bee, A, Operation.INSERT, pod()))
        assert names(bee) == ["a"]
        bee.send(META, from_cloud(bee, "null/node/n1", Operation.UPDATE, this_node("first")))
        bee.run_for(AFTER_REGISTRATION + 1)
        assert len(asked(bee)) == MOST_TRIES + 1, "a new registration is another matter"
    assert len([record for record in caplog.records if "dynamicController" in record.message]) == 1


REFUSALS: list[Callable[[Harness, Message], Message]] = [
    lambda bee, request: answer_to(bee, request, None, status=Progress.REJECTED, reason="forbidden"),
    lambda bee, request: answer_to(bee, request, None, status=Progress.REJECTED, error=StatusError({"code": 403})),
    lambda bee, request: answer_to(bee, request, b"[]"),
    lambda bee, request: answer_to(bee, request, b'{"kind": "Status"}'),
    lambda bee, request: answer_to(bee, request, None),
    lambda bee, request: request.reply(bee.clock, "OK"),
    lambda bee, request: request.error(bee.clock, "no", source=ModuleName.DYNAMICCONTROLLER),
    lambda bee, request: request.error(bee.clock, "an answer of 99 bytes does not fit", source=HUB),
]


@pytest.mark.parametrize("refuse", REFUSALS)
def test_a_refusal_is_no_list(refuse: Callable[[Harness, Message], Message]) -> None:
    """It is asked again later, and a list that comes then is taken."""
    with asking(connected=False) as bee:
        bee.answer(HUB, lambda request: refuse(bee, request))
        connect(bee, wait=FIRST_DELAY - 1)
        assert (len(asked(bee)), bee.sent_to(EDGED)) == (1, [])
        bee.answer(HUB, lambda request: answer_to(bee, request, listing(pod())))
        bee.run_for(2)
        assert (len(asked(bee)), names(bee)) == (2, ["a"])


def test_pauses_grow_and_deletions_during_an_earlier_try_do_not_count() -> None:
    """A pod of the name was deleted while the first try was under way; what the third brings was made after that."""
    with asking() as bee:
        bee.send(META, from_cloud(bee, A, Operation.DELETE, {"metadata": {"name": "a"}}))
        bee.hive.respond(REFUSALS[0](bee, asked(bee)[0]))
        bee.answer(HUB, lambda request: REFUSALS[0](bee, request))
        bee.run_for(FIRST_DELAY + 1)
        assert len(asked(bee)) == 2
        bee.answer(HUB, lambda request: answer_to(bee, request, listing(pod())))
        bee.run_for(2 * FIRST_DELAY - 2)
        assert len(asked(bee)) == 2
        bee.run_for(2)
        assert (len(asked(bee)), names(bee)) == (3, ["a"])
        bee.run_for(SHORTEST_INTERVAL)
        bee.answer(HUB, lambda request: REFUSALS[0](bee, request))
        reconnect(bee, wait=FIRST_DELAY + 1)
        assert len(asked(bee)) == 5, "after a list the pauses begin anew"


def test_a_link_that_ends_is_not_the_clouds_refusal() -> None:
    """Whatever number of links it takes."""
    with asking(connected=False) as bee:
        text = "the connection ended: whether it arrived is not known"
        bee.answer(HUB, lambda request: request.error(bee.clock, text, source=HUB))
        connect(bee, wait=2 * RETRY_SECONDS * MOST_TRIES)
        assert len(asked(bee)) > MOST_TRIES
        disconnect(bee)
        bee.forget()
        bee.run_for(DAYS)
        assert asked(bee) == []
        bee.answer(HUB, lambda request: answer_to(bee, request, listing(pod())))
        connect(bee)
        assert names(bee) == ["a"]


@pytest.mark.parametrize("call", ["put", "commit", "get"])
def test_a_store_that_fails_is_tried_again(call: str) -> None:
    """A pod that is not durable is forwarded to nobody, and the list counts as failed."""
    error = StoreWriteError("change the database", hint="disk full", batch_lost=True)
    with asking(connected=False) as bee:
        bee.answer(HUB, lambda request: answer_to(bee, request, listing(pod("a"), pod("b"))))
        with patch.object(SqliteStore, call, side_effect=error):
            connect(bee)
            bee.settle()
            assert {each.route.resource for each in bee.sent_to(EDGED)} <= {DISK_RESOURCE}
        bee.forget()
        bee.run_for(RETRY_SECONDS + 1)
        assert names(bee) == ["a", "b"]
        assert [each.route.resource for each in bee.sent_to(EDGED)] == [A, B]


def test_the_module_asks_again_after_a_failure_of_its_own() -> None:
    """What was under way is lost with it."""
    with asking() as bee:
        bee.expect_failures()
        with patch.object(Batch, "add", side_effect=RuntimeError("a bug")):
            bee.send(META, from_cloud(bee, B, Operation.INSERT, pod("b")))
        bee.run_for(5)
        assert bee.hive.restarts()[META] >= 1
        bee.respond(answer_to(bee, asked(bee)[-1], listing(pod())))
        assert "a" in names(bee)


@pytest.mark.parametrize(
    "item",
    [
        pod(on="n2"),
        {**pod(), "spec": {}},
        {"metadata": pod()["metadata"]},
        {"spec": {"nodeName": "n1"}},
        pod(uid=""),
        pod(name="../a"),
        pod(name=""),
        {**pod(), "metadata": {**pod()["metadata"], "namespace": "a/b"}},
        "a",
        None,
    ],
)
def test_pods_of_other_nodes_are_left_out(item: Any) -> None:
    """A cloud that does not know the selector lists the pods of all nodes."""
    with Harness() as bee:
        found = pods_in(answer_to(bee, request_from(bee), listing(item, pod("b"))), "n1").pods
    assert [each.key for each in found] == [B]


def test_a_pod_that_is_not_text_is_not_read() -> None:
    with Harness() as bee:
        broken = listing(pod()).replace(b'"uid-a"', b'"uid-\xff"')
        assert pods_in(answer_to(bee, request_from(bee), broken), "n1").pods == []


@pytest.mark.parametrize(
    ("uid", "version", "expected"),
    [
        ("u", "1", True), ("u", "9", True), ("other", "4", True), ("other", "5", False), ("other", "6", False),
        ("other", "", True),
    ],
)  # fmt: skip
def test_which_may_be_replaced(uid: str, version: str, *, expected: bool) -> None:
    """Of one pod the store knows which state is newer; another pod of its name gives way when it is older."""
    stored = json.dumps({"metadata": {"uid": uid, "resourceVersion": version}})
    with Harness() as bee:
        (listed,) = pods_in(answer_to(bee, request_from(bee), listing(pod(uid="u", version=5))), "n1").pods
    assert may_replace(listed, stored) is expected
    assert may_replace(listed, None)


def request_from(bee: Harness) -> Message:
    """The question, as a message."""
    return bee.message("null", "null", request_of("n1"), source=ModuleName.METASERVER)
