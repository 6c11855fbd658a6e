"""API calls of modules in the process, which share a message."""

from typing import Any

import pytest

from beehive.testing import Harness
from modules.cloud.api_messages import MODULE, Verb
from modules.cloud.apiserver.embedded_kube_api import MOST_CALLS
from modules.cloud.apiserver.fencing import NAME
from modules.cloud.apiserver.namespaces import SYSTEM_NAMESPACE
from modules.cloud.client.calls import MERGE, ApiCall
from modules.cloud.client.kube_api import CallResponse
from modules.cloud.client.lane_calls import RequestLane
from modules.cloud.storage.database.errors import DatabaseError
from modules.cloud.storage.object_storage import LARGE
from tests.modules.cloud.apiserver.test_module import Server
from tests.modules.cloud.objects import configmap, in_memory

Ended = CallResponse | Exception


class Calls:
    """Calls of the process, and how they have ended."""

    def __init__(self, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
        self._server = server
        self.sent: list[str] = []
        """The verbs of the messages to the API server."""
        self.ends: dict[str, list[Ended]] = {}
        request_then = server.bee.hive.request_then

        def send(destination: str, message: Any, *rest: Any, **how: Any) -> None:
            if destination == MODULE:
                self.sent.append(message.route.operation)
            request_then(destination, message, *rest, **how)

        monkeypatch.setattr(server.bee.hive, "request_then", send)

    def make(self, verb: str, name: str = "", **fields: Any) -> None:
        """Make a call, without waiting."""
        fields = {"api_version": "v1", "plural": "configmaps", "namespace": "default", "name": name, **fields}
        ends = self.ends.setdefault(f"{verb} {name}".strip(), [])
        self._server.api.call(ApiCall(verb=verb, **fields), ends.append)

    def statuses(self) -> dict[str, list[int]]:
        """Let the API server work, and return the statuses of the calls."""
        self._server.api.send()
        self._server.bee.settle()
        return {of: [each.status for each in ends if isinstance(each, CallResponse)] for of, ends in self.ends.items()}


@pytest.fixture
def server(bee: Harness) -> Server:
    return Server(bee)


@pytest.fixture
def calls(server: Server, monkeypatch: pytest.MonkeyPatch) -> Calls:
    return Calls(server, monkeypatch)


def test_calls_before_the_api_servers_turn_share_a_message_and_a_commit(calls: Calls, server: Server) -> None:
    """Each has the result that it has alone; a refusal concerns no other. Later calls have another message."""
    version = server.cluster.storage.version
    calls.make("create", body=configmap("a"))
    calls.make("get", "b")
    calls.make("patch", "a", patch_type=MERGE, body={"data": {"key": "new"}})
    calls.make("updatestatus", "a", plural="pods", body={})
    assert calls.statuses() == {"create": [201], "get b": [404], "patch a": [200], "updatestatus a": [400]}
    assert calls.sent == [Verb.CALLS]
    assert server.cluster.storage.version == version + 2
    calls.make("get", "a")
    assert calls.statuses()["get a"] == [200]
    assert calls.sent == [Verb.CALLS, Verb.CALLS]


def test_a_call_that_takes_long_comes_again_alone(calls: Calls, server: Server) -> None:
    """Others do not wait for it: a large object, whose result is computed on another thread, and a collection."""
    server.apply(configmap("a"), "configmaps")
    calls.sent.clear()
    calls.make("patch", "a", patch_type=MERGE, body={"data": {"key": "x" * LARGE}})
    calls.make("get", "a")
    calls.make("deletecollection", plural="secrets")
    assert calls.statuses() == {"patch a": [200], "get a": [200], "deletecollection": [200]}
    assert calls.sent == [Verb.CALLS, Verb.CALL, Verb.CALL]


def test_a_call_that_turns_out_to_take_long_changes_nothing_before_it_comes_again(calls: Calls, server: Server) -> None:
    copies = [{"op": "copy", "from": "/data", "path": f"/data{number}"} for number in range(12)]
    server.apply({**configmap("a"), "data": {f"key{number}": "" for number in range(400)}}, "configmaps")
    calls.sent.clear()
    calls.make("patch", "a", patch_type="application/json-patch+json", body=copies)
    calls.statuses()
    assert calls.sent == [Verb.CALLS, Verb.CALL]
    assert [len(ends) for ends in calls.ends.values()] == [1]


def test_the_calls_of_a_lost_transaction_are_made_again_once(bee: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the first commit has stored all the same is not stored twice."""
    bee.expect_failures()
    database = in_memory()
    server = Server(bee, database)
    calls, commit, lost = Calls(server, monkeypatch), database.commit, list[int]()

    def lose(version: int) -> None:
        commit(version)
        if not lost:
            lost.append(version)
            raise DatabaseError("commit", f"version {version}", "the connection is lost")

    for number in range(3):
        calls.make("create", body={**configmap(""), "metadata": {"generateName": f"of-{number}-"}})
    monkeypatch.setattr(database, "commit", lose)
    server.api.send()
    bee.run_for(60.0)
    assert calls.statuses() == {"create": [201, 201, 201]}
    made = [each for each in server.cluster.storage.in_namespace("default") if each["kind"] == "ConfigMap"]
    assert sorted(each["metadata"]["name"][:4] for each in made) == ["of-0", "of-1", "of-2"]
    assert len({each["metadata"]["uid"] for each in made}) == len(made)
    assert lost


def test_a_cloudcore_that_no_longer_runs_the_controllers_changes_nothing(calls: Calls) -> None:
    """It was stopped for a minute, and goes on: each pod of a Job would be there twice."""
    spec = {"holderIdentity": "a", "leaseTransitions": 3}
    place = {"api_version": "coordination.k8s.io/v1", "plural": "leases", "namespace": SYSTEM_NAMESPACE}
    calls.make("create", body={"metadata": {"name": NAME}, "spec": spec}, **place)
    for fence in ("a/3", "a/2", "b/3"):
        calls.make("create", body=configmap(fence.replace("/", "-")), fence=fence)
    assert calls.statuses() == {"create": [201, 201, 409, 409]}


def test_without_an_answer_each_call_ends_with_504(bee: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(bee)
    calls = Calls(server, monkeypatch)
    monkeypatch.setattr(type(bee.hive.pending_requests), "answer", lambda *_: None)
    for number in range(2):
        calls.make("get", str(number))
    server.api.send()
    bee.run_for(31.0)
    assert calls.statuses() == {"get 0": [504], "get 1": [504]}


def test_messages_have_few_calls(calls: Calls) -> None:
    """Others' requests have their turn between them."""
    for number in range(2 * MOST_CALLS + 1):
        calls.make("get", str(number))
    assert {*map(tuple, calls.statuses().values())} == {(404,)}
    assert calls.sent == [Verb.CALLS] * 3


def test_the_calls_of_a_clients_turn_share_a_message(server: Server, calls: Calls) -> None:
    ends: list[Any] = []

    def ask() -> None:
        for number in range(3):
            call = ApiCall(verb="get", api_version="v1", plural="nodes", name=str(number))
            server.client.call(RequestLane.QUERY, call, ends.append)

    server.soon(ask)
    assert [end.result.refusal["code"] for end in ends] == [404] * 3
    assert calls.sent == [Verb.CALLS]
