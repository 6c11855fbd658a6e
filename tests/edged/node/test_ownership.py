"""Which parts of its Node object a node decides: pure functions, as a kubelet reconciles."""

import pytest
from msgspec.structs import replace

from edged.devices.model import DeviceCapacity
from edged.node.ownership import is_newer, with_foreign_resources
from edged.node.status import NodeReport, node_object, node_status, node_status_has_changed
from edged.pods.pod_status.patch import diff_node
from modules.apimachinery.types import Node, NodeCondition, NodeStatus, ObjectMeta
from modules.apimachinery.types.nodes import DaemonEndpoint, NodeDaemonEndpoints, Taint
from modules.apimachinery.types.times import Time
from tests.edged.node.test_status import LATER, NOW, REPORT

NETWORK = NodeCondition(type="NetworkUnavailable", status="False", reason="CalicoIsUp", message="up")
FRESH = node_status(REPORT, NodeStatus(), NOW)


def seen(status: NodeStatus = FRESH, report: NodeReport = REPORT) -> NodeStatus:
    """The status now, when the cloud shows it so."""
    return node_status(report, status, LATER, own_port=False)


def changed(kind: str, **fields: str) -> NodeStatus:
    """The status with a condition that somebody has written over."""
    conditions = tuple(replace(c, **fields) if c.type == kind else c for c in FRESH.conditions)
    return replace(FRESH, conditions=conditions)


@pytest.mark.parametrize("kind", ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"])
def test_a_condition_that_somebody_has_written_over_is_put_right(kind: str) -> None:
    """With a transition now: the node controller's Unknown was one too."""
    lost = changed(kind, status="Unknown", reason="NodeStatusUnknown")
    now = seen(lost)
    assert node_status_has_changed(now, lost)
    before, after = ({c.type: c for c in status.conditions}[kind] for status in (FRESH, now))
    assert (after.status, after.reason) == (before.status, before.reason)
    assert after.last_transition_time == after.last_heartbeat_time != before.last_transition_time


def test_others_conditions_stay_and_so_does_their_place() -> None:
    shown = replace(FRESH, conditions=(NETWORK, *FRESH.conditions))
    now = seen(shown)
    assert now.conditions[0] == NETWORK
    assert not node_status_has_changed(now, shown)
    late = replace(FRESH, conditions=FRESH.conditions[:2])
    assert [c.type for c in seen(late).conditions] == [c.type for c in FRESH.conditions]
    patch = diff_node(Node(status=shown), Node(status=seen(replace(shown, capacity={}))))
    assert patch is not None
    assert "$patch" not in patch.replace('"$patch":"replace"', "")


@pytest.mark.parametrize(
    "change",
    [
        {"capacity": {**FRESH.capacity, "pods": "7"}},
        {"capacity": {**FRESH.capacity, "pods": "many"}},
        {"allocatable": {}},
        {"addresses": ()},
        {"node_info": replace(FRESH.node_info, kubelet_version="v0")},
        {"volumes_in_use": ("kubernetes.io/csi/d^v",)},
    ],
)
def test_parts_that_the_node_decides_are_corrected(change: dict[str, object]) -> None:
    shown = replace(FRESH, **change)
    assert node_status_has_changed(seen(shown), shown)
    assert not node_status_has_changed(seen(shown), FRESH)


def test_parts_that_others_decide_stay() -> None:
    """Attached volumes, the phase, extended resources that an administrator patched in, the tunnel's port."""
    port = NodeDaemonEndpoints(kubelet_endpoint=DaemonEndpoint(port=10351))
    shown = replace(
        FRESH,
        phase="Running",
        daemon_endpoints=port,
        capacity={**FRESH.capacity, "example.com/dongle": "4"},
        allocatable={**FRESH.allocatable, "example.com/dongle": "4"},
    )
    assert not node_status_has_changed(seen(shown), shown)
    assert seen(replace(shown, allocatable=FRESH.allocatable)).allocatable["example.com/dongle"] == "4"
    assert node_status(REPORT, shown, NOW).daemon_endpoints == FRESH.daemon_endpoints, "when it registers"


def test_devices_are_the_nodes_own() -> None:
    shown = replace(FRESH, capacity={**FRESH.capacity, "example.com/gpu": "2"})
    now = seen(shown, replace(REPORT, devices={"example.com/gpu": DeviceCapacity(1, 1)}))
    assert now.capacity["example.com/gpu"] == now.allocatable["example.com/gpu"] == "1"


def test_an_amount_in_another_notation_is_the_same() -> None:
    """An API server writes 1000 as 1k, and 1048576Ki as 1Gi."""
    own = {"pods": "1000", "memory": "1048576Ki"}
    shown = {"pods": "1k", "memory": "1Gi"}
    assert with_foreign_resources(own, shown, shown) == shown
    assert with_foreign_resources(own, {"pods": "2k"}, {}) == own


def node(uid: str = "u", version: str = "5", made: Time | None = None) -> Node:
    return Node(metadata=ObjectMeta(name="n1", uid=uid, resource_version=version, creation_timestamp=made))


@pytest.mark.parametrize(
    ("state", "newer"),
    [
        (node(version="5"), True),
        (node(version="10"), True),
        (node(version="4"), False),
        (node(version=""), True),
        (node("other", "1"), True),
        (node("other", "1", made=Time("2026-01-02T00:00:00Z")), True),
        (node("other", "9", made=Time("2025-01-02T00:00:00Z")), False),
        (node("other", "10", made=Time("2026-01-01T00:00:00Z")), True),
        (node("other", "4", made=Time("2026-01-01T00:00:00Z")), False),
        (node("other", "", made=Time("2026-01-01T00:00:00Z")), True),
    ],
)
def test_no_older_state_takes_the_place_of_a_newer_one(state: Node, *, newer: bool) -> None:
    """Of two objects of the name the later made one counts: a cloud that has lost its database begins to count anew. Of
    two objects of one second, the one with the higher version counts.
    """
    known = node(made=Time("2026-01-01T00:00:00Z"))
    assert is_newer(state, known) is newer
    assert is_newer(state, None)


def test_a_new_node_has_its_taints() -> None:
    mine = Taint(key="edge", value="far", effect="NoExecute")
    assert node_object(REPORT, {}, NOW, taints=(mine,)).spec.taints == (mine,)
    cordoned = node_object(REPORT, {}, NOW, taints=(mine,), schedulable=False).spec
    assert [taint.key for taint in cordoned.taints] == ["edge", "node.kubernetes.io/unschedulable"]
