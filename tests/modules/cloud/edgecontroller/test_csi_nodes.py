"""The CSINode of a node names the storage drivers that the node reports, whatever the node writes into annotations."""

import json
from typing import Any

import pytest
from msgspec import Raw

from modules.apimachinery.csi_drivers import DRIVERS_ANNOTATION, NODE_ID_ANNOTATION
from modules.apimachinery.kinds import JsonObject, ObjectKey, uid_of
from tests.modules.cloud.edgecontroller.cluster_server import ClusterController
from tests.modules.cloud.objects import node

KEY = ObjectKey("CSINode", "", "n1")


def reports(core: ClusterController, ids: Any, notes: Any = None) -> list[JsonObject] | None:
    """A node's patch of its annotations; returns the drivers of its CSINode, None without one."""
    values = {NODE_ID_ANNOTATION: ids, DRIVERS_ANNOTATION: notes}
    annotations = {
        name: value if isinstance(value, str | None) else json.dumps(value) for name, value in values.items()
    }
    patch = json.dumps({"metadata": {"annotations": annotations}})
    core.asks("default/nodepatch/n1", "patch", Raw(json.dumps(patch).encode()))
    core.bee.settle()
    return drivers(core)


def drivers(core: ClusterController) -> list[JsonObject] | None:
    found = core.server.cluster.storage.find(KEY)
    return None if found is None else found["spec"]["drivers"]


def test_drivers_come_change_and_go(core: ClusterController) -> None:
    """A driver is not changed in place: an API server refuses that."""
    core.asks("null/node/n1", "insert", node())
    disks = {"name": "disks", "nodeID": "d-1", "topologyKeys": ["zone"], "allocatable": {"count": 8}}
    notes = {"disks": {"topologyKeys": ["zone"], "count": 8}}
    assert reports(core, {"disks": "d-1"}, notes) == [disks]
    assert reports(core, {"disks": "d-1", "nfs": "n1"}, notes) == [disks, {"name": "nfs", "nodeID": "n1"}]
    assert reports(core, {"disks": "d-2"}) == [{"name": "disks", "nodeID": "d-2"}]
    assert reports(core, None) == []


@pytest.mark.parametrize(
    ("ids", "notes", "left"),
    [
        ("no JSON", None, True), (["disks"], None, True), ({"disks": 1}, None, True),
        ({"disks": "d-1"}, {"disks": {"count": "many"}}, True),
        ({f"d{number}": "d" for number in range(101)}, None, True),
        ({"disks": "d" * 300}, None, False), ({"no name of a driver": "d-1"}, None, False),
        ({"disks": "d-1"}, {"disks": {"count": 2**31}}, True),
        ({"disks": "d-1"}, {"disks": {"topologyKeys": ["/"]}}, False),
    ],
)  # fmt: skip
def test_what_no_csi_node_can_have_is_in_none(core: ClusterController, ids: Any, notes: Any, *, left: bool) -> None:
    """What cannot be read leaves the CSINode as it is."""
    core.asks("null/node/n1", "insert", node())
    before = reports(core, {"disks": "d-1"})
    assert reports(core, ids, notes) == (before if left else [])


def test_one_that_was_deleted_is_made_when_the_node_registers(core: ClusterController) -> None:
    core.asks("null/node/n1", "insert", node())
    before = reports(core, {"disks": "d-1"})
    core.server.remove("csinode", "n1")
    core.asks("null/node/n1", "insert", node())
    core.bee.settle()
    assert drivers(core) == before == [{"name": "disks", "nodeID": "d-1"}]


def test_the_node_owns_it_and_not_one_that_had_its_name(core: ClusterController) -> None:
    """The garbage collector deletes it with its owner."""
    for _ in range(2):
        core.asks("null/node/n1", "insert", node())
        reports(core, {"disks": "d-1"})
        (owner,) = core.server.cluster.storage.get(KEY)["metadata"]["ownerReferences"]
        assert owner["uid"] == uid_of(core.server.cluster.storage.get(ObjectKey("Node", "", "n1")))
        core.removed("nodes", "n1")
        core.bee.settle()
