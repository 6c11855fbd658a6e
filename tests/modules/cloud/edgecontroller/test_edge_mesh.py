"""What a node of 2019 is sent for its EdgeMesh: lists when it becomes ready, then each change."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from beehive import Message
from beehive.simulation import Simulation
from beehive.testing import Harness
from modules.apimachinery.kinds import JsonObject, ObjectKey
from modules.cloud.edgecontroller.downstream.edge_mesh import EdgeMeshServices
from tests.modules.cloud.edgecontroller.controller import Controller
from tests.modules.cloud.objects import node, pod

SERVICES = "update node/n1/namespace/servicelist/service"
ENDPOINTS = "update node/n1/namespace/endpointslist/endpoints"
PODS = "update node/n1/default/podlist/shop"


def service(name: str = "shop", port: int = 80) -> JsonObject:
    """A Service of the pods with the label `app: shop`."""
    spec = {"selector": {"app": "shop"}, "ports": [{"port": port}]}
    return {"kind": "Service", "apiVersion": "v1", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def endpoints(address: str = "10.0.0.1") -> JsonObject:
    """The Endpoints of the Service."""
    subsets = [{"addresses": [{"ip": address}], "ports": [{"port": 80}]}]
    meta = {"name": "shop", "namespace": "default"}
    return {"kind": "Endpoints", "apiVersion": "v1", "metadata": meta, "subsets": subsets}


def labelled(name: str, node_name: str, app: str = "shop") -> JsonObject:
    """A pod with a label and a secret in its environment."""
    made = pod(name, nodeName=node_name)
    made["metadata"]["labels"] = {"app": app}
    made["spec"]["containers"][0]["env"] = [{"name": "PASSWORD", "value": "secret"}]
    return made


class Edge2019:
    """The edge of 2019, and the cloud's objects."""

    def __init__(self, controller: Controller) -> None:
        self.controller = controller
        controller.apply({"kind": "Node", "apiVersion": "v1", **node("n1")})
        controller.down()

    def reports(self, ready: str = "True") -> list[str]:
        """The node reports its status; return what it is sent for EdgeMesh."""
        status = {"conditions": [{"type": "Ready", "status": ready}]}
        self.controller.asks("default/nodestatus/n1", "update", {"UID": "", "Status": status})
        return self.sent()

    def applied(self, *objects: JsonObject) -> list[str]:
        """Objects are applied; return what the node is sent for EdgeMesh."""
        assert not [each.refusal for each in self.controller.apply(*objects) if each.refusal]
        return self.sent()

    def sent(self) -> list[str]:
        """Return what n1 was sent of Services, Endpoints, and the lists."""
        self.controller.bee.settle()
        return [
            each
            for each in self.controller.down()
            if " node/n1/" in each and "/pod/" not in each and "node/n1/null" not in each
        ]

    def content(self, resource: str) -> Any:
        """Return the content of the message of a resource that came last; the messages stay."""
        found = [each for each in self.controller.unasked() if each.route.resource == resource]
        return found[-1].content_as(Any)


@pytest.fixture
def edge() -> Iterator[Edge2019]:
    with Harness() as bee:
        yield Edge2019(Controller(bee))


def test_a_node_that_becomes_ready_gets_the_lists_once(edge: Edge2019) -> None:
    """Services, the pods behind each, endpoints; again when it was not ready meanwhile, and over each connection."""
    assert edge.applied(service(), endpoints(), labelled("a", "n2")) == []
    assert edge.reports("False") == []
    assert edge.reports() == [SERVICES, PODS, ENDPOINTS]
    assert edge.reports() == []
    edge.reports("False")
    assert edge.reports() == [SERVICES, PODS, ENDPOINTS]
    edge.controller.of_link("disconnected", edge.controller.links - 1)
    edge.controller.connected()
    edge.controller.down()
    assert edge.reports() == [SERVICES, PODS, ENDPOINTS]


