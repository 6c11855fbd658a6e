"""Which endpoints nodes get of Services that keep to node groups: by watches, in lists, after changes of groups."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from beehive.testing import Harness
from modules.apimachinery.kinds import JsonObject, ObjectKey
from modules.cloud.applications import BELONGING_TO, RANGE_NODE_GROUP, TOPOLOGY
from modules.cloud.client.calls import ApiCall, ApiResult
from modules.cloud.edgecontroller.downstream.node_groups import NodeGroupFilter
from modules.cloud.edgecontroller.module import EdgeController
from tests.modules.cloud.edgecontroller.cluster_server import ClusterController, ClusterServer

SLICES = {"api_version": "discovery.k8s.io/v1", "plural": "endpointslices"}
NAMES: dict[str, dict[str, Any]] = {
    "EndpointSlice": SLICES,
    "Endpoints": {"api_version": "v1", "plural": "endpoints"},
    "Service": {"api_version": "v1", "plural": "services"},
}
WHERE = {"a": "10.0.0.1", "b": "10.0.0.2", "c": "10.0.0.3", "": "10.0.0.9"}
"""The endpoint on each node, and one on none."""


def node(name: str, group: str = "") -> JsonObject:
    labels = {BELONGING_TO: group} if group else {}
    return {"kind": "Node", "apiVersion": "v1", "metadata": {"name": name, "labels": labels}}


def service(topology: str = RANGE_NODE_GROUP, **labels: str) -> JsonObject:
    """The Service; its annotations are those of a server-side apply, so without a topology there is none."""
    annotations = {TOPOLOGY: topology} if topology else {}
    metadata = {"name": "shop", "namespace": "default", "annotations": annotations, "labels": labels}
    return {"kind": "Service", "apiVersion": "v1", "metadata": metadata, "spec": {"ports": [{"port": 80}]}}


def endpoint_slice(*nodes: str, **labels: str) -> JsonObject:
    """A slice as kube-controller-manager writes it."""
    endpoints = [{"addresses": [WHERE[each]], **({"nodeName": each} if each else {})} for each in nodes]
    labels = {"kubernetes.io/service-name": "shop", **labels}
    metadata = {"name": "shop-1", "namespace": "default", "labels": labels}
    return {
        "kind": "EndpointSlice", "apiVersion": "discovery.k8s.io/v1", "metadata": metadata, "addressType": "IPv4",
        "endpoints": endpoints, "ports": [{"port": 80}],
    }  # fmt: skip


def endpoints(*nodes: str, unready: str = "c") -> JsonObject:
    """The Endpoints of the Service."""
    addresses = [{"ip": WHERE[each], **({"nodeName": each} if each else {})} for each in nodes]
    subset = {"addresses": addresses, "notReadyAddresses": [{"ip": WHERE[unready], "nodeName": unready}], "ports": []}
    return {
        "kind": "Endpoints", "apiVersion": "v1", "metadata": {"name": "shop", "namespace": "default"},
        "subsets": [{**subset, "ports": [{"port": 80}]}],
    }  # fmt: skip


class Fleet:
    """A cluster's cloudcore, and what its nodes have of the Service's endpoints."""

    def __init__(self, bee: Harness, *objects: JsonObject) -> None:
        self.server = ClusterServer(bee.clock)
        self.server.answers["selfsubjectaccessreviews"] = lambda exchange: exchange.answer(
            201, {**exchange.call.body, "status": {"allowed": True}}
        )
        self.server.apply(*objects)
        self.core = ClusterController(bee, self.server, nodes=("a", "b", "c"))
        self.bee = bee

    def watch(
        self, *nodes: str, kinds: tuple[str, ...] = ("Service", "EndpointSlice", "Endpoints")
    ) -> dict[str, list[str]]:
        """Metaservers of nodes watch the kinds; return what nodes are sent."""
        for each in nodes:
            for kind in kinds:
                assert self.asked(each, kind, "watch").refusal is None
        return self.sent()

    def asked(self, node_name: str, kind: str, verb: str, **fields: Any) -> ApiResult:
        """Return the answer to a call of a node's metaserver."""
        call = ApiCall(verb=verb, node=node_name, **NAMES[kind], **{"namespace": "default", **fields})
        message = self.bee.message("cloudcore/objects", "call", call, source="dynamiccontroller")
        return self.bee.ask(EdgeController.name, message).content_as(ApiResult)

    def applied(self, *objects: JsonObject) -> dict[str, list[str]]:
        """Objects are applied; return what nodes are sent."""
        self.server.apply(*objects)
        return self.sent()

    def sent(self) -> dict[str, list[str]]:
        """Return what nodes were sent since the last look: by node and kind the addresses; they acknowledge it."""
        self.bee.settle()
        found: dict[str, list[str]] = {}
        for message in self.core.unasked():
            _, name, _, kind, *_ = message.route.resource.split("/")
            content = message.content_as(dict[str, Any])
            if kind in ("endpointslice", "endpoints"):
                found[f"{name} {kind}"] = addresses(content)
            version = int(message.header.resourceversion or 0)
            self.core.acknowledged(content["metadata"]["uid"], version, node_name=name)
        self.bee.settle()
        self.bee.forget()
        return found


