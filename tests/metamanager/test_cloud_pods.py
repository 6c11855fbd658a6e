"""Pods that the cloud's list does not have: asked for one by one, and ended when the cloud does not know them."""

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any
from unittest.mock import patch

import pytest

from beehive import Group, Message, ModuleName, Operation
from beehive.testing import Harness
from metamanager.cloud_pods import absent
from metamanager.errors import StoreWriteError
from metamanager.module import MetaSettings
from metamanager.pod_list import AFTER_REGISTRATION, SHORTEST_INTERVAL
from metamanager.repeated_queries import FIRST_DELAY, LONGEST_DELAY
from metamanager.rows import StoredObject
from metamanager.sqlite_store import SqliteStore
from tests.metamanager.support import META, NOT_FOUND, connect, disconnect, from_cloud, reconnect, store_of, thing
from tests.metamanager.test_pod_list import DAYS, EDGED, HUB, A, answer_to, asking, listing, names, pod

SECONDS = MetaSettings("").remote_query_timeout
GONE: dict[str, Any] = {"Object": None, "Err": NOT_FOUND}
OTHER_UID = {"code": 409, "reason": "Conflict", "message": "Precondition failed: UID in precondition: a, UID in x: b"}
UNCHANGED_UID = {
    "code": 422,
    "reason": "Invalid",
    "message": 'Pod "a" is invalid: metadata.uid: Invalid value: "uid-a": field is immutable',
}
OTHER_VERSION = {"code": 409, "reason": "Conflict", "message": "the object has been modified; try again"}


class Cloud:
    """Answers for the list, and for single pods by name."""

    def __init__(self, bee: Harness, body: bytes) -> None:
        self._bee = bee
        self.body = body
        self.pods: dict[str, Callable[[Message], Message | None]] = {}
        """What else than NotFound is answered."""
        self.asked: list[tuple[str, str]] = []
        """Resources and uids."""
        bee.answer(HUB, self)

    def __call__(self, request: Message) -> Message | None:
        if request.route.source == ModuleName.METASERVER:
            return answer_to(self._bee, request, self.body)
        resource = request.route.resource
        is_query = request.route.operation == Operation.QUERY
        self.asked.append((resource, "" if is_query else json.loads(request.content_as(str))["metadata"]["uid"]))
        answer = self.pods.get(resource.rpartition("/")[2])
        return answer(request) if answer is not None else self.reply(request, GONE)

    def reply(self, request: Message, content: Any) -> Message:
        """As edgecontroller's."""
        return request.reply(self._bee.clock, content, source=ModuleName.EDGECONTROLLER)

    def says(self, name: str, content: Any) -> None:
        """The answer for a pod."""
        self.pods[name] = lambda request: self.reply(request, content)


@contextmanager
def a_node_with(*stored: Any, listed: bytes) -> Iterator[tuple[Harness, Cloud]]:
    """A node whose store has pods, and a cloud that gives a list; not connected yet."""
    with asking(connected=False) as bee:
        for each in stored:
            name = each["metadata"]["name"]
            bee.send(META, from_cloud(bee, f"default/pod/{name}", Operation.INSERT, each))
        bee.forget()
        yield bee, Cloud(bee, listed)


def test_a_pod_that_the_cloud_has_forgotten_ends_as_if_it_had_said_so() -> None:
    """edged hears which one by its uid; nothing is acknowledged, for nothing was delivered."""
    with a_node_with(pod("a"), pod("b"), listed=listing(pod("b"))) as (bee, cloud):
        connect(bee)
        assert cloud.asked == [("default/podpatch/a", "uid-a")]
        assert names(bee) == ["b"]
        deletion = bee.sent_to(EDGED)[-1]
        assert (deletion.route.operation, deletion.route.resource) == (Operation.DELETE, A)
        assert deletion.content_as(dict)["metadata"] == {"name": "a", "namespace": "default", "uid": "uid-a"}
        assert [each for each in bee.sent_to(HUB) if each.route.operation == Operation.RESPONSE] == []
        bee.run_for(DAYS)
        assert len(cloud.asked) == 1


