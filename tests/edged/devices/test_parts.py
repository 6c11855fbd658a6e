"""Rules, choices, the pod_devices and its file: without any plug-in."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beehive.files.damaged import all_set_aside
from edged.devices import pod_devices
from edged.devices.inventory import DevicePool, Inventory, choose, has_choice, missing, reusable
from edged.devices.manager import merged_options
from edged.devices.model import GRACE_SECONDS, Device, DeviceAllocation, DeviceCapacity, PluginOptions
from edged.devices.pod_devices import Checkpoint, PodDevices, read_checkpoint, write_checkpoint
from edged.devices.rules import check_resource, endpoint_in, is_extended_resource, requested_devices
from edged.errors import RegistrationError
from edged.pods.config.device_options import DeviceMount, DeviceNode, DeviceRunContainerOptions
from edged.pods.model import PodUid
from modules.apimachinery.types import Container, Pod, from_value
from tests.edged.conftest import pod
from tests.support.shortages import lack
from tests.support.spoiling import SPOILT, Spoil

UID = PodUid("u")
IDS = st.frozensets(st.sampled_from("abcdefgh"))


@pytest.mark.parametrize(
    ("name", "extended"),
    [
        ("example.com/dev", True),
        ("nvidia.com/gpu", True),
        ("vendor/x_1.y-z", True),
        ("cpu", False),
        ("hugepages-2Mi", False),
        ("kubernetes.io/dev", False),
        ("attachable.kubernetes.io/dev", False),
        ("requests.example.com/dev", False),
        ("example.com/", False),
        ("example.com/a/b", False),
        ("Example.com/dev", False),
        ("example.com/-dev", False),
        (f"example.com/{'d' * 64}", False),
        (f"{'e' * 250}.com/dev", False),
    ],
)
def test_which_resources_are_devices(name: str, extended: bool) -> None:
    assert is_extended_resource(name) is extended


def test_only_whole_devices_of_the_limits_count() -> None:
    limits = {"cpu": "1", "b.example/x": "2", "a.example/x": "1", "c.example/x": "0"}
    container = from_value(Container, {"name": "c", "resources": {"limits": limits, "requests": {"d.example/x": "1"}}})
    assert list(requested_devices(container).items()) == [("a.example/x", 1), ("b.example/x", 2)]


@pytest.mark.parametrize(
    ("resource", "versions", "problem"),
    [
        ("example.com/dev", ("v1beta1",), None),
        ("example.com/dev", ("v1alpha", "v1beta1"), None),
        ("example.com/dev", ("v1alpha",), "requested API version 'v1alpha' is not supported"),
        ("example.com/dev", (), "is not supported"),
        ("cpu", ("v1beta1",), "the ResourceName 'cpu' is invalid"),
    ],
)
def test_which_plugins_are_taken(resource: str, versions: tuple[str, ...], problem: str | None) -> None:
    if problem is None:
        check_resource(resource, versions)
        return
    with pytest.raises(RegistrationError, match=problem):
        check_resource(resource, versions)


@pytest.mark.parametrize(
    "endpoint", ["", ".", "..", "/tmp/x.sock", "../x.sock", "a/b", "kubelet.sock", "kubelet_internal_checkpoint"]
)
def test_a_plugin_names_a_socket_of_its_own_in_the_directory(endpoint: str) -> None:
    assert endpoint_in(Path("/d"), "x.sock", "r") == Path("/d/x.sock")
    with pytest.raises(RegistrationError):
        endpoint_in(Path("/d"), endpoint, "r")
    assert endpoint_in(Path("/" + "d" * 100), "5.soc", "r")
    with pytest.raises(RegistrationError, match="107 bytes"):
        endpoint_in(Path("/" + "d" * 100), "6.sock", "r")


def room(healthy: str, taken: str = "", mine: str = "") -> DevicePool:
    return DevicePool(frozenset(healthy), frozenset(taken), frozenset(mine))


@pytest.mark.parametrize(
    ("there", "count", "preferred", "chosen"),
    [
        (room("abc"), 2, "", "ab"),
        (room("abc", taken="a"), 2, "", "bc"),
        (room("abc"), 1, "c", "c"),
        (room("abc"), 2, "c", "ac"),
        (room("abc", taken="c"), 1, "c", "a"),
        (room("abc", taken="c", mine="c"), 1, "a", "c"),
        (room("abc", taken="bc", mine="c"), 2, "", "ac"),
        (room("ab", taken="c", mine="c"), 1, "", "a"),
        (room("abc"), 4, "", None),
        (room("abc", taken="ab"), 2, "", None),
        (room(""), 1, "", None),
    ],
)
def test_which_devices_are_chosen(there: DevicePool, count: int, preferred: str, chosen: str | None) -> None:
    """First the pod's own devices, then preferred ones, then the others by name; or nothing."""
    assert choose(there, count, frozenset(preferred)) == (None if chosen is None else frozenset(chosen))