def addresses(obj: JsonObject) -> list[str]:
    """Return the addresses in a slice or in Endpoints."""
    subsets = obj.get("subsets") or []
    found = [one["ip"] for each in subsets for name in ("addresses", "notReadyAddresses") for one in each.get(name, ())]
    return found + [each["addresses"][0] for each in obj.get("endpoints") or []]


NODES = (node("a", "north"), node("b", "north"), node("c", "south"))


@pytest.fixture
def made() -> Iterator[Callable[..., Fleet]]:
    with Harness() as bee:
        yield lambda *objects: Fleet(bee, *objects)


def test_nodes_are_sent_the_endpoints_of_their_group(made: Callable[..., Fleet]) -> None:
    """Of slices and Endpoints alike, ready and not; of those on no node none."""
    fleet = made(*NODES, service(), endpoint_slice("a", "b", "c", ""), endpoints("a", ""))
    assert fleet.watch("a", "c") == {
        "a endpointslice": ["10.0.0.1", "10.0.0.2"],
        "a endpoints": ["10.0.0.1"],
        "c endpointslice": ["10.0.0.3"],
        "c endpoints": ["10.0.0.3"],
    }
    assert fleet.applied(endpoint_slice("b", "c")) == {"a endpointslice": ["10.0.0.2"], "c endpointslice": ["10.0.0.3"]}


