"""The device manager when a plug-in, the disk or edged itself fails half-way."""

from collections.abc import Set as AbstractSet
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn, cast
from unittest.mock import patch

import pytest

from beehive.simulation import Simulation
from edged.devices.contract import DevicePlugin
from edged.devices.manager import DeviceManager
from edged.devices.model import Device, DeviceCapacity, PluginOptions
from edged.devices.node_devices import DeviceReader
from edged.devices.pod_devices import Checkpoint, read_checkpoint
from edged.errors import DevicesPendingError, PluginCallError, RegistrationError
from edged.pods.model import PodUid
from modules.apimachinery.types import Pod, from_value
from tests.edged.conftest import pod
from tests.edged.devices.fake_plugins import RESOURCE, FakeDevicePlugin
from tests.edged.devices.test_laws import wanting

UID = PodUid("uid-p0")
FULL_DISK = patch("edged.devices.manager.write_checkpoint", side_effect=OSError("the disk is full"))


class World:
    """A manager, and a plug-in with devices."""

    def __init__(self, directory: Path, *devices: str) -> None:
        self.file = directory / "checkpoint"
        self.simulation = Simulation(1)
        self.changes = 0
        self.manager = DeviceManager(self.simulation.clock, self.file, Checkpoint(), self._changed)
        self.double = FakeDevicePlugin(self.simulation)
        self.connection = self.connect()
        self.list(*devices)

    def _changed(self) -> None:
        self.changes += 1

    def connect(self) -> DevicePlugin:
        connection = self.double.connect()
        self.manager.connect(RESOURCE, connection)
        self.connection = connection
        return connection

    def list(self, *devices: str) -> None:
        self.manager.listed(RESOURCE, self.connection, tuple(map(Device, devices)))

    def written(self) -> Checkpoint:
        return read_checkpoint(self.file, self.file.parent)


def test_an_agent_that_stops_takes_no_plugin(tmp_path: Path) -> None:
    """Its connection would stay open; the plug-in registers with the next agent."""
    world = World(tmp_path, "a")
    world.manager.close()
    with pytest.raises(RegistrationError, match="edged is stopping"):
        world.connect()


def test_a_plugin_whose_report_cannot_be_read_is_disconnected(tmp_path: Path) -> None:
    world = World(tmp_path, "a")
    with patch.object(type(world.connection), "watch", side_effect=RuntimeError("a bug")):
        world.simulation.start(DeviceReader, RESOURCE, world.connection, world.manager, name="reader")
        world.simulation.run_for(1)
    assert world.manager.capacity() == {RESOURCE: DeviceCapacity(1, 0)}


def test_the_connection_of_a_plugin_that_has_registered_again_is_closed(tmp_path: Path) -> None:
    world = World(tmp_path, "a")
    former = world.connection
    world.connect()
    with pytest.raises(PluginCallError):
        former.options()


@pytest.mark.parametrize("code", ["UNAVAILABLE", "CANCELLED"])
def test_a_pod_waits_for_a_plugin_that_goes_during_its_answer(tmp_path: Path, code: str) -> None:
    """The pod is not refused for good, and the devices are free again."""
    world = World(tmp_path, "a")
    world.double.failure = PluginCallError("Allocate", "a", code, "it is gone")
    with pytest.raises(DevicesPendingError):
        world.manager.allocate(wanting(0), anew=True)
    world.double.failure = None
    world.manager.allocate(wanting(0), anew=True)


def test_an_unforeseen_failure_keeps_no_device(tmp_path: Path) -> None:
    world = World(tmp_path, "a")
    world.double.failure = ValueError("an answer that nobody foresaw")
    with pytest.raises(ValueError, match="nobody foresaw"):
        world.manager.allocate(wanting(0), anew=True)
    world.double.failure = None
    world.manager.allocate(wanting(0), anew=True)


def test_what_could_not_be_written_is_written_with_the_next_change(tmp_path: Path) -> None:
    """Otherwise the next agent would give a device of a running pod to another."""
    world = World(tmp_path, "a", "b", "c")
    with FULL_DISK, pytest.raises(OSError, match="full"):
        world.manager.allocate(wanting(0), anew=True)
    world.manager.allocate(wanting(0), anew=True)
    assert list(world.written().pods) == [UID]
    with FULL_DISK:
        world.manager.release(UID)
        world.list("a", "b")
    world.manager.listed(RESOURCE, world.connection, (Device("a", healthy=False), Device("b")))
    assert world.written().pods == {}, "another health alone is not written"
    world.list("a", "b", "d")
    assert world.written().pods == {}
    assert [device.id for device in world.written().devices[RESOURCE]] == ["a", "b", "d"]


def test_what_a_waiting_pod_gives_back_is_not_its_own_after_a_restart(tmp_path: Path) -> None:
    """A plug-in reports between its two allocations: of two such pods, each would keep half of what the other needs."""
    world, other = World(tmp_path, "a"), "example.com/other"

    def allocate(_devices: AbstractSet[str]) -> NoReturn:
        world.list("a", "b")
        assert list(world.written().pods) == [UID]
        raise PluginCallError("Allocate", other, "UNAVAILABLE", "it is gone")

    second = cast("DevicePlugin", SimpleNamespace(options=PluginOptions, allocate=allocate))
    world.manager.connect(other, second)
    world.manager.listed(other, second, (Device("x"),))
    main = {"name": "main", "image": "i", "resources": {"limits": {RESOURCE: "1", other: "1"}}}
    with pytest.raises(DevicesPendingError):
        world.manager.allocate(from_value(Pod, pod("p0", containers=[main])), anew=True)
    assert world.written().pods == {}


def test_a_plugin_that_has_registered_again_keeps_its_devices_until_it_reports(tmp_path: Path) -> None:
    """The node would show 0 for a moment, and a scheduler would count no device."""
    world = World(tmp_path, "a")
    world.manager.disconnect(RESOURCE, world.connection)
    world.connect()
    assert (world.manager.capacity()[RESOURCE].capacity, world.manager.expected()) == (1, {RESOURCE: 1})


def test_the_devices_of_a_plugin_that_goes_are_counted_for_five_minutes_from_then(tmp_path: Path) -> None:
    world = World(tmp_path, "a")
    world.simulation.run_for(1000.0)
    world.manager.disconnect(RESOURCE, world.connection)
    assert world.manager.capacity()[RESOURCE].capacity == 1
    world.simulation.run_for(301.0)
    assert world.manager.capacity()[RESOURCE].capacity == 0


def test_a_pod_that_starts_again_waits_for_no_devices_of_others(tmp_path: Path) -> None:
    world = World(tmp_path, "a", "b")
    world.manager.allocate(wanting(0), anew=True)
    world.manager.listed(RESOURCE, world.connection, (Device("a"), Device("b", healthy=False)))
    world.manager.allocate(wanting(0), anew=True)


def test_a_container_that_runs_without_devices_gets_none(tmp_path: Path) -> None:
    """The checkpoint was lost: a second Allocate might reset the device that the container has."""
    world = World(tmp_path, "a")
    world.manager.allocate(wanting(0), anew=False, running={"main"})
    assert (world.double.allocated, world.manager.pods()) == ([], {})
