"""The part of a Node that the pages keep."""

from modules.apimachinery.printing.fields import map_at
from modules.insight.fleet.facts import LinkKnowledge, linked_row
from modules.insight.fleet.rows import PodCount
from modules.page.nodes import short_node


def test_labels_by_which_nodes_are_searched_are_kept() -> None:
    """Those that every node has are not, but the zone; a node that invents a thousand fills no memory."""
    labels = {"Site": "s7", "apps.kubeedge.io/belonging-to": "north", "topology.kubernetes.io/zone": "z"}
    node = {"metadata": {"name": "n1", "labels": {**labels, "kubernetes.io/hostname": "n1"}}}
    kept = short_node(node).object()
    assert map_at(kept, "metadata.labels") == labels
    found = linked_row("n1", kept, LinkKnowledge(), PodCount(), 0.0)
    assert (found.zone, found.labels) == ("z", ("Site=s7", "apps.kubeedge.io/belonging-to=north"))
    many = {"metadata": {"name": "n1", "labels": {f"l{number}": "x" for number in range(1000)}}}
    assert len(map_at(short_node(many).object(), "metadata.labels")) == 33
