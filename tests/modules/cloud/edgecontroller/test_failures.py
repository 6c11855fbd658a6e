"""A message that cannot be handled is refused alone: the module goes on, and nothing of it remains."""

from collections import Counter
from typing import Any

import msgspec
import pytest

from beehive.message import Message
from beehive.testing import Harness
from modules.apimachinery.kinds import ObjectKey, kind_named
from modules.cloud.client.calls import MERGE, ApiResult
from modules.cloud.edgecontroller.module import EdgeController
from modules.cloud.edgecontroller.upstream.pods import PodStatusRequest
from modules.cloud.messages import NODES, NodeConnection
from tests.modules.cloud.edgecontroller.cluster_server import ClusterController, ClusterServer
from tests.modules.cloud.edgecontroller.controller import WEB, Controller
from tests.modules.cloud.objects import configmap, node, pod

LEASE = "kube-node-lease/lease/n1"


def restarts(controller: Controller) -> int:
    return controller.bee.hive.restarts()[EdgeController.name]


@pytest.mark.parametrize("operation", ["connected", "disconnected", "acknowledged"])
@pytest.mark.parametrize("content", [{"nonsense": 1}, None, "text", [1], 3])
def test_nonsense_in_what_cloudhub_tells_stops_nobody(controller: Controller, operation: str, content: Any) -> None:
    for _ in range(25):
        message = controller.bee.message("node/n1", operation, content, source="cloudhub")
        controller.bee.send(EdgeController.name, message)
    assert restarts(controller) == 0
    (result,) = controller.apply(configmap())
    assert result.refusal is None


@pytest.mark.parametrize("generation", [7, -1, 2**62])
def test_a_lease_with_a_generation_is_renewed(controller: Controller, generation: Any) -> None:
    made = controller.answer_to(controller.asks(LEASE, "insert", {"spec": {"holderIdentity": "n1"}})).content["Object"]
    metadata = {"generation": generation, "resourceVersion": made["metadata"]["resourceVersion"]}
    content = {"metadata": metadata, "spec": {"holderIdentity": "n1", "leaseDurationSeconds": 41}}
    request = controller.asks(LEASE, "update", content)
    lease = controller.answer_to(request).content["Object"]
    assert lease["spec"]["leaseDurationSeconds"] == 41
    assert "generation" not in lease["metadata"], "a lease's is not counted"
    assert restarts(controller) == 0


def test_a_node_patch_with_a_generation_changes_the_node(controller: Controller) -> None:
    controller.asks("default/node/n1", "insert", node("n1"))
    patch = {"metadata": {"generation": 9}, "status": {"phase": "Running"}}
    controller.answer_to(controller.asks("default/nodepatch/n1", "patch", patch))
    assert controller.cluster.storage.get(ObjectKey("Node", "", "n1"))["status"]["phase"] == "Running"
    assert restarts(controller) == 0


def report(controller: Controller, phase: str) -> ApiResult:
    """A status of a pod, as any client of the API server writes it."""
    body = {"status": {"phase": phase}}
    return controller.call("patch", "pod", "web", subresource="status", patch_type=MERGE, body=body)


class UnforeseenError(Exception):
    """What nobody has thought of."""


