"""How much one request may be, and how much requests may make of an object."""

import json
from base64 import b64encode
from collections.abc import Callable
from typing import Any

import pytest
from msgspec import Raw

from beehive.clock import RealClock
from beehive.message import Message
from beehive.simulation import Simulation
from beehive.testing import Harness
from modules.apimachinery.application import Application
from modules.apimachinery.kinds import ObjectKey
from modules.apimachinery.limits import OBJECT_BYTES, REQUEST_BYTES, VALUES, is_too_large
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.dynamiccontroller.module import call_of
from modules.cloud.edgecontroller.downstream.controller import MAX_HELD_OBJECTS
from modules.cloud.edgecontroller.module import _MOST_WAITING, EdgeController
from modules.cloud.edgecontroller.state.object_syncs import ObjectSyncs
from modules.cloud.edgecontroller.upstream.requests import UpstreamRequest
from modules.cloud.storage.object_sync import ObjectSync
from tests.modules.cloud.edgecontroller.cluster_server import ClusterController, ClusterServer
from tests.modules.cloud.edgecontroller.controller import AllMirrored, Controller, lone_downstream
from tests.modules.cloud.objects import configmap, node, pod
from tests.support.presence import present

NODE = ObjectKey("Node", "", "n1")


@pytest.mark.parametrize(
    ("text", "too_large"),
    [
        (b"[" + b",".join([b"[]"] * (VALUES + 1)) + b"]", True),
        (b"{" + b",".join(b'"%d":0' % number for number in range(VALUES + 1)) + b"}", True),
        (b"[" + b",".join([b"[]"] * (VALUES // 2 - 10)) + b"]", False),
        (b'"' + b"," * (REQUEST_BYTES - 100) + b'"', False),
        (b'"' + b"x" * REQUEST_BYTES + b'"', True),
        (b'["' + b'\\",' * 600_000 + b'\\\\"]', False),
        (b"[" * 60_000, True),
        (json.dumps("[" + "[]," * (VALUES + 1) + "0]").encode(), True),
        (b' "' + b64encode(b"[" + b"[]," * (VALUES + 1) + b"0]") + b'"', True),
        (json.dumps("[" + "[]," * 100 + "0]").encode(), False),
        (b'"\\ud800' + b"[]," * (VALUES + 1) + b'"', False),
        (b'"key": v' + b"\n- a" * 100, False),
    ],
    ids=[
        "many lists", "many members", "not so many", "a text with commas", "bytes", "escapes", "no JSON",
        "within a text", "within base64", "few within a text", "a text that nobody reads", "YAML",
    ],
)  # fmt: skip
def test_values_count_as_bytes_do(text: bytes, too_large: bool) -> None:
    assert is_too_large(text) is too_large
    assert is_too_large(Raw(text)) is too_large


@pytest.mark.parametrize("wrapped", [bytes, lambda text: json.dumps(text.decode()).encode()], ids=["plain", "a text"])
def test_a_request_that_is_too_large_is_answered_so(controller: Controller, wrapped: Callable[[bytes], bytes]) -> None:
    """Two megabytes of empty lists took the controller six seconds."""
    controller.asks("default/node/n1", "insert", node("n1"))
    content = wrapped(b'{"status":{"x":[' + b",".join([b"[]"] * 900_000) + b"]}}")
    request = controller.asks("default/nodepatch/n1", "patch", Raw(content))
    status = controller.answer_to(request).content["Err"]["ErrStatus"]
    assert (status["code"], status["reason"]) == (413, "RequestEntityTooLarge")


def test_a_report_of_more_pods_than_a_node_has_is_refused_whole(controller: Controller) -> None:
    """Six thousand reports of one pod in a message took the controller three seconds."""
    controller.apply(pod("web"))
    reports = [{"Name": "web", "Status": {"phase": "Running"}}] * 501
    request = controller.asks("default/podstatus", "update", reports)
    assert controller.answer_to(request).content["ErrStatus"]["code"] == 413
    controller.asks("default/podstatus", "update", reports[:500])
    assert controller.cluster.storage.get(ObjectKey("Pod", "default", "web"))["status"]["phase"] == "Running"


def test_many_patches_do_not_make_an_object_without_end(controller: Controller) -> None:
    controller.asks("default/node/n1", "insert", node("n1"))
    for number in range(12):
        patch = {"status": {"config": {f"a{number}": "x" * (REQUEST_BYTES // 2)}}}
        request = controller.asks("default/nodepatch/n1", "patch", patch)
    answer = controller.answer_to(request).content
    assert answer["Err"]["ErrStatus"]["code"] == 403
    assert "exceeded quota" in answer["Err"]["ErrStatus"]["message"]
    assert len(json.dumps(controller.cluster.storage.get(NODE))) <= OBJECT_BYTES


def test_values_without_a_json_form_are_refused_before_they_are_stored(controller: Controller) -> None:
    controller.asks("default/node/n1", "insert", node("n1"))
    before = controller.cluster.storage.get(NODE)
    request = controller.asks("default/nodepatch/n1", "patch", {"status": {"phase": "\ud800"}})
    assert controller.answer_to(request).content["Err"]["ErrStatus"]["code"] == 400
    assert controller.cluster.storage.get(NODE) == before


def test_an_event_is_small_for_a_thousand_are_kept(controller: Controller) -> None:
    event = {"metadata": {"name": "e1"}, "message": "x" * 20_000}
    request = controller.asks("default/event/e1", "insert", event)
    assert controller.answer_to(request).content["ErrStatus"]["code"] == 413


def test_a_metaserver_is_refused_likewise() -> None:
    body: Any = json.dumps(configmap()).encode()[:-1] + b',"x":[' + b",".join([b"[]"] * 60_000) + b"]}"
    app = Application(key="/core/v1/configmaps/default/settings", verb="create", req_body=body)
    assert "too large" in str(call_of(app))
    patch = {"Name": "settings", "PatchType": "application/merge-patch+json", "Data": b64encode(body).decode()}
    app = Application(key="/core/v1/configmaps/default/settings", verb="patch", option=json.dumps(patch).encode())
    assert "too large" in str(call_of(app))


def test_vain_queries_of_a_node_are_bounded_and_forgotten_with_its_connection() -> None:
    syncs = ObjectSyncs(lambda _node, _uid, _sync: None)
    cluster, mirrored = Cluster(Simulation().clock), AllMirrored()
    downstream = lone_downstream(cluster.storage, syncs, mirrored)
    query = Message.new(RealClock(), source="edged", resource="default/configmap/c", operation="query")
    for number in range(MAX_HELD_OBJECTS + 100):
        downstream.record_query("n1", "configmap", UpstreamRequest("n1", "default", f"c{number}", query).key)
    assert downstream.locations.count("n1") == MAX_HELD_OBJECTS
    downstream.node_disconnected("n1")
    assert downstream.locations.count("n1") == 0
    assert not downstream.locations._nodes


def test_pods_that_a_node_makes_and_ends_leave_nothing() -> None:
    """Each has another name, and no watch has told of it."""
    syncs = ObjectSyncs(lambda _node, _uid, _sync: None)
    syncs.node_connected("n1", {"node": ObjectSync(NODE)})
    storage = Cluster(Simulation().clock).storage
    downstream = lone_downstream(storage, syncs)
    downstream.newest.listed("Pod", "1")
    for number in range(100):
        metadata = {"name": f"p{number}", "namespace": "default", "uid": str(number), "resourceVersion": "9"}
        downstream.record_answer("n1", {**pod(), "metadata": metadata})
        assert len(downstream.stale.ahead["n1"]) <= 4
        syncs.deleted("n1", str(number))


def test_few_messages_of_a_node_wait_for_the_objects() -> None:
    """The API server is away when cloudcore starts: a node that goes on asking is refused, other nodes and what it has
    asked before are not.
    """
    with Harness() as bee:
        server = ClusterServer(bee.clock)
        server.apply(*({**node(name), "kind": "Node", "apiVersion": "v1"} for name in ("n1", "n2")))
        server.hold("pods")
        core = ClusterController(bee, server, nodes=("n1", "n2"))
        first = [core.asks("default/node/n1", "query") for _ in range(_MOST_WAITING - 1)]  # and the connection
        refused = core.asks("default/node/n1", "query")
        other = core.asks("default/node/n2", "query", node_name="n2")
        assert core.answer_to(refused).content["Err"]["ErrStatus"]["code"] == 503
        server.release()
        bee.run_for(5.0)
        later = core.asks("default/node/n1", "query")
        for name, request in [("n1", each) for each in (*first, later)] + [("n2", other)]:
            assert core.answer_to(request).content["metadata"]["name"] == name
        module = present(bee.hive.slot(EdgeController.name).running).ref._actor_weakref()
        assert isinstance(module, EdgeController)
        assert not module._waiting_of, "what has waited counts no more"
