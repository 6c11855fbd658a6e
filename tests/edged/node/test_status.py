"""What the node says of itself."""

from fractions import Fraction
from pathlib import Path
from unittest.mock import Mock, patch

import pytest
from msgspec.structs import replace

from edged.eviction_api.signals import Pressure
from edged.eviction_api.thresholds import DEFAULT_HARD, EvictionSettings, parse_thresholds
from edged.node.lease import new_lease, renewed_lease
from edged.node.machine import FileSystem, MachineFacts, read_machine, read_usage
from edged.node.status import NodeReport, node_object, node_status, node_status_has_changed
from modules.apimachinery.types import Nanoseconds, NodeStatus, encode
from modules.apimachinery.types.nodes import Taint

NOW = Nanoseconds(1_795_139_667_000_000_000)
LATER = Nanoseconds(NOW + 60_000_000_000)
MACHINE = MachineFacts(
    machine_id="m", system_uuid="s", boot_id="b", kernel="6.1", os_image="Debian", architecture="amd64",
    cpus=2, memory=8 << 30, storage=100 << 30, addresses=("192.0.2.2",),
)  # fmt: skip
EVICTION = EvictionSettings(thresholds=parse_thresholds(DEFAULT_HARD))
REPORT = NodeReport(
    machine=MACHINE, eviction=EVICTION, node_name="n1", max_pods=110, port=10255, agent_version="v1",
    runtime_version="containerd://1.6",
)  # fmt: skip


def condition(status: NodeStatus, kind: str) -> tuple[str, str]:
    found = next(c for c in status.conditions if c.type == kind)
    return found.status, found.reason


def test_a_healthy_node_is_ready_and_under_no_pressure() -> None:
    status = node_status(REPORT, NodeStatus(), NOW)
    assert condition(status, "Ready") == ("True", "EdgeReady")
    assert condition(status, "MemoryPressure") == ("False", "KubeletHasSufficientMemory")
    assert condition(status, "DiskPressure") == ("False", "KubeletHasNoDiskPressure")
    assert condition(status, "PIDPressure") == ("False", "KubeletHasSufficientPID")


@pytest.mark.parametrize("pressure", list(Pressure))
def test_pressures_are_conditions_of_the_node(pressure: Pressure) -> None:
    status = node_status(replace(REPORT, pressures=frozenset({pressure})), NodeStatus(), NOW)
    assert [c.type for c in status.conditions if c.status == "True"] == [pressure, "Ready"]


def test_reserved_resources_are_not_allocatable() -> None:
    """Beside what evictions keep free; the capacity is what it is."""
    reserved = {"cpu": Fraction("0.5"), "memory": Fraction(1 << 30), "ephemeral-storage": Fraction(10 << 30)}
    status = node_status(replace(REPORT, reserved=reserved), NodeStatus(), NOW)
    assert (status.capacity["cpu"], status.allocatable["cpu"]) == ("2", "1500m")
    assert status.allocatable["memory"] == f"{((7 << 30) - (100 << 20)) // 1024}Ki"
    assert status.allocatable["ephemeral-storage"] == str(80 << 30)
    greedy = node_status(replace(REPORT, reserved={"cpu": Fraction(9), "memory": Fraction(1 << 40)}), NodeStatus(), NOW)
    assert (greedy.allocatable["cpu"], greedy.allocatable["memory"]) == ("0", "0Ki")


def test_huge_pages_are_resources_and_no_other_memory() -> None:
    """As with a kubelet; those that are reserved are for others than pods."""
    machine = replace(MACHINE, huge_pages={"hugepages-2Mi": 1 << 30})
    plain, huge = (node_status(replace(REPORT, machine=each), NodeStatus(), NOW) for each in (MACHINE, machine))
    assert (huge.capacity["hugepages-2Mi"], huge.allocatable["hugepages-2Mi"]) == (str(1 << 30), str(1 << 30))
    assert huge.capacity["memory"] == plain.capacity["memory"]
    assert huge.allocatable["memory"] == f"{((7 << 30) - (100 << 20)) // 1024}Ki"
    reserved = node_status(
        replace(REPORT, machine=machine, reserved={"hugepages-2Mi": Fraction(1 << 20)}), NodeStatus(), NOW
    )
    assert reserved.allocatable["hugepages-2Mi"] == str((1 << 30) - (1 << 20))


