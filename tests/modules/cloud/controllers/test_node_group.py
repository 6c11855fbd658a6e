"""NodeGroups: which nodes they label, and what happens to those that they leave."""

from typing import Any

import pytest

from modules.apimachinery.kinds import JsonObject, ObjectKey, is_being_deleted
from modules.cloud.applications import BELONGING_TO, NODE_GROUP, RANGE_NODE_GROUP, TOPOLOGY
from modules.cloud.controllers.application_definitions import ADMISSIONS, definitions
from tests.modules.cloud.controllers.site import Site, site_of, workload

ZONE = "topology.kubernetes.io/zone"


def site(*nodes: str) -> Site:
    return site_of(*definitions(), nodes=nodes or ("n1", "n2", "n3"))


def group(name: str, **spec: Any) -> JsonObject:
    return {"apiVersion": NODE_GROUP.api_version, "kind": "NodeGroup", "metadata": {"name": name}, "spec": spec}


def key(name: str) -> ObjectKey:
    return ObjectKey(NODE_GROUP.key_name, "", name)


def labels(at: Site, node: str) -> dict[str, str]:
    found = at.cluster.storage.get(ObjectKey("Node", "", node))["metadata"]["labels"]
    return {name: value for name, value in found.items() if name in (BELONGING_TO, ZONE)}


def statuses(at: Site, name: str) -> list[tuple[str, str, str]]:
    found = at.cluster.storage.get(key(name))["status"]["nodeStatuses"]
    return [
        (each["nodeName"], each["readyStatus"], each.get("selectionStatusReason", each["selectionStatus"]))
        for each in found
    ]


def test_nodes_are_chosen_by_name_and_by_label_and_a_groups_status_counts_them() -> None:
    at = site("n1", "n2")
    at.add_node("n3", labels={"site": "west"})
    at.apply(group("west", nodes=["n1", "n9"], matchLabels={"site": "west"}))
    at.fall_silent("n3")
    assert [labels(at, name) for name in ("n1", "n2", "n3")] == [{BELONGING_TO: "west"}, {}, {BELONGING_TO: "west"}]
    assert statuses(at, "west") == [
        ("n1", "Ready", "Succeeded"),
        ("n3", "Unknown", "Succeeded"),
        ("n9", "Unknown", "node does not exist"),
    ]
    assert at.cluster.storage.get(key("west"))["status"]["ready"] == "1/3"
    at.add_node("n9")
    at.settle()
    assert labels(at, "n9") == {BELONGING_TO: "west"}


def test_an_empty_group_takes_no_node() -> None:
    at = site()
    at.apply(group("all", matchLabels={}))
    assert [labels(at, name) for name in ("n1", "n2", "n3")] == [{}, {}, {}]


def test_a_node_of_two_groups_is_the_firsts_until_that_lets_it_go() -> None:
    at = site()
    at.apply(group("first", nodes=["n1"]), group("second", nodes=["n1"]))
    assert labels(at, "n1") == {BELONGING_TO: "first"}
    assert statuses(at, "second") == [("n1", "Ready", "node n1 has already belonged to NodeGroup first")]
    at.apply(group("first", nodes=["n2"]))
    assert labels(at, "n1") == {BELONGING_TO: "second"}
    assert statuses(at, "second") == [("n1", "Ready", "Succeeded")]


def test_the_zone_of_a_node_is_its_group_only_if_it_has_no_other_one() -> None:
    at = site("n1")
    at.add_node("n2", labels={ZONE: "own"})
    at.apply(group("west", nodes=["n1", "n2"], topologyEnabled=True))
    assert labels(at, "n1") == {BELONGING_TO: "west", ZONE: "west"}
    assert labels(at, "n2") == {BELONGING_TO: "west", ZONE: "own"}
    at.apply(group("west", nodes=["n1", "n2"], topologyEnabled=False))
    assert labels(at, "n1") == {BELONGING_TO: "west"}
    assert labels(at, "n2") == {BELONGING_TO: "west", ZONE: "own"}


def test_pods_that_need_a_group_leave_a_node_with_it_and_others_stay() -> None:
    at = site()
    at.apply(group("west", nodes=["n1"]))
    bound, free = workload("Deployment", "bound", replicas=1), workload("DaemonSet", "free")
    bound["spec"]["template"]["spec"]["nodeSelector"] = {BELONGING_TO: "west"}
    at.apply(bound, free, seconds=5)
    before = {pod["metadata"]["name"] for pod in at.pods() if pod["spec"].get("nodeName") == "n1"}
    assert len(before) == 2
    at.apply(group("west", nodes=["n2"]), seconds=60)
    there = {pod["metadata"]["name"] for pod in at.pods() if pod["spec"].get("nodeName") == "n1"}
    assert len(there) == 1
    assert there < before
    assert [pod["spec"]["nodeName"] for pod in at.pods() if "nodeSelector" in pod["spec"]] == ["n2"]