@pytest.mark.parametrize(
    ("answer", "left"),
    [
        ({"Object": None, "Err": {"ErrStatus": OTHER_UID}}, []),
        ({"ErrStatus": {"code": 404, "reason": "NotFound", "message": "no"}}, []),
        ({"Object": None, "Err": {"ErrStatus": UNCHANGED_UID}}, []),
        ({"Object": None, "Err": {"ErrStatus": OTHER_VERSION}}, ["a"]),
        ({"ErrStatus": {"code": 422, "reason": "Invalid", "message": "spec: too many"}}, ["a"]),
        ({"Object": pod("a"), "Err": None}, ["a"]),
        ({"Object": None, "Err": {"ErrStatus": {"code": 403, "reason": "Forbidden"}}}, ["a"]),
        ({"Object": None, "Err": {"ErrStatus": {"code": 500, "reason": "InternalError"}}}, ["a"]),
        ({}, ["a"]),
        ("OK", ["a"]),
        ("pods a not found", ["a"]),
    ],
)
def test_only_an_answer_that_its_uid_is_gone_ends_a_pod(answer: Any, left: list[str]) -> None:
    with a_node_with(pod("a"), listed=listing()) as (bee, cloud):
        cloud.says("a", answer)
        connect(bee)
        assert names(bee) == left
        assert len(bee.sent_to(EDGED)) == 1 - len(left)


@pytest.mark.parametrize(
    "undecided",
    [
        None,
        {"Object": None, "Err": {"ErrStatus": {"code": 500, "reason": "InternalError", "message": "disk is full"}}},
        {"ErrStatus": {"code": 429, "reason": "TooManyRequests", "message": "later"}},
        {"Object": None, "Err": {"ErrStatus": OTHER_VERSION}},
    ],
    ids=["silence", "internal error", "too many requests", "conflict of versions"],
)
def test_a_pod_about_which_the_cloud_has_not_decided_is_queried_again(undecided: Any) -> None:
    """The others in between; ever more rarely, and until the cloud decides."""
    with a_node_with(pod("a"), pod("b"), listed=listing()) as (bee, cloud):
        cloud.pods["a"] = lambda request: None if undecided is None else cloud.reply(request, undecided)
        connect(bee, wait=SECONDS + FIRST_DELAY)
        assert cloud.asked[:2] == [("default/podpatch/a", "uid-a"), ("default/podpatch/b", "uid-b")]
        assert names(bee) == ["a"]
        bee.run_for(DAYS)
        assert DAYS / LONGEST_DELAY / 2 < len(cloud.asked) < DAYS / LONGEST_DELAY + 12
        cloud.pods.clear()
        bee.run_for(LONGEST_DELAY + SECONDS)
        assert names(bee) == []
        count = len(cloud.asked)
        bee.run_for(DAYS)
        assert len(cloud.asked) == count


def test_a_link_that_ends_ends_the_queries_until_the_next_list() -> None:
    held: list[Message] = []
    with a_node_with(pod("a"), listed=listing()) as (bee, cloud):
        cloud.pods["a"] = held.append
        connect(bee)
        disconnect(bee)
        bee.respond(cloud.reply(held[0], {"ErrStatus": {"code": 503, "reason": "ServiceUnavailable"}}), wait=DAYS)
        assert len(cloud.asked) == 1
        cloud.pods.clear()
        connect(bee)
        assert names(bee) == []


@pytest.mark.parametrize("metadata", [{"name": "a", "uid": "uid-a"}, {"name": "a"}], ids=["uid", "name alone"])
def test_a_pod_that_the_cloud_deletes_meanwhile_is_not_queried_again(metadata: dict[str, str]) -> None:
    held: list[Message] = []
    with a_node_with(pod("a"), listed=listing()) as (bee, cloud):
        cloud.pods["a"] = held.append
        connect(bee)
        bee.send(META, from_cloud(bee, A, Operation.DELETE, {"metadata": metadata}), wait=DAYS)
        assert len(cloud.asked) == 1


@pytest.mark.parametrize(
    "body",
    [
        listing(metadata={"continue": "token"}),
        listing(metadata={"remainingItemCount": 3}),
        b'{"kind": "Status"}',
        b"[]",
    ],
)
def test_a_list_that_leaves_some_out_ends_none(body: bytes) -> None:
    """One with more pages, or of a cloud that does not know all its objects yet. No list at all neither."""
    with a_node_with(pod("a"), listed=body) as (bee, cloud):
        connect(bee)
        assert (cloud.asked, names(bee)) == ([], ["a"])


