"""Deletions of large collections, in parts."""

from collections.abc import Iterator
from typing import Any

import pytest
from pykka import Future

from beehive.errors import RequestLostError
from beehive.message import Message
from beehive.testing import Harness
from modules.apimachinery.kinds import JsonObject, ObjectKey, kind_named
from modules.cloud.api_messages import MODULE, RESOURCE, SOURCE, Verb
from modules.cloud.apiserver.collection_deletions import PART
from modules.cloud.client.calls import ApiCall, ApiResult
from tests.modules.cloud.apiserver.test_module import Server
from tests.modules.cloud.objects import configmap, in_memory
from tests.support.presence import present

MANY = 2 * PART + 50


@pytest.fixture
def server() -> Iterator[Server]:
    with Harness() as bee:
        made = Server(bee)
        for number in range(MANY):
            made.cluster.create(configmap(f"c{number:03}"))
        yield made


def send(server: Server, verb: str, name: str = "", **fields: Any) -> Future[Message]:
    call = ApiCall(**{"verb": verb, "api_version": "v1", "plural": "configmaps", "namespace": "default", "name": name}
                   | fields)  # fmt: skip
    return server.bee.future(MODULE, server.bee.message(RESOURCE, Verb.CALL, call, source=SOURCE))


def result_of(answer: Future[Message]) -> ApiResult:
    return answer.get().content_as(ApiResult)


def left(server: Server) -> list[str]:
    found = (obj["metadata"]["name"] for obj in server.cluster.storage.list(kind_named("ConfigMap"), "default"))
    return sorted(name for name in found if name.startswith("c"))


def items(result: ApiResult) -> list[JsonObject]:
    assert result.object is not None, result.refusal
    found: list[JsonObject] = result.object["items"]
    return found


def test_others_are_served_between_the_parts(server: Server) -> None:
    deletion = send(server, "deletecollection")
    last = result_of(send(server, "get", f"c{MANY - 1:03}"))
    assert last.object is not None, "it is answered before the last part"
    assert len(items(result_of(deletion))) == MANY
    assert left(server) == []


def test_two_collections_take_turns(server: Server) -> None:
    for number in range(MANY):
        server.cluster.create({**configmap(f"o{number:03}"), "metadata": {"name": f"o{number:03}", "namespace": "ns"}})
    first, second = send(server, "deletecollection"), send(server, "deletecollection", namespace="ns")
    assert [len(items(result_of(each))) for each in (second, first)] == [MANY, MANY]


def test_objects_made_again_or_deleted_meanwhile_stay_so(server: Server) -> None:
    deletion = send(server, "deletecollection")
    gone, again = (f"c{MANY - number:03}" for number in (1, 2))
    others = [send(server, "delete", name) for name in (gone, again)]
    others.append(send(server, "create", body=configmap(again)))
    assert [result_of(each).refusal for each in others] == [None] * 3
    assert len(items(result_of(deletion))) == MANY - 2
    assert left(server) == [again]


def test_a_dry_run_deletes_nothing(server: Server) -> None:
    deletion = send(server, "deletecollection", options={"dryRun": ["All"]})
    assert len(items(result_of(deletion))) == MANY
    assert len(left(server)) == MANY


def test_preconditions_hold_for_each_object(server: Server) -> None:
    uid = server.cluster.storage.get(ObjectKey("ConfigMap", "default", "c000"))["metadata"]["uid"]
    refusal = present(result_of(send(server, "deletecollection", options={"preconditions": {"uid": uid}})).refusal)
    assert (refusal["code"], len(left(server))) == (409, MANY - 1), "nothing is deleted after the first conflict"


def test_the_limit_and_the_selection_hold(server: Server) -> None:
    assert len(items(result_of(send(server, "deletecollection", options={"limit": PART + 20})))) == PART + 20
    assert len(left(server)) == MANY - PART - 20
    refusal = present(result_of(send(server, "deletecollection", options={"labelSelector": "a=b=c"})).refusal)
    assert refusal["code"] == 400
    refusal = present(result_of(send(server, "deletecollection", namespace="")).refusal)
    assert refusal["code"] == 405


def test_a_deletion_that_is_under_way_is_answered_when_the_api_server_ends() -> None:
    with Harness() as bee:
        server = Server(bee, in_memory())
        for number in range(MANY):
            server.cluster.create(configmap(f"c{number:03}"))
        deletion = send(server, "deletecollection")
        bee.hive.stop()
    with pytest.raises(RequestLostError):
        deletion.get()