@pytest.mark.parametrize(
    ("problems", "told"),
    [
        ({"runtime_problem": "the socket is gone"}, "the socket is gone"),
        ({"network_problem": "no CNI"}, "no CNI"),
        ({"shutdown_problem": "it ends"}, "it ends"),
        ({"network_problem": "no CNI", "runtime_problem": "it is down"}, "[it is down, no CNI]"),
        ({"network_problem": "n", "runtime_problem": "r", "shutdown_problem": "s"}, "[r, n, s]"),
    ],
)
def test_the_problems_of_a_node_that_is_not_ready_are_told_together(problems: dict[str, str], told: str) -> None:
    """As a kubelet joins its errors: who mends the runtime learns of the network at once."""
    status = node_status(replace(REPORT, **problems), NodeStatus(), NOW)
    ready = next(c for c in status.conditions if c.type == "Ready")
    assert (ready.status, ready.reason, ready.message) == ("False", "EdgeNotReady", told)


def test_transition_times_stay_while_nothing_changes_and_move_when_it_does() -> None:
    first = node_status(REPORT, NodeStatus(), NOW)
    second = node_status(REPORT, first, LATER)
    third = node_status(replace(REPORT, runtime_problem="down"), second, LATER)
    assert second.conditions[3].last_transition_time == first.conditions[3].last_transition_time
    assert second.conditions[3].last_heartbeat_time != first.conditions[3].last_heartbeat_time
    assert third.conditions[3].last_transition_time != first.conditions[3].last_transition_time
    unknown = replace(first, conditions=tuple(replace(each, status="Unknown") for each in first.conditions))
    fourth = node_status(REPORT, unknown, LATER)
    assert fourth.conditions[3].last_transition_time == fourth.conditions[3].last_heartbeat_time, "others set it"


def test_heartbeats_alone_are_not_worth_sending() -> None:
    first = node_status(REPORT, NodeStatus(), NOW)
    assert node_status_has_changed(first, None)
    assert not node_status_has_changed(node_status(REPORT, first, LATER), first)
    assert node_status_has_changed(node_status(replace(REPORT, max_pods=5), first, LATER), first)


def test_amounts_and_ports_are_such_as_an_api_server_takes() -> None:
    """Memory of a machine need not be a multiple of 1024 bytes, and a port below 0 is none."""
    machine = replace(MACHINE, memory=(8 << 30) + 1)
    status = node_status(replace(REPORT, machine=machine, port=-1), NodeStatus(), NOW)
    assert status.capacity["memory"] == f"{(8 << 30) // 1024}Ki"
    assert status.daemon_endpoints.kubelet_endpoint.port == 0


def test_reserves_are_not_allocatable() -> None:
    status = node_status(REPORT, NodeStatus(), NOW)
    assert status.capacity["memory"] == f"{(8 << 30) // 1024}Ki"
    assert status.allocatable["memory"] == f"{((8 << 30) - (100 << 20)) // 1024}Ki"
    assert status.allocatable["ephemeral-storage"] == str(int((100 << 30) * 0.9))


def test_the_object_that_registers_carries_the_labels_of_an_edge_node() -> None:
    node = node_object(REPORT, {"zone": "a", "kubernetes.io/os": "other"}, NOW)
    assert node.metadata.labels["node-role.kubernetes.io/edge"] == ""
    assert node.metadata.labels["kubernetes.io/os"] == "other"
    assert node.metadata.labels["zone"] == "a"
    assert b'"daemonEndpoints":{"kubeletEndpoint":{"Port":10255}}' in encode(node)


