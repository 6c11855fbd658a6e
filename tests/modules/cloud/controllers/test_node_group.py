"""NodeGroups: which nodes they label, and what happens to those that they leave."""

from __future__ import annotations

from typing import Any

from modules.apimachinery.kinds import JsonObject, ObjectKey, is_being_deleted
from modules.cloud.applications import BELONGING_TO, NODE_GROUP
from modules.cloud.controllers.application_definitions import ADMISSIONS, definitions
from tests.modules.cloud.controllers.site import Site, workload

ZONE = "topology.kubernetes.io/zone"


def site(*nodes: str) -> Site:
    made = Site(nodes=nodes or ("n1", "n2", "n3"))
    for each in definitions():
        made.apply(each)
    return made


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
    at.apply(group("first", nodes=["n1"]))
    at.apply(group("second", nodes=["n1"]))
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
    at.apply(bound)
    at.apply(free)
    at.run_for(5)
    before = {pod["metadata"]["name"] for pod in at.pods() if pod["spec"].get("nodeName") == "n1"}
    assert len(before) == 2
    at.apply(group("west", nodes=["n2"]))
    at.run_for(60)
    there = {pod["metadata"]["name"] for pod in at.pods() if pod["spec"].get("nodeName") == "n1"}
    assert len(there) == 1
    assert there < before
    assert [pod["spec"]["nodeName"] for pod in at.pods() if "nodeSelector" in pod["spec"]] == ["n2"]


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
    at.engine.look_at_all()
    at.run_for(60)
    assert at.writes == []


def test_a_group_has_a_name_that_a_label_can_have() -> None:
    admission = ADMISSIONS[NODE_GROUP.key_name]
    assert admission(group("g" * 63), None, lambda _: None) == []
    (cause,) = admission(group("g" * 64), None, lambda _: None)
    assert str(cause) == "metadata.name: Too long: may not be more than 63 bytes"