@given(IDS, IDS, IDS, IDS, st.integers(1, 8))
def test_chosen_devices_are_healthy_and_free(
    healthy: frozenset[str], taken: frozenset[str], mine: frozenset[str], preferred: frozenset[str], count: int
) -> None:
    """As many healthy and free devices as requested, or none if there are too few."""
    there = DevicePool(healthy, taken | mine, mine)
    chosen = choose(there, count, preferred)
    possible = healthy - (taken - mine)
    assert missing(there, count) == max(0, count - len(possible))
    if chosen is None:
        assert len(possible) < count
        return
    assert len(chosen) == count
    assert chosen <= possible
    assert (mine & healthy) <= chosen or chosen <= mine
    assert has_choice(there, count) or chosen in (possible, chosen & mine)


def spec_of(*init: tuple[str, bool], regular: tuple[str, ...] = ("main",)) -> Pod:
    inits = [{"name": n, "image": "i", **({"restartPolicy": "Always"} if sidecar else {})} for n, sidecar in init]
    return from_value(Pod, pod(initContainers=inits, containers=[{"name": n, "image": "i"} for n in regular]))


@pytest.mark.parametrize(
    ("wanted", "container", "had", "found"),
    [
        (spec_of(("i", False)), "main", {"i": "ab"}, "ab"),
        (spec_of(("i", True)), "main", {"i": "ab"}, ""),
        (spec_of(("i", False), ("j", False)), "j", {"i": "a"}, "a"),
        (spec_of(("i", False), ("s", True)), "main", {"i": "ab", "s": "a"}, "b"),
        (spec_of(("i", False), regular=("one", "two")), "two", {"i": "ab", "one": "a"}, "b"),
        (spec_of(regular=("one", "two")), "two", {"one": "a"}, ""),
        (spec_of(("i", False)), "i", {"i": "a", "main": "b"}, ""),
    ],
)
def test_devices_of_init_containers_are_used_again(wanted: Pod, container: str, had: Any, found: str) -> None:
    held = {name: frozenset(ids) for name, ids in had.items()}
    assert reusable(wanted, container, held) == frozenset(found)


def test_the_options_of_several_resources_are_merged(caplog: pytest.LogCaptureFixture) -> None:
    """Of two options with the same name or path, the first wins."""
    one = DeviceRunContainerOptions(
        {"A": "1"}, (DeviceMount("/m", "/one"),), (DeviceNode("/dev/x", "/dev/one", "rw"),), {"k": "1"}, ("c",)
    )
    two = DeviceRunContainerOptions(
        {"A": "2", "B": "2"}, (DeviceMount("/m", "/two"), DeviceMount("/n", "/two")), (), {}, ("c", "d")
    )
    both = merged_options([one, two])
    assert both.envs == {"A": "1", "B": "2"}
    assert [(m.container_path, m.host_path) for m in both.mounts] == [("/m", "/one"), ("/n", "/two")]
    assert (both.nodes, both.annotations, both.cdi_devices) == (one.nodes, {"k": "1"}, ("c", "d"))
    assert caplog.text.count("the first is used") == 2


class _NoPlugin:
    """Stands for a connection; nobody calls it here."""


def an_inventory(*devices: Device) -> tuple[Inventory, Any]:
    inventory, plugin = Inventory({}, 0.0), _NoPlugin()
    inventory.connected("r/x", plugin, PluginOptions())  # type: ignore[arg-type]
    inventory.listed("r/x", plugin, devices)  # type: ignore[arg-type]
    return inventory, plugin


def test_a_resource_that_has_vanished_stays_a_plugins_over_a_restart() -> None:
    """A pod that wants it waits, and does not start without a device."""
    inventory, plugin = an_inventory(Device("a"))
    inventory.disconnected("r/x", plugin, 0.0)
    assert inventory.capacity(GRACE_SECONDS) == {"r/x": DeviceCapacity(0, 0)}
    assert Inventory(inventory.devices(), 0.0).is_known("r/x")


def test_broken_devices_are_there_and_cannot_be_given() -> None:
    inventory, plugin = an_inventory(Device("a"), Device("b", healthy=False))
    assert inventory.capacity(0.0) == {"r/x": DeviceCapacity(2, 1)}
    assert not inventory.listed("r/x", plugin, (Device("a"), Device("b", healthy=False)))
    assert inventory.listed("r/x", plugin, (Device("a"),))
    assert inventory.capacity(0.0) == {"r/x": DeviceCapacity(1, 1)}


def test_a_plugin_that_goes_is_waited_for_and_then_its_devices_are_gone() -> None:
    """Five minutes long they are there and broken, and new pods may hope for them; then the node shows 0."""
    inventory, plugin = an_inventory(Device("a"), Device("b", healthy=False))
    assert inventory.disconnected("r/x", plugin, 100.0)
    end = 100.0 + GRACE_SECONDS
    assert (inventory.capacity(end - 1), inventory.expected(end - 1)) == ({"r/x": DeviceCapacity(2, 0)}, {"r/x": 1})
    assert (inventory.capacity(end), inventory.expected(end)) == ({"r/x": DeviceCapacity(0, 0)}, {})
    assert inventory.get("r/x") is None
    inventory.connected("r/x", plugin, PluginOptions())
    inventory.listed("r/x", plugin, [Device("c")])
    assert inventory.capacity(end) == {"r/x": DeviceCapacity(1, 1)}