@pytest.mark.parametrize(
    ("configured", "schedulable", "effects"),
    [
        ((), True, []),
        ((), False, ["NoSchedule"]),
        (("NoExecute",), False, ["NoExecute", "NoSchedule"]),
        (("NoSchedule", "NoExecute"), False, ["NoSchedule", "NoExecute"]),
        (("NoSchedule",), True, ["NoSchedule"]),
    ],
)
def test_a_node_may_register_as_unschedulable(
    configured: tuple[str, ...], effects: list[str], *, schedulable: bool
) -> None:
    """With the taint of a cordoned node, once: an API server refuses a second one with the same effect."""
    key = "node.kubernetes.io/unschedulable"
    taints = tuple(Taint(key=key, value="mine", effect=effect) for effect in configured)
    spec = node_object(REPORT, {}, NOW, taints=taints, schedulable=schedulable).spec
    assert spec.unschedulable is not schedulable
    assert [(taint.key, taint.effect) for taint in spec.taints] == [(key, effect) for effect in effects]


def test_the_lease_belongs_to_the_node_and_is_renewed_in_place() -> None:
    node = node_object(REPORT, {}, NOW)
    node = replace(node, metadata=replace(node.metadata, uid="u"))
    lease = new_lease(node, 40, NOW)
    later = renewed_lease(lease, node, 40, LATER)
    assert lease.metadata.owner_references[0].uid == "u"
    assert lease.spec.renew_time == "2026-11-20T01:54:27.000000Z"
    assert later.spec.renew_time == "2026-11-20T01:55:27.000000Z"
    assert later.metadata == lease.metadata
    assert renewed_lease(lease, node, 60, LATER).spec.lease_duration_seconds == 60, "the configuration has changed"
    known = replace(lease, metadata=replace(lease.metadata, uid="l", resource_version="7", creation_timestamp="then"))
    sent = renewed_lease(known, node, 40, LATER).metadata
    assert sent == replace(lease.metadata, resource_version="7"), "what an update cannot change is not sent"
    again = replace(node, metadata=replace(node.metadata, uid="another"))
    assert renewed_lease(known, again, 40, LATER).metadata.owner_references[0].uid == "another"
    other = replace(lease.metadata.owner_references[0], kind="ConfigMap", uid="c")
    for owners, expected in (((), "u"), ((other,), "c")):
        found = replace(known, metadata=replace(known.metadata, owner_references=owners))
        assert [owner.uid for owner in renewed_lease(found, node, 40, LATER).metadata.owner_references] == [expected]


def test_this_machine_can_be_read(tmp_path: Path) -> None:
    machine, usage = read_machine(tmp_path), read_usage(tmp_path)
    assert machine.cpus >= 1
    assert machine.memory == usage.memory > usage.memory_available > 0
    assert machine.storage == usage.node_fs.capacity >= usage.node_fs.available > 0
    assert machine.addresses
    assert 0 < usage.pids_free < usage.pids
    assert usage.image_fs is None
    assert usage.images is usage.node_fs


def test_blocks_that_only_root_may_use_are_not_available(tmp_path: Path) -> None:
    figures = Mock(f_bavail=3, f_bfree=5, f_blocks=7, f_frsize=4096, f_favail=11, f_ffree=13, f_files=17)
    with patch("os.statvfs", return_value=figures):
        assert read_usage(tmp_path).node_fs == FileSystem(3 * 4096, 7 * 4096, 11, 17)


def test_images_on_a_file_system_of_their_own_are_measured_apart(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    assert read_usage(tmp_path, tmp_path / "images").image_fs is None
    assert read_usage(tmp_path, Path("/proc")).image_fs is not None


def test_a_configured_address_wins(tmp_path: Path) -> None:
    assert read_machine(tmp_path, "198.51.100.7").addresses == ("198.51.100.7",)