def test_other_services_have_all_endpoints(made: Callable[..., Fleet]) -> None:
    fleet = made(*NODES, service(""), endpoint_slice("a", "b", "c", ""))
    assert fleet.watch("a") == {"a endpointslice": ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.9"]}


@pytest.mark.parametrize("kinds", [(), ("Service",)], ids=["Services are not mirrored", "they are"])
def test_lists_and_single_objects_are_of_the_group_too(made: Callable[..., Fleet], kinds: tuple[str, ...]) -> None:
    """Also of a node that watches nothing."""
    fleet = made(*NODES, service(), endpoint_slice("a", "b", "c"), endpoints("a"))
    fleet.watch("c", kinds=kinds)
    (listed,) = (fleet.asked("c", "EndpointSlice", "list").object or {})["items"]
    assert addresses(listed) == ["10.0.0.3"]
    assert addresses(fleet.asked("c", "EndpointSlice", "get", name="shop-1").object or {}) == ["10.0.0.3"]
    (listed,) = (fleet.asked("a", "Endpoints", "list").object or {})["items"]
    assert addresses(listed) == ["10.0.0.1"]


def test_a_node_that_joins_a_group_gets_its_endpoints(made: Callable[..., Fleet]) -> None:
    """And the others those on it; who leaves is alone with the nodes without a group."""
    fleet = made(node("a", "north"), node("b"), node("c", "south"), service(), endpoint_slice("a", "b", "c"))
    assert fleet.watch("a", "b", "c", kinds=("EndpointSlice",)) == {
        "a endpointslice": ["10.0.0.1"], "b endpointslice": ["10.0.0.2"], "c endpointslice": ["10.0.0.3"],
    }  # fmt: skip
    assert fleet.applied(node("b", "north")) == {
        "a endpointslice": ["10.0.0.1", "10.0.0.2"], "b endpointslice": ["10.0.0.1", "10.0.0.2"],
    }  # fmt: skip
    assert fleet.applied({**node("b", "north"), "spec": {"unschedulable": True}}) == {}, "the group is as before"
    assert fleet.applied(node("b", "south")) == {
        "a endpointslice": ["10.0.0.1"],
        "b endpointslice": ["10.0.0.2", "10.0.0.3"],
        "c endpointslice": ["10.0.0.2", "10.0.0.3"],
    }


@pytest.mark.parametrize("group", ["north", ""])
def test_a_node_that_is_made_again_is_in_its_group_again(made: Callable[..., Fleet], group: str) -> None:
    """Meanwhile its endpoints are nobody's but its own."""
    fleet = made(node("a", group), node("b", group), service(), endpoint_slice("a", "b"))
    assert fleet.watch("a", kinds=("EndpointSlice",)) == {"a endpointslice": ["10.0.0.1", "10.0.0.2"]}
    fleet.server.remove("nodes", "b")
    assert fleet.sent() == {"a endpointslice": ["10.0.0.1"]}
    assert fleet.applied(node("b", group)) == {"a endpointslice": ["10.0.0.1", "10.0.0.2"]}


def test_a_service_that_begins_or_ends_to_keep_to_groups_is_sent_with_its_endpoints(made: Callable[..., Fleet]) -> None:
    fleet = made(*NODES, service(""), endpoint_slice("a", "c"))
    fleet.watch("a")
    assert fleet.applied(service()) == {"a endpointslice": ["10.0.0.1"]}
    assert fleet.applied(service(owner="someone")) == {}
    assert fleet.applied(service("")) == {"a endpointslice": ["10.0.0.1", "10.0.0.3"]}


def test_a_node_that_was_away_gets_what_changed_meanwhile(made: Callable[..., Fleet]) -> None:
    """Its group, or the Service's topology; and nothing again of a Service that keeps to no groups."""
    fleet = made(*NODES, service(), endpoint_slice("a", "b", "c"))
    fleet.watch("a")

    def away(*changes: JsonObject) -> dict[str, list[str]]:
        fleet.core.of_link("disconnected", fleet.core.links, "a")
        fleet.applied(*changes)
        fleet.core.connected("a")
        return fleet.sent()

    fleet.core.connected("a")
    fleet.sent()
    assert away(node("a", "south")) == {"a endpointslice": ["10.0.0.1", "10.0.0.3"]}
    assert away(service("")) == {"a endpointslice": ["10.0.0.1", "10.0.0.2", "10.0.0.3"]}
    assert away() == {}


def test_a_node_has_the_endpoints_before_the_service_that_changes_them(made: Callable[..., Fleet]) -> None:
    """A link that breaks between the two leaves the Service unacknowledged, so that both are sent again."""
    fleet = made(*NODES, service(""), endpoint_slice("a", "c"))
    fleet.watch("a")
    for topology in (RANGE_NODE_GROUP, ""):
        fleet.server.apply(service(topology))
        fleet.bee.settle()
        kinds = [message.route.resource.split("/")[3] for message in fleet.core.unasked()]
        assert kinds == ["endpointslice", "service"]
        fleet.sent()


@pytest.mark.parametrize("is_away", [False, True])
def test_a_service_that_is_made_again_without_groups_is_sent_with_its_endpoints(
    made: Callable[..., Fleet], is_away: bool
) -> None:
    """As by `kubectl replace --force`: endpoints that are no owner's stay, in their version."""
    fleet = made(*NODES, service(), endpoint_slice("a", "c"))
    fleet.watch("a")
    fleet.core.connected("a")
    fleet.sent()
    if is_away:
        fleet.core.of_link("disconnected", fleet.core.links, "a")
    fleet.server.remove("service", "shop")
    fleet.server.apply(service(""))
    if is_away:
        fleet.core.connected("a")
    assert fleet.sent() == {"a endpointslice": ["10.0.0.1", "10.0.0.3"]}


def test_a_service_that_a_node_has_is_deleted_though_its_successor_was_lost_on_the_way(
    made: Callable[..., Fleet],
) -> None:
    """The second is made and deleted while the node is away (simulation: link, seed 6300831)."""
    fleet = made(*NODES, service())
    fleet.watch("a")
    fleet.core.connected("a")
    fleet.sent()
    held = next(each["metadata"]["uid"] for each in fleet.server.objects() if each["kind"] == "Service")
    fleet.core.of_link("disconnected", fleet.core.links, "a")
    fleet.server.remove("service", "shop")
    fleet.server.apply(service())
    fleet.core.connected("a")
    fleet.bee.settle()
    fleet.bee.forget()
    fleet.core.of_link("disconnected", fleet.core.links, "a")
    fleet.server.remove("service", "shop")
    fleet.core.connected("a")
    fleet.bee.settle()
    deleted = [
        one.content_as(dict[str, Any])["metadata"]["uid"]
        for one in fleet.core.unasked()
        if one.route.operation == "delete"
    ]
    assert held in deleted


@pytest.mark.parametrize("first", ["services", "endpointslices"])
@pytest.mark.parametrize(
    ("before", "change", "sent"),
    [
        ("", service(), {"a endpointslice": ["10.0.0.1"]}),
        (RANGE_NODE_GROUP, service(""), {"a endpointslice": ["10.0.0.1", "10.0.0.3"]}),
        (RANGE_NODE_GROUP, node("a", "south"), {"a endpointslice": ["10.0.0.1", "10.0.0.3"]}),
        ("", node("a", "south"), {}),
        ("", service("", owner="someone"), {"a endpointslice": ["10.0.0.1", "10.0.0.3"]}),
    ],
    ids=["keeps to groups", "no longer", "another group", "whole", "whole and changed"],
)
def test_a_change_while_edgecontroller_does_not_run_is_sent_when_it_does(
    made: Callable[..., Fleet], first: str, before: str, change: JsonObject, sent: dict[str, list[str]]
) -> None:
    """Whichever kind is listed first; the last is the price for not knowing the topology that the node knows."""
    fleet = made(*NODES, service(before), endpoint_slice("a", "c"))
    fleet.bee.expect_failures()
    fleet.watch("a")
    fleet.server.hold({"services": "endpointslices", "endpointslices": "services"}[first])
    fleet.core.database_fails()
    fleet.core.asks("null/node/a", "query", node_name="a")
    fleet.server.apply(change)
    fleet.bee.run_for(30)
    found = fleet.sent()
    fleet.server.release()
    assert fleet.bee.hive.restarts()[EdgeController.name] == 1
    assert found | fleet.sent() == sent


def test_no_endpoints_are_sent_before_all_services_are_known(made: Callable[..., Fleet]) -> None:
    fleet = made(*NODES, service(), endpoint_slice("a", "c"))
    fleet.server.hold("services")
    assert fleet.watch("a", kinds=("EndpointSlice",)) == {}
    assert fleet.applied(endpoint_slice("a", "b", "c")) == {}
    fleet.server.release()
    assert fleet.sent() == {"a endpointslice": ["10.0.0.1", "10.0.0.2"]}


class Known:
    """Objects by key (`Objects`)."""

    def __init__(self, *objects: JsonObject) -> None:
        self._objects = objects

    def find(self, key: ObjectKey) -> JsonObject | None:
        """Return an object."""
        named = (each for each in self._objects if each["kind"] == key.kind and each["metadata"]["name"] == key.name)
        return next(named, None)

    def list(self, kind: Any, namespace: str | None = None) -> list[JsonObject]:
        """Return the objects of a kind."""
        return [each for each in self._objects if each["kind"] == kind.name and namespace in (None, "default")]


def test_a_slice_that_a_node_gets_is_labelled_with_its_group() -> None:
    """So the node knows that what is left is its group's; the stored slice stays as it is."""
    groups = NodeGroupFilter(Known(*NODES, service()))
    stored = endpoint_slice("a", "c")
    assert groups.shown("a", stored)["metadata"]["labels"][BELONGING_TO] == "north"
    assert stored == endpoint_slice("a", "c")


def test_nodes_without_a_group_are_one_and_an_unknown_node_is_alone() -> None:
    groups = NodeGroupFilter(Known(node("a"), node("b"), node("c", "south"), service()))
    shown = groups.shown("a", endpoint_slice("a", "b", "c"))
    assert addresses(shown) == ["10.0.0.1", "10.0.0.2"]
    assert BELONGING_TO not in shown["metadata"]["labels"]
    alone = NodeGroupFilter(Known(node("c", "south"), service()))
    assert addresses(alone.shown("a", endpoint_slice("a", "b", "c"))) == ["10.0.0.1"]


@pytest.mark.parametrize(
    "obj",
    [endpoint_slice("c"), endpoints("c"), service(), node("a"), {**endpoint_slice("c"), "metadata": {"name": "x"}}],
)
def test_what_belongs_to_no_such_service_is_whole(obj: JsonObject) -> None:
    assert NodeGroupFilter(Known(*NODES)).shown("a", obj) is obj
