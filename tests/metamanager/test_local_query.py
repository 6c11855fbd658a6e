"""Questions: from the store, from the cloud, and when the cloud is away."""

from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
import pytest

from beehive import Group, Message, ModuleName, Operation
from metamanager.errors import StoreDamagedError, StoreError
from metamanager.local_query import LocalQuery
from metamanager.rows import row_of
from tests.metamanager.support import (
    META,
    NOT_FOUND,
    cloud_answers,
    disconnect,
    from_cloud,
    from_edged,
    node,
    shape,
    store_of,
    thing,
)

HUB, EDGED, CLOUD = Group.HUB, ModuleName.EDGED, ModuleName.EDGEHUB
QUERY, INSERT, UPDATE, ERROR = Operation.QUERY, Operation.INSERT, Operation.UPDATE, Operation.ERROR
NOT_CONNECTED = "failed to process remote: not connected"


def test_pods_are_listed_over_all_namespaces() -> None:
    """As a list of strings, each the text that came, from metamanager; whatever namespace the question names."""
    with node(connected=True) as bee:
        for name in ("default", "kube-system"):
            bee.send(META, from_cloud(bee, f"{name}/pod/a", INSERT, thing(spec=name)))
        request = from_edged(bee, "default/pod", QUERY)
        answer = bee.ask(META, request)
        assert (answer.parent_id, answer.route.source, answer.route.group) == (request.id, META, Group.META)
        assert [name in text for name, text in zip(("default", "kube-system"), answer.content, strict=True)] == [
            True
        ] * 2


def test_a_sender_that_does_not_wait_gets_the_answer_in_its_inbox() -> None:
    """edged's first question for its pods is sent, not asked (KubeEdge's syncPod)."""
    with node() as bee:
        request = from_edged(bee, "default/pod", QUERY)
        bee.send(META, request)
        (answer,) = bee.sent_to(EDGED)
        assert (answer.parent_id, *shape(answer)) == (request.id, Operation.RESPONSE, "default/pod", [])


@pytest.mark.parametrize("connected", [True, False])
def test_a_stored_configmap_is_answered_without_the_cloud(connected: bool) -> None:
    """A pod must start as fast with a cloud as without."""
    with node(connected=connected) as bee:
        bee.send(META, from_cloud(bee, "default/configmap/a", INSERT, thing(data={"k": "v"})))
        bee.forget()
        answer = bee.ask(META, from_edged(bee, "default/configmap/a", QUERY), 1)
        assert '"k":"v"' in answer.content[0]
        assert bee.sent == []


@pytest.mark.parametrize(
    "resource", ["default/configmap/a", "default/secret/a", "null/node/a", "null/persistentvolume/a"]
)
def test_missing_objects_are_asked_of_the_cloud_kept_and_acknowledged(resource: str) -> None:
    """The question has an id of its own, the answer the requester's; the cloud's answer is acknowledged."""
    with node(connected=True) as bee:
        cloud_answers(bee, lambda _: thing(x=1))
        request = from_edged(bee, resource, QUERY)
        answer = bee.ask(META, request)
        assert (answer.parent_id, answer.content, answer.route.source) == (
            request.id, thing(x=1), ModuleName.EDGECONTROLLER,
        )  # fmt: skip
        bee.settle()
        (question,) = bee.sent_to(CLOUD)
        assert question.id != request.id
        assert (question.route, question.header.sync) == (request.route, True)
        (ok,) = bee.sent_to(HUB)
        assert (ok.parent_id, *shape(ok)) == (answer.id, Operation.RESPONSE, resource, "OK")
        disconnect(bee)
        assert '"x":1' in bee.ask(META, from_edged(bee, resource, QUERY), 1).content[0]


def test_an_object_that_came_wrapped_is_kept_bare() -> None:
    """KubeEdge's ObjectResp is passed on whole, its Object stored."""
    with node(connected=True) as bee:
        cloud_answers(bee, lambda _: {"Object": thing(x=1), "Err": None})
        answer = bee.ask(META, from_edged(bee, "null/node/a", INSERT, thing()))
        assert answer.content == {"Object": thing(x=1), "Err": None}
        bee.settle()
        assert '"x":1' in (store_of(bee).get("null/node/a") or "")


@pytest.mark.parametrize(
    "content",
    [NOT_FOUND, {"Object": None, "Err": NOT_FOUND}, {"Object": thing(), "Err": NOT_FOUND}, {}, "OK", "no", None],
)
def test_a_refusal_is_passed_on_and_never_stored(content: Any) -> None:
    """KubeEdge stores the bare form as if it were the object, and hands out an empty one."""
    with node(connected=True) as bee:
        cloud_answers(bee, lambda _: content)
        request = from_edged(bee, "default/configmap/a", QUERY)
        answer = bee.ask(META, request)
        assert (answer.parent_id, answer.content) == (request.id, content)
        bee.settle()
        assert store_of(bee).get("default/configmap/a") is None