def liar(**spec: Any) -> Site:
    """Return a site where n2 has the label of the group bank, and its zone, whose nodes are n1 only; nobody takes
    them back.
    """
    at = site("n1", "n2")
    refused = at.call("get", ObjectKey("Node", "", "n9"))
    at.apply(group("bank", nodes=["n1"], topologyEnabled=True, **spec))
    at.answer = lambda call: refused if call.plural == "nodes" else None
    at.patch(ObjectKey("Node", "", "n2"), {"metadata": {"labels": {BELONGING_TO: "bank", ZONE: "bank"}}})
    assert labels(at, "n1") == labels(at, "n2") == {BELONGING_TO: "bank", ZONE: "bank"}
    return at


@pytest.mark.parametrize("kind", ["Deployment", "DaemonSet"])
@pytest.mark.parametrize("label", [BELONGING_TO, ZONE])
def test_pods_of_a_group_and_of_its_zone_go_to_the_nodes_that_it_lists(kind: str, label: str) -> None:
    at = liar()
    replicas: dict[str, Any] = {"replicas": 4} if kind == "Deployment" else {}
    made = workload(kind, "bound", **replicas)
    made["spec"]["template"]["spec"]["nodeSelector"] = {label: "bank"}
    at.apply(made, seconds=60)
    assert {pod["spec"].get("nodeName") for pod in at.pods()} == {"n1"}


def test_a_pod_that_waits_for_a_group_goes_to_a_node_that_it_lists_later() -> None:
    at = liar()
    at.cluster.delete(ObjectKey("Node", "", "n1"))
    made = workload("Deployment", "bound", replicas=1)
    made["spec"]["template"]["spec"]["nodeSelector"] = {BELONGING_TO: "bank"}
    at.apply(made, seconds=60)
    assert [pod["spec"].get("nodeName") for pod in at.pods()] == [None]
    at.apply(group("bank", nodes=["n2"]))
    at.cluster.scheduler.place_waiting_pods()
    assert [pod["spec"].get("nodeName") for pod in at.pods()] == ["n2"]


def test_endpoints_are_in_the_group_and_the_zone_that_list_their_node() -> None:
    at = liar()
    ranged = {"metadata": {"name": "web", "annotations": {TOPOLOGY: RANGE_NODE_GROUP}}}
    spec = {"selector": {"app": "web"}, "ports": [{"port": 80}], "trafficDistribution": "PreferClose"}
    at.apply({"kind": "Service", "apiVersion": "v1", **ranged, "spec": spec})
    for node, address in (("n1", "10.1.0.1"), ("n2", "10.1.0.2")):
        container = {"name": "main", "image": "app:1"}
        metadata = {"name": f"on-{node}", "labels": {"app": "web"}}
        pod = {
            "kind": "Pod",
            "apiVersion": "v1",
            "metadata": metadata,
            "spec": {"containers": [container], "nodeName": node},
        }
        at.report(at.apply(pod), "Running", ready=True, podIP=address, podIPs=[{"ip": address}])
    at.run_for(5)
    found = {
        endpoint["nodeName"]: (each["metadata"]["labels"].get(BELONGING_TO), endpoint.get("zone"))
        for each in at.all("EndpointSlice")
        for endpoint in each["endpoints"]
    }
    assert found == {"n1": ("bank", "bank"), "n2": (None, None)}


def test_a_node_that_a_group_does_not_list_is_no_reason_to_move_the_pods_of_the_group() -> None:
    at = liar()
    made = workload("Deployment", "bound", replicas=1)
    made["spec"]["template"]["spec"]["nodeSelector"] = {BELONGING_TO: "bank"}
    at.apply(made)
    at.patch(ObjectKey("Node", "", "n1"), {"metadata": {"annotations": {"edgecore.io/evict-after": "1m"}}}, seconds=10)
    (before,) = at.pods()
    at.fall_silent("n1", seconds=600)
    assert at.pods() != []
    assert [pod["metadata"]["uid"] for pod in at.pods()] == [before["metadata"]["uid"]]


def test_a_deleted_group_leaves_its_nodes_and_only_then_it_goes() -> None:
    at = site()
    at.apply(group("west", nodes=["n1", "n2"], topologyEnabled=True))
    refused = at.call("get", ObjectKey("Node", "", "n9"))
    at.answer = lambda call: refused if call.plural == "nodes" else None
    at.call("delete", key("west"))
    assert is_being_deleted(at.cluster.storage.get(key("west")))
    at.answer = lambda _: None
    at.run_for(60)
    assert at.cluster.storage.find(key("west")) is None
    assert [labels(at, name) for name in ("n1", "n2")] == [{}, {}]


def test_labels_that_a_person_has_set_stay_where_there_is_no_such_group() -> None:
    at = site("n1")
    at.add_node("n2", labels={BELONGING_TO: "by-hand"})
    at.apply(group("west", nodes=["n1"]))
    assert labels(at, "n2") == {BELONGING_TO: "by-hand"}


def test_a_settled_group_is_not_written_again() -> None:
    at = site()
    at.apply(group("west", nodes=["n1", "n2"], topologyEnabled=True))
    at.writes.clear()
    at.engine.enqueue_all()
    at.run_for(60)
    assert at.writes == []


def test_a_group_has_a_name_that_a_label_can_have() -> None:
    admission = ADMISSIONS[NODE_GROUP.key_name]
    assert admission(group("g" * 63), None, lambda _: None) == []
    (cause,) = admission(group("g" * 64), None, lambda _: None)
    assert str(cause) == "metadata.name: Too long: may not be more than 63 bytes"