def test_the_lists_are_of_edgecontroller_and_whole(edge: Edge2019) -> None:
    """An edge of 2019 stores an update only in edgecontroller's name."""
    edge.applied(service(), service("second"), endpoints(), labelled("a", "n2"), labelled("b", "n2", app="other"))
    edge.controller.asks(
        "default/nodestatus/n1", "update", {"Status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    )
    assert {each.route.source for each in edge.controller.unasked()} == {"edgecontroller"}
    names = [each["metadata"]["name"] for each in edge.content("node/n1/namespace/servicelist/service")]
    assert names == ["second", "shop"]
    assert len(edge.content("node/n1/namespace/endpointslist/endpoints")) == 1
    pods = edge.content("node/n1/default/podlist/shop")
    assert [each["metadata"]["name"] for each in pods] == ["a"]
    assert pods[0]["spec"]["nodeName"] == "n2"
    assert "secret" not in str(pods)  # it is another node's pod


def test_changes_come_one_by_one_and_pods_after_endpoints(edge: Edge2019) -> None:
    edge.applied(labelled("a", "n2"))
    assert edge.reports() == [SERVICES, ENDPOINTS]
    assert edge.applied(service()) == ["insert node/n1/default/service/shop"]
    assert edge.applied(endpoints()) == ["insert node/n1/default/endpoints/shop", PODS]
    assert edge.applied(endpoints("10.0.0.2")) == ["update node/n1/default/endpoints/shop", PODS]
    edge.applied(service(port=81))
    edge.controller.remove("endpoints", "shop")
    assert edge.sent() == ["delete node/n1/default/endpoints/shop"]


def test_changes_are_of_edgecontroller_and_deletions_are_not_missed(edge: Edge2019) -> None:
    """An acknowledged list counts for its objects: none of them is sent again, and a deletion reaches the node after an
    outage.
    """
    edge.applied(service())
    edge.reports()
    live = edge.controller.cluster.storage.get(ObjectKey("Service", "default", "shop"))
    assert live is not None
    edge.controller.acknowledged("namespace/servicelist/service", int(live["metadata"]["resourceVersion"]))
    edge.controller.bee.run_for(30.0)
    assert edge.sent() == []
    edge.controller.apply(service(port=81))
    edge.controller.bee.settle()
    assert [each.route.source for each in edge.controller.unasked()] == ["edgecontroller"]
    edge.sent()
    edge.controller.of_link("disconnected", edge.controller.links - 1)
    edge.controller.bee.settle()
    edge.controller.remove("service", "shop")
    edge.controller.down()
    edge.controller.connected()
    assert edge.sent() == ["delete node/n1/default/service/shop"]


def test_a_node_of_today_gets_none(edge: Edge2019) -> None:
    edge.applied(service(), endpoints())
    status = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    edge.controller.asks("default/nodepatch/n1", "patch", status)
    assert edge.sent() == []


@pytest.mark.parametrize(("resource", "kind"), [("service", "ports"), ("endpoints", "subsets")])
def test_a_query_for_one_of_them_is_answered(edge: Edge2019, resource: str, kind: str) -> None:
    """EdgeMesh asks for what its node's database lacks; what there is not is not an internal error."""
    edge.applied(service(), endpoints())
    found = edge.controller.answer_to(edge.controller.asks(f"default/{resource}/shop", "query")).content_as(dict)
    assert found["metadata"]["name"] == "shop"
    assert kind in (found if kind == "subsets" else found["spec"])
    missing = edge.controller.answer_to(edge.controller.asks(f"default/{resource}/other", "query")).content_as(dict)
    assert missing["Err"]["ErrStatus"]["code"] == 404


def test_an_acknowledged_list_is_of_its_node_and_kind() -> None:
    objects = {kind: {"kind": kind, "metadata": {"name": kind, "uid": kind}} for kind in ("Service", "Endpoints")}
    acknowledged = list[tuple[str, str]]()
    syncs: Any = SimpleNamespace(
        is_connected=lambda _: True,
        sending=lambda *_: None,
        acknowledged=lambda node, uid, _: acknowledged.append((node, uid)),
    )
    mesh = EdgeMeshServices(Mock(list=lambda kind, *_: [objects[kind.name]]), syncs, Mock(), Mock(), Mock())
    for name in ("n1", "n2"):
        ready = {"Status": {"conditions": [{"type": "Ready", "status": "True"}]}}
        resource = f"node/{name}/default/nodestatus/{name}"
        clock = Simulation(1).clock
        mesh.record_report(Message.new(clock, source="edge", resource=resource, operation="update", content=ready))
    for name in ("n2", "n1"):
        for resource in ("namespace/endpointslist/endpoints", "namespace/servicelist/service"):
            mesh.record_acknowledged(name, resource)
    assert acknowledged == [("n2", "Endpoints"), ("n2", "Service"), ("n1", "Endpoints"), ("n1", "Service")]