def test_a_list_from_before_the_link_ended_ends_none() -> None:
    """Its pods are taken all the same, and the next one is asked for."""
    with asking() as bee:
        bee.send(META, from_cloud(bee, A, Operation.INSERT, pod("a")))
        request = bee.sent_to(HUB)[0]
        reconnect(bee)
        cloud = Cloud(bee, listing(pod("a"), pod("b")))
        bee.respond(answer_to(bee, request, listing(pod("b"))), wait=DAYS)
        assert (cloud.asked, names(bee)) == ([], ["a", "b"])


def test_pods_that_the_cloud_deletes_meanwhile_are_not_asked_for() -> None:
    """They are asked for one at a time."""
    held: list[Message] = []
    with a_node_with(pod("a"), pod("b"), pod("c"), listed=listing()) as (bee, cloud):
        cloud.pods["a"] = held.append
        connect(bee)
        assert [resource for resource, _ in cloud.asked] == ["default/podpatch/a"]
        bee.send(META, from_cloud(bee, "default/pod/b", Operation.DELETE, {"metadata": {"name": "b", "uid": "uid-b"}}))
        bee.send(META, from_cloud(bee, "default/pod/c", Operation.DELETE, {"metadata": {"name": "c", "uid": "other"}}))
        bee.respond(cloud.reply(held[0], GONE))
        assert [resource for resource, _ in cloud.asked] == ["default/podpatch/a", "default/podpatch/c"]
        assert names(bee) == []


def test_pods_that_a_newer_list_has_are_not_asked_for() -> None:
    held: list[Message] = []
    with a_node_with(pod("a"), pod("b"), listed=listing()) as (bee, cloud):
        cloud.pods["a"] = held.append
        connect(bee)
        cloud.body = listing(pod("b"))
        bee.send(META, from_cloud(bee, "default/node/n1", Operation.INSERT, thing("n1", uid="another")))
        bee.run_for(AFTER_REGISTRATION)
        bee.respond(cloud.reply(held[0], GONE))
        assert ("default/podpatch/b", "uid-b") not in cloud.asked
        assert names(bee) == ["b"]


def test_the_successor_of_a_name_is_not_ended() -> None:
    """Listed, it takes the place of the old one in the store, and edged ends that. Pushed while the old one is asked
    for, it stays.
    """
    successor = pod("a", uid="second", version=9)
    with a_node_with(pod("a"), listed=listing(successor)) as (bee, cloud):
        connect(bee)
        assert (cloud.asked, names(bee)) == ([], ["a"])
        assert [each.route.operation for each in bee.sent_to(EDGED)] == [Operation.UPDATE]
    held: list[Message] = []
    with a_node_with(pod("a"), listed=listing()) as (bee, cloud):
        cloud.pods["a"] = held.append
        connect(bee)
        bee.send(META, from_cloud(bee, A, Operation.INSERT, successor))
        bee.respond(cloud.reply(held[0], {"Object": None, "Err": {"ErrStatus": OTHER_UID}}))
        assert names(bee) == ["a"]
        deletion = bee.sent_to(EDGED)[-1]
        assert deletion.content_as(dict)["metadata"]["uid"] == "uid-a", "edged may have it yet"


def told_of_pods(bee: Harness) -> list[str]:
    """What edged was told, but that the store's disk is full or not."""
    return [each.route.operation for each in bee.sent_to(EDGED) if each.route.resource != "node/disk"]


def a_full_disk() -> AbstractContextManager[object]:
    """A disk on which nothing can be committed."""
    error = StoreWriteError("change the database", hint="disk full", batch_lost=True)
    return patch.object(SqliteStore, "commit", side_effect=error)


def test_a_pod_whose_end_is_not_durable_does_not_end_yet() -> None:
    with a_node_with(pod("a"), listed=listing()) as (bee, _):
        with a_full_disk():
            connect(bee)
            bee.settle()
        assert told_of_pods(bee) == []
        reconnect(bee, wait=DAYS)
        assert told_of_pods(bee) == [Operation.DELETE]