@pytest.mark.parametrize(
    ("resource", "operation"),
    [("kube-node-lease/lease/a", QUERY), ("kube-node-lease/lease/a", UPDATE), ("kube-node-lease/lease/a", INSERT)],
)
def test_leases_are_always_the_clouds_and_never_kept(resource: str, operation: str) -> None:
    """They mean nothing without it."""
    with node(connected=True) as bee:
        cloud_answers(bee, lambda _: {"Object": thing(), "Err": None})
        assert bee.ask(META, from_edged(bee, resource, operation, thing())).content["Object"] == thing()
        bee.settle()
        assert store_of(bee).get(resource) is None


@pytest.mark.parametrize(
    ("resource", "operation"),
    [
        ("kube-node-lease/lease/a", QUERY),
        ("kube-node-lease/lease/a", UPDATE),
        ("null/node/a", INSERT),
        ("null/node/a", QUERY),
        ("default/configmap/a", QUERY),
        ("default/certificatesigningrequest/a", INSERT),
        ("default/serviceaccounttoken/default", QUERY),
        ("default/pod/a", Operation.DELETE),
    ],
)
def test_without_a_connection_missing_objects_are_refused_immediately(resource: str, operation: str) -> None:
    """The error answers the request itself, so that its waiter is released (KubeEdge's is not)."""
    with node() as bee:
        request = from_edged(bee, resource, operation, thing())
        answer = bee.ask(META, request, 1)
        assert (answer.parent_id, *shape(answer)) == (request.id, ERROR, resource, NOT_CONNECTED)
        assert bee.sent == []


def test_silence_of_the_cloud_is_an_error_answer_after_the_deadline() -> None:
    """After a minute the requester gets an error with its own id; a later answer finds no waiter."""
    with node(connected=True) as bee:
        request = from_edged(bee, "default/configmap/a", QUERY)
        future = bee.future(META, request, 100)
        bee.run_for(59)
        assert not future.settled
        bee.run_for(2)
        answer = future.get()
        assert (answer.parent_id, answer.route.operation) == (request.id, ERROR)
        assert answer.content.startswith("failed to process remote: no answer")


def test_silence_of_the_cloud_is_answered_from_the_store_where_it_can_be() -> None:
    """A node object of yesterday is better than none."""
    with node(connected=True) as bee:
        bee.send(META, from_cloud(bee, "null/node/a", UPDATE, thing(x=1)))
        answer = bee.ask(META, from_edged(bee, "null/node/a", QUERY), 100)
        assert '"x":1' in answer.content[0]


def test_a_lost_connection_ends_every_wait() -> None:
    """Nobody need wait for the deadline; a late answer is counted, not delivered twice."""
    with node(connected=True) as bee:
        futures = [bee.future(META, from_edged(bee, f"default/configmap/{name}", QUERY)) for name in "ab"]
        bee.settle()
        disconnect(bee)
        assert [future.get().content for future in futures] == [NOT_CONNECTED] * 2
        question = bee.sent_to(CLOUD)[0]
        bee.respond(question.reply(bee.clock, thing()))
        assert bee.hive.restarts()[META] == 0


def test_the_same_question_is_under_way_once() -> None:
    """Twenty pods that want one secret ask the cloud once, and all are answered."""
    with node(connected=True) as bee:
        requests = [from_edged(bee, "default/secret/pull", QUERY) for _ in range(20)]
        futures = [bee.future(META, request) for request in requests]
        bee.settle()
        (question,) = bee.sent_to(CLOUD)
        bee.hive.respond(question.reply(bee.clock, thing()))
        assert [future.get().parent_id for future in futures] == [request.id for request in requests]
        bee.settle()
        assert len(bee.sent_to(HUB)) == 1
        assert len(bee.sent_to(CLOUD)) == 1


def test_a_state_that_the_cloud_has_pushed_meanwhile_is_the_answer_if_it_is_newer() -> None:
    """The cloud read its answer before, and edged already has the newer state; a registration gets its own answer."""
    with node(connected=True) as bee:
        asked = [bee.future(META, from_edged(bee, "default/configmap/a", QUERY)) for _ in range(2)]
        registered = bee.future(META, from_edged(bee, "null/node/a", INSERT, thing()))
        bee.settle()
        question, registration = bee.sent_to(CLOUD)
        for resource in ("default/configmap/a", "null/node/a"):
            bee.send(META, from_cloud(bee, resource, UPDATE, thing(version=2)))
        bee.hive.respond(question.reply(bee.clock, thing(version=1)))
        bee.respond(registration.reply(bee.clock, {"Object": thing(version=1), "Err": None}))
        for future in asked:
            (answer,) = future.get().content
            assert '"resourceVersion":"2"' in answer
        assert registered.get().content == {"Object": thing(version=1), "Err": None}
        assert '"resourceVersion":"2"' in (store_of(bee).get("default/configmap/a") or "")