@pytest.mark.parametrize("when", ["before the change", "after the change", "when others are told"])
def test_of_what_fails_unforeseen_nothing_remains(
    controller: Controller, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    controller.apply(pod())
    controller.down()
    before, version = controller.cluster.storage.get(WEB), controller.cluster.storage.version
    store = controller.cluster.storage
    change = store.change

    def fails(*args: Any, **options: Any) -> Any:
        if when == "after the change":
            change(*args, **options)
        raise UnforeseenError

    target, name = (store, "change")
    if when == "when others are told":
        target, name = controller.objects, "put"  # type: ignore[assignment]
    with monkeypatch.context() as patched:
        patched.setattr(target, name, fails)
        status = report(controller, "Running").refusal
    assert status is not None
    assert (status["code"], status["reason"]) == (500, "InternalError")
    assert controller.down() == [], "and nobody was told of it"
    assert (store.get(WEB), store.version) == (before, version)
    assert report(controller, "Failed").refusal is None
    assert store.get(WEB)["status"]["phase"] == "Failed"
    assert controller.down() == ["update node/n1/default/pod/web"], "the next request is served as ever"
    assert set(controller.bee.hive.restarts().values()) == {0}


def test_changes_of_the_same_turn_before_the_failure_stay(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller.apply(pod("one"), pod("two"))
    put = controller.objects.put

    def put_unless_two(event: Any) -> None:
        if event.key.name == "two":
            raise UnforeseenError
        put(event)

    monkeypatch.setattr(controller.objects, "put", put_unless_two)
    for name in ("one", "two"):
        message = controller.bee.message(f"node/n1/default/podpatch/{name}", "patch", {"status": {"phase": "Running"}})
        controller.bee.hive.send(EdgeController.name, message)
    controller.bee.settle()
    phases = [one.get("status", {}).get("phase") for one in controller.cluster.storage.list(kind_named("Pod"))]
    assert phases[0] == "Running"
    assert phases[1] != "Running"


def test_a_query_that_fails_is_not_answered_in_the_form_of_an_object(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_key: Any) -> Any:
        raise UnforeseenError

    monkeypatch.setattr(controller.cluster.storage, "get", fails)
    request = controller.asks("default/node/n1", "query")
    controller.bee.run_for(60.0)
    assert controller.answer_to(request).content["Err"]["ErrStatus"]["code"] == 503


def test_a_node_that_cannot_be_taken_on_is_sent_away_and_comes_again(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_node: str) -> Any:
        raise UnforeseenError

    with monkeypatch.context() as patched:
        patched.setattr(controller.database, "object_syncs_of", fails)
        controller.connected("n3")
    assert controller.down() == ["disconnected node/n3"]
    controller.connected("n3")
    controller.apply({**pod("p3"), "spec": {**pod()["spec"], "nodeName": "n3"}})
    assert controller.down() == ["insert node/n3/default/pod/p3"]


def test_one_bad_status_of_a_list_takes_no_other_with_it(controller: Controller) -> None:
    controller.apply(pod("one"), pod("two"))
    reports = [
        PodStatusRequest(name="one", status={"phase": 5}),
        PodStatusRequest(name="two", status={"phase": "Running"}),
    ]
    controller.asks("default/podstatus", "update", msgspec.to_builtins(reports))
    assert controller.cluster.storage.get(ObjectKey("Pod", "default", "two"))["status"]["phase"] == "Running"


def test_cloudhub_learns_how_many_of_each_nodes_messages_have_been_handled(controller: Controller) -> None:
    """Also refused ones; or it would hold back the node's next messages."""
    controller.bee.forget()
    for node_name, content in (("n1", {"status": {}}), ("n1", "nonsense"), ("n2", {"status": {}})):
        about = f"node/{node_name}/default/podpatch/web"
        controller.bee.hive.send(EdgeController.name, controller.bee.message(about, "patch", content, source="edged"))
    controller.bee.settle()
    total: Counter[str] = Counter()
    for each in controller.handled():
        total.update(each)
    assert total == {"n1": 2, "n2": 1}


@pytest.mark.parametrize("connections", [{"n1": "link 1"}, {}], ids=["it stays", "it leaves"])
def test_a_node_that_connects_while_the_database_fails_is_served(connections: dict[str, str]) -> None:
    """What waits for the lists is lost with the module; cloudhub is asked which nodes there are."""
    with Harness() as bee:
        bee.expect_failures()

        def of_cloudhub(message: Message) -> Message | None:
            found = [NodeConnection(each, 1.0, 1.0, connection=link) for each, link in connections.items()]
            return message.reply(bee.clock, found) if message.route.operation == NODES else None

        server = ClusterServer(bee.clock)
        server.apply(pod())
        server.hold("pods")
        core = ClusterController(bee, server)
        bee.answer("cloudhub", of_cloudhub)
        core.database_fails()
        server.release()
        bee.run_for(5.0)
        assert bee.hive.restarts()[EdgeController.name] == 1
        sent = ["insert node/n1/default/pod/web"] if connections else []
        assert core.down() == sent
        assert set(core.database.connected) == set(connections)


def test_a_cloudhub_that_does_not_answer_is_asked_again() -> None:
    with Harness() as bee:
        bee.expect_failures()
        asked: list[Message] = []

        def of_cloudhub(message: Message) -> Message | None:
            if message.route.operation != NODES:
                return None
            asked.append(message)
            found = [NodeConnection("n1", 1.0, 1.0, connection="link 1")]
            return message.reply(bee.clock, found) if len(asked) > 1 else None

        server = ClusterServer(bee.clock)
        server.apply(pod())
        server.hold("pods")
        core = ClusterController(bee, server)
        bee.answer("cloudhub", of_cloudhub)
        core.database_fails()
        server.release()
        bee.run_for(30.0)
        assert core.down() == ["insert node/n1/default/pod/web"]
        assert len(asked) == 2


def test_a_node_whose_node_object_was_deleted_while_the_database_failed_is_told() -> None:
    """It would be connected without a Node until its next connection (simulation, api, seed 31084)."""
    with Harness() as bee:
        bee.expect_failures()
        connected = [NodeConnection("n1", 1.0, 1.0, connection="link 1")]
        bee.answer(
            "cloudhub", lambda asked: asked.reply(bee.clock, connected) if asked.route.operation == NODES else None
        )
        core = ClusterController(bee)
        core.server.apply({"kind": "Node", "apiVersion": "v1", **node()})
        core.asks("null/node/n1", "insert", node())
        bee.run_for(1.0)
        core.down()
        core.server.hold_watches()
        core.database_fails()
        core.server.remove("node", "n1")
        bee.run_for(30.0)
        assert bee.hive.restarts()[EdgeController.name] == 1
        assert "delete node/n1/null/node/n1" in core.down()