def test_which_stored_pods_are_absent() -> None:
    """By their uids; what cannot be read and what another node has is not asked for."""
    given = (pod("a"), pod("b"), pod("c", on="n2"), {"metadata": {"name": "d"}}, pod("e", on=""))
    texts = [json.dumps(each) for each in given]
    assert list(absent(["[", '"text"', *texts], frozenset({"uid-b"}), "n1")) == [
        StoredObject("pod", "default", name, f"uid-{name}") for name in "ae"
    ]


def test_what_pods_refer_to_is_compared_after_a_new_registration() -> None:
    """The cloud has forgotten what the node of the former Node object had. Only what it says is gone goes, and edged is
    told; what is forbidden stays, and the next list asks for nothing.
    """
    kinds = {"gone": "configmap", "there": "configmap", "forbidden": "secret", "claim": "persistentvolumeclaim"}
    with a_node_with(pod("a"), listed=listing(pod("a"))) as (bee, cloud):
        for name, kind in kinds.items():
            bee.send(META, from_cloud(bee, f"default/{kind}/{name}", Operation.INSERT, thing(name, uid=f"uid-{name}")))
        cloud.says("there", thing("there", uid="uid-there"))
        cloud.says("forbidden", {"ErrStatus": {"code": 403, "reason": "Forbidden"}})
        connect(bee)
        assert cloud.asked == [], "the node is not known to be another"
        bee.forget()
        bee.send(META, from_cloud(bee, "default/node/n1", Operation.INSERT, thing("n1", uid="another")))
        bee.run_for(SHORTEST_INTERVAL + AFTER_REGISTRATION)
        assert {resource.split("/")[2] for resource, _ in cloud.asked} == kinds.keys()
        left = [name for name, kind in kinds.items() if store_of(bee).get(f"default/{kind}/{name}") is not None]
        assert left == ["there", "forbidden"]
        acknowledged = [each.route.resource.split("/")[2] for each in bee.sent_to(Group.HUB) if each.parent_id]
        assert sorted(acknowledged) == sorted([*kinds, "n1"]), "or the cloud repeats its answers"
        deleted = [each.route.resource for each in bee.sent_to(EDGED) if each.route.operation == Operation.DELETE]
        assert deleted == ["default/configmap/gone", "default/persistentvolumeclaim/claim"]
        reconnect(bee, wait=DAYS)
        assert len(cloud.asked) == len(kinds)


@pytest.mark.parametrize("ends", [True, False], ids=["a link that ends", "a list that is not durable"])
def test_what_pods_refer_to_is_queried_until_the_cloud_has_decided(ends: bool) -> None:
    """The cloud tells nobody of a Secret that was deleted before it knew this node: the node would keep it."""
    with a_node_with(pod("a"), listed=listing(pod("a"))) as (bee, cloud):
        for name in ("x", "y"):
            bee.send(META, from_cloud(bee, f"default/secret/{name}", Operation.INSERT, thing(name, uid=f"uid-{name}")))
        cloud.pods["x"] = lambda _request: None
        connect(bee)
        bee.send(META, from_cloud(bee, "default/node/n1", Operation.INSERT, thing("n1", uid="another")))
        with nullcontext() if ends else a_full_disk():
            bee.run_for(SHORTEST_INTERVAL + AFTER_REGISTRATION)
        cloud.pods.clear()
        if ends:
            reconnect(bee)
        bee.run_for(DAYS)
        assert [store_of(bee).get(f"default/secret/{name}") for name in ("x", "y")] == [None, None]
        count = len(cloud.asked)
        reconnect(bee, wait=DAYS)
        assert len(cloud.asked) == count


def test_a_cloud_that_may_have_lost_its_objects_is_asked_for_nothing_that_pods_refer_to() -> None:
    with a_node_with(pod("a"), listed=listing(pod("a"), metadata={"remainingItemCount": 1})) as (bee, cloud):
        bee.send(META, from_cloud(bee, "default/configmap/x", Operation.INSERT, thing("x", uid="uid-x")))
        connect(bee)
        bee.send(META, from_cloud(bee, "default/node/n1", Operation.INSERT, thing("n1", uid="another")), wait=DAYS)
        assert cloud.asked == []