def test_a_question_with_a_content_is_another_one_and_its_answer_ends_no_other() -> None:
    """It names the uid of a pod: two pods of one name one after the other are two questions."""
    with node(connected=True) as bee:
        contents = (None, {"metadata": {"uid": "one"}}, {"metadata": {"uid": "other"}})
        futures = [bee.future(META, from_edged(bee, "default/pod/p", QUERY, content)) for content in contents]
        bee.settle()
        plain, one, _ = bee.sent_to(CLOUD)
        bee.respond(one.reply(bee.clock, thing("p")))
        assert [future.settled for future in futures] == [False, True, False]
        futures.append(bee.future(META, from_edged(bee, "default/pod/p", QUERY)))
        bee.settle()
        assert len(bee.sent_to(CLOUD)) == 3
        bee.respond(plain.reply(bee.clock, thing("p")))
        assert [future.settled for future in futures] == [True, True, False, True]


def test_a_registration_goes_on_when_the_deletion_of_the_earlier_node_comes() -> None:
    """Only queries end: their answers may be older than the deletion."""
    with node(connected=True) as bee:
        future = bee.future(META, from_edged(bee, "default/node/n", INSERT, thing("n")))
        bee.settle()
        (request,) = bee.sent_to(CLOUD)
        bee.send(META, from_cloud(bee, "default/node/n", Operation.DELETE, thing("n", uid="former")))
        assert not future.settled
        bee.hive.respond(request.reply(bee.clock, "OK"))
        assert future.get().content == "OK"


def test_the_last_deletions_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("metamanager.local_query._REMEMBERED", 2)
    query, names = LocalQuery(mock.Mock(), mock.Mock()), "abc"
    for name in names:
        query.record_deletion(f"default/configmap/{name}", "uid-1")
    rows = [row_of(f"default/configmap/{name}", msgspec.json.encode(thing(name)), 0) for name in names]
    assert [query.was_deleted(row) for row in rows] == [False, True, True]
    assert not query.was_deleted(msgspec.structs.replace(rows[-1], uid="uid-2")), "a new object of the name"


def test_an_error_message_of_the_cloud_is_passed_on() -> None:
    """Not stored, not acknowledged."""
    with node(connected=True) as bee:
        bee.answer(CLOUD, lambda question: question.error(bee.clock, "forbidden"))
        answer = bee.ask(META, from_edged(bee, "default/configmap/a", QUERY))
        assert shape(answer) == (ERROR, "default/configmap/a", "forbidden")
        assert bee.sent_to(HUB) == []


def test_a_refused_question_that_was_sent_goes_to_edgeds_inbox() -> None:
    """Who does not wait is answered all the same."""
    with node() as bee:
        bee.send(META, from_edged(bee, "default/configmap/a", QUERY))
        assert [shape(sent) for sent in bee.sent_to(EDGED)] == [(ERROR, "default/configmap/a", NOT_CONNECTED)]


def token_request(audience: str = "a", uid: str = "pod-1") -> dict[str, Any]:
    return {"spec": {"audiences": [audience], "expirationSeconds": 3607, "boundObjectRef": {"uid": uid}}}


def token(question: Message, expires: str = "2999-01-01T00:00:00Z") -> dict[str, Any]:
    return {**question.content_as(dict), "status": {"token": "abc", "expirationTimestamp": expires}}


def test_a_token_is_kept_for_the_same_request_until_its_pod_goes() -> None:
    """While the cloud is away the same pod gets it again, another request does not; with the pod it is deleted."""
    resource = "default/serviceaccounttoken/default"
    with node(connected=True) as bee:
        cloud_answers(bee, token)
        bee.ask(META, from_edged(bee, resource, QUERY, token_request()))
        bee.settle()
        disconnect(bee)
        assert "abc" in bee.ask(META, from_edged(bee, resource, QUERY, token_request()), 1).content[0]
        for other in (token_request(audience="b"), token_request(uid="pod-2")):
            assert bee.ask(META, from_edged(bee, resource, QUERY, other), 1).content == NOT_CONNECTED
        bee.send(META, from_cloud(bee, "default/pod/a", Operation.DELETE, thing(uid="pod-1")))
        assert bee.ask(META, from_edged(bee, resource, QUERY, token_request()), 1).content == NOT_CONNECTED