def test_of_devices_that_the_former_agent_knew_all_may_be_hoped_for() -> None:
    """How they were then may be long past; none counts, or can be given, before their plug-in has reported."""
    inventory = Inventory({"r/x": (Device("a", healthy=False), Device("b"))}, 0.0)
    assert (inventory.capacity(1.0), inventory.expected(1.0)) == ({"r/x": DeviceCapacity(0, 0)}, {"r/x": 2})
    assert inventory.expected(GRACE_SECONDS) == {}
    _, plugin = an_inventory()
    inventory.connected("r/x", plugin, PluginOptions())
    assert inventory.capacity(1.0) == {"r/x": DeviceCapacity(0, 0)}
    inventory.listed("r/x", plugin, [Device("a"), Device("b", healthy=False)])
    inventory.disconnected("r/x", plugin, 1.0)
    assert inventory.capacity(1.0) == {"r/x": DeviceCapacity(2, 0)}


def test_a_replaced_plugin_is_no_longer_read() -> None:
    inventory, former = an_inventory(Device("a"))
    plugin: Any = _NoPlugin()
    replaced: Any = inventory.connected("r/x", plugin, PluginOptions())
    assert replaced is former
    assert not inventory.listed("r/x", former, ())
    assert not inventory.disconnected("r/x", former, 0.0)
    assert inventory.capacity(0.0) == {"r/x": DeviceCapacity(1, 1)}


def test_the_file_holds_everything_and_only_the_owner_may_read_it(tmp_path: Path) -> None:
    grant = DeviceAllocation(
        (Device("a", numa=(0, 1)),), DeviceRunContainerOptions({"A": "1"}, (DeviceMount("/m", "/h", read_only=True),))
    )
    file = tmp_path / "checkpoint"
    written = Checkpoint({"r/x": (Device("a"),)}, {UID: {"main": {"r/x": grant}}})
    assert read_checkpoint(file, file.parent) == Checkpoint()
    write_checkpoint(file, written)
    assert file.stat().st_mode & 0o777 == 0o600
    read = read_checkpoint(file, file.parent)
    assert (list(read.devices["r/x"]), read.pods) == ([Device("a")], written.pods)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint"]


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT)
def test_a_file_that_cannot_be_read_counts_as_none(
    tmp_path: Path, spoil: Spoil, caplog: pytest.LogCaptureFixture
) -> None:
    """It is set aside, so that the next can be written."""
    file = tmp_path / "c"
    written = Checkpoint({"r/x": (Device("a"),)}, {})
    write_checkpoint(file, written)
    spoil(file)
    assert read_checkpoint(file, tmp_path) == Checkpoint()
    write_checkpoint(file, written)
    assert read_checkpoint(file, tmp_path).devices.keys() == {"r/x"}
    if all_set_aside(tmp_path):
        assert "no device counts as allocated" in caplog.text


def test_a_file_that_cannot_be_read_for_want_of_descriptors_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, written = tmp_path / "c", Checkpoint({"r/x": (Device("a"),)}, {})
    write_checkpoint(file, written)
    with monkeypatch.context() as patch, pytest.raises(OSError, match="Too many open files"):
        lack(patch, pod_devices)
        read_checkpoint(file, tmp_path)
    assert read_checkpoint(file, tmp_path).devices.keys() == {"r/x"}
    assert all_set_aside(tmp_path) == []


@pytest.mark.parametrize("content", [b"[]", b'{"pods": 1}'])
def test_a_file_with_other_content_counts_as_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "c").write_bytes(content)
    assert read_checkpoint(tmp_path / "c", tmp_path) == Checkpoint()
    assert [path.name for path in all_set_aside(tmp_path)] == ["c.1"]


def test_pod_devices() -> None:
    """Reserved and allocated devices are taken, until they are released or removed, or their pod has ended."""
    pod_devices = PodDevices()
    pod_devices.reserve("r/x", frozenset("a"))
    pod_devices.insert(UID, "main", "r/x", DeviceAllocation((Device("b"),)))
    assert pod_devices.in_use("r/x") == {"a", "b"}
    assert pod_devices.held(UID, "r/x") == {"main": frozenset("b")}
    pod_devices.release("r/x", frozenset("a"))
    assert pod_devices.in_use("r/x") == {"b"}
    assert pod_devices.in_use("r/y") == set()
    pod_devices.remove(UID, "main", "r/x")
    assert pod_devices.pods() == {}
    pod_devices.insert(UID, "main", "r/x", DeviceAllocation((Device("b"),)))
    assert pod_devices.delete(UID)
    assert not pod_devices.delete(UID)
