"""The labels of a Node that count, where others list nodes."""

from typing import Any

import pytest

from modules.apimachinery.kinds import JsonObject, ObjectKey
from modules.cloud.applications import BELONGING_TO, NODE_GROUP
from modules.cloud.authorization.node_metadata import HOSTNAME, ZONE
from modules.cloud.authorization.trusted_labels import TrustedLabels, labels_of


def a_node(name: str, **labels: str) -> JsonObject:
    return {"kind": "Node", "metadata": {"name": name, "labels": labels}}


class Objects:
    """Nodes and NodeGroups."""

    def __init__(self, *nodes: JsonObject, **groups: Any) -> None:
        self.known = {ObjectKey("Node", "", node["metadata"]["name"]): node for node in nodes}
        for name, spec in groups.items():
            self.put(name, spec)

    def put(self, name: str, spec: JsonObject | None) -> None:
        """Make, change or delete a group."""
        key = ObjectKey(NODE_GROUP.key_name, "", name)
        if spec is None:
            del self.known[key]
        else:
            self.known[key] = {"kind": "NodeGroup", "metadata": {"name": name}, "spec": spec}


@pytest.mark.parametrize(
    ("spec", "labels", "counting"),
    [
        ({"nodes": ["n1"]}, {BELONGING_TO: "bank"}, {BELONGING_TO}),
        ({"nodes": ["n2"]}, {BELONGING_TO: "bank"}, set()),
        ({"nodes": ["n2"]}, {BELONGING_TO: "bank", "site": "west"}, {"site"}),
        ({"nodes": ["n2"]}, {BELONGING_TO: "by-hand"}, {BELONGING_TO}),
        ({"matchLabels": {"site": "west"}}, {BELONGING_TO: "bank", "site": "west"}, {BELONGING_TO, "site"}),
        ({"matchLabels": {BELONGING_TO: "bank"}}, {BELONGING_TO: "bank"}, {BELONGING_TO}),
        ({"matchLabels": {}}, {BELONGING_TO: "bank"}, set()),
        ({"nodes": ["n2"], "topologyEnabled": True}, {ZONE: "bank"}, set()),
        ({"nodes": ["n1"], "topologyEnabled": True}, {ZONE: "bank"}, {ZONE}),
        ({"nodes": ["n2"], "topologyEnabled": True}, {ZONE: "own"}, {ZONE}),
        ({"nodes": ["n2"]}, {ZONE: "bank"}, {ZONE}),
        ({}, {HOSTNAME: "n1"}, {HOSTNAME}),
        ({}, {HOSTNAME: "n2"}, set()),
        ({}, {HOSTNAME: "host-1"}, {HOSTNAME}),
    ],
)
def test_whoever_lists_nodes_decides(spec: JsonObject, labels: dict[str, str], counting: set[str]) -> None:
    node = a_node("n1", **labels)
    objects = Objects(node, a_node("n2"), bank=spec)
    trusted = TrustedLabels(objects.known.get)
    assert set(trusted.of(node)) == counting
    assert (trusted.node(node) is node) is (counting == set(labels)), "others are no copies"
    assert node["metadata"]["labels"] == labels


def test_of_many_nodes_only_changed_ones_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """All again where a group has changed, or a Node has come whose name is another's hostname."""
    nodes = [a_node(f"n{number}", **{BELONGING_TO: "bank", HOSTNAME: "n9"}) for number in range(3)]
    objects = Objects(*nodes, bank={"nodes": ["n0"]})
    trusted, looks = TrustedLabels(objects.known.get), list[str]()
    look = trusted.node

    def counted(node: JsonObject) -> JsonObject:
        looks.append(node["metadata"]["name"])
        return look(node)

    monkeypatch.setattr(trusted, "node", counted)

    def seen() -> tuple[str, list[set[str]]]:
        looks.clear()
        groups = [obj for key, obj in objects.known.items() if key.kind == NODE_GROUP.key_name]
        found = [set(labels_of(node)) for node in trusted.nodes(nodes, groups)]
        return " ".join(looks), found

    both, host = {BELONGING_TO, HOSTNAME}, {HOSTNAME}
    assert seen() == ("n0 n1 n2", [both, host, host])
    assert seen() == ("", [both, host, host])
    nodes[1] = a_node("n1", **{HOSTNAME: "n1"})
    assert seen() == ("n1", [both, host, host])
    objects.put("bank", {"nodes": ["n2"]})
    assert seen() == ("n0 n1 n2", [host, host, both])
    nodes.append(a_node("n9"))
    objects.known[ObjectKey("Node", "", "n9")] = nodes[-1]
    assert seen() == ("n0 n1 n2 n9", [set(), host, {BELONGING_TO}, set()])


def test_the_present_state_of_a_group_decides() -> None:
    node = a_node("n1", **{BELONGING_TO: "bank"})
    objects = Objects(node, bank={"nodes": ["n1"]})
    trusted = TrustedLabels(objects.known.get)
    states: list[JsonObject | None] = [{"nodes": ["n1"]}, {"nodes": ["n2"]}, {"nodes": ["n1", "n2"]}, None, {}]
    seen = []
    for spec in states:
        objects.put("bank", spec)
        seen.append(trusted.of(node).get(BELONGING_TO))
    assert seen == ["bank", None, "bank", "bank", None]
    objects.put("bank", None)
    trusted.of(node)
    assert not trusted._selectors, "of a group that is gone nothing is kept"


def test_a_node_that_takes_the_place_of_another_takes_its_hostname_from_others() -> None:
    other, gone, come = a_node("a", **{HOSTNAME: "b"}), a_node("c"), a_node("b")
    objects = Objects(other, gone)
    trusted = TrustedLabels(objects.known.get)
    assert labels_of(trusted.nodes([other, gone], [])[0]) == {HOSTNAME: "b"}
    objects.known.clear()
    objects.known |= Objects(other, come).known
    assert labels_of(trusted.nodes([other, come], [])[0]) == {}