@pytest.mark.parametrize(("expires", "is_given"), [("2001-01-01T00:00:00Z", True), ("soon", False), ("", False)])
def test_an_expired_token_is_handed_out_without_a_cloud_only(expires: str, is_given: bool) -> None:
    """A pod that needs one starts all the same, and its node asks for another one as soon as it can."""
    resource = "default/serviceaccounttoken/default"
    with node(connected=True) as bee:
        asked = []

        def answer(question: Message) -> dict[str, Any]:
            asked.append(question)
            return token(question, expires)

        cloud_answers(bee, answer)
        for _ in range(2):
            bee.ask(META, from_edged(bee, resource, QUERY, token_request()))
            bee.settle()
        assert len(asked) == 2
        disconnect(bee)
        found = bee.ask(META, from_edged(bee, resource, QUERY, token_request()), 1).content
        assert ("abc" in found[0], found == NOT_CONNECTED) == (is_given, not is_given)


def test_the_ca_certificate_is_kept_as_text() -> None:
    """`k8s/ca.crt` is answered with a string."""
    pem = "-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----\n"
    with node(connected=True) as bee:
        cloud_answers(bee, lambda _: pem)
        assert bee.ask(META, from_edged(bee, "k8s/ca.crt", QUERY)).content == pem
        bee.settle()
        disconnect(bee)
        assert bee.ask(META, from_edged(bee, "k8s/ca.crt", QUERY), 1).content == [pem]


def test_an_answer_that_cannot_be_kept_is_passed_on_without_an_acknowledgement(tmp_path: Path) -> None:
    """A full disk must not keep a pod from its configmap; the cloud is not told that the node has it."""
    with node(tmp_path / "edgecore.db", connected=True) as bee:
        store_of(bee)._connection.execute("PRAGMA max_page_count=6")
        cloud_answers(bee, lambda _: thing(data="x" * 100_000))
        assert bee.ask(META, from_edged(bee, "default/configmap/a", QUERY)).content["data"]
        bee.settle()
        assert bee.sent_to(HUB) == []


@pytest.mark.parametrize(
    ("error", "restarts"),
    [(StoreError("read the database", "f", "disk I/O error"), 0), (StoreDamagedError("read the database", "f"), 1)],
)
def test_who_asked_has_the_answer_also_when_the_store_fails_at_it(error: StoreError, restarts: int) -> None:
    """Immediately, not at its deadline; a spoilt store is opened again after that."""

    def fail(_: object) -> bool:
        raise error

    with node(connected=True) as bee:
        bee.expect_failures()
        store_of(bee).put = fail  # type: ignore[assignment,method-assign]
        cloud_answers(bee, lambda _: thing(x=1))
        assert bee.ask(META, from_edged(bee, "default/configmap/a", QUERY), 1).content == thing(x=1)
        bee.run_for(10)
        assert bee.hive.restarts()[META] == restarts
        assert bee.sent_to(HUB) == []


def test_nothing_is_deleted_again_from_a_store_that_turns_out_damaged() -> None:
    with node(connected=True) as bee:
        bee.expect_failures()
        bee.send(META, from_cloud(bee, "default/configmap/a", "insert", thing()))
        store = store_of(bee)
        failure = StoreDamagedError("write to the database", "f")
        put = mock.patch.object(store, "put", side_effect=failure)
        with put, mock.patch.object(store, "delete", wraps=store.delete) as delete:
            bee.hive.send(META, from_cloud(bee, "default/configmap/a", "delete"))
            bee.hive.send(META, from_cloud(bee, "default/configmap/b", "insert", thing("b")))
            bee.run_for(10)
        assert bee.hive.restarts()[META] == 1
        assert delete.call_count == 1


@pytest.mark.parametrize("content", [None, 3, {"a": 1}])
def test_a_malformed_connection_event_changes_nothing(content: Any) -> None:
    """It is logged; the module lives on, not connected."""
    with node() as bee:
        bee.send(META, bee.message("node/connection", Operation.CONNECT, content, source="edgehub"))
        assert bee.ask(META, from_edged(bee, "null/node/a", QUERY), 1).content == NOT_CONNECTED
        assert bee.hive.restarts()[META] == 0


@pytest.mark.parametrize(
    ("reason", "answer"),
    [
        ("cannot send: not connected to the cloud", NOT_CONNECTED),
        ("the message is too large", "the message is too large"),
    ],
)
def test_what_could_not_leave_the_node_is_answered_from_the_store_where_it_can_be(reason: str, answer: str) -> None:
    """The link may have ended just before; else the sender gets edgehub's reason."""
    with node(connected=True) as bee:
        bee.send(META, from_cloud(bee, "null/node/a", UPDATE, thing(x=1)))
        bee.answer(CLOUD, lambda question: question.error(bee.clock, reason, source="edgehub", group="resource"))
        assert '"x":1' in bee.ask(META, from_edged(bee, "null/node/a", QUERY), 1).content[0]
        refused = bee.ask(META, from_edged(bee, "default/configmap/a", QUERY), 1)
        assert (refused.route.operation, refused.content) == (ERROR, answer)
