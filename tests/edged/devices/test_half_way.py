"""What is left of a device plug-in that cannot be registered."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from beehive.simulation import Simulation
from edged.devices.model import PluginOptions
from edged.devices.node_devices import NodeDevices
from edged.errors import RegistrationError
from edged.plugins.watcher import Plugin
from tests.support.failing import Attempt, Failing, fail_at_each_call


@pytest.mark.parametrize(
    "error", [RegistrationError("register a device plug-in", "x", "of this test"), RuntimeError("of this test")]
)
def test_a_plug_in_that_cannot_be_registered_is_disconnected(tmp_path: Path, error: Exception) -> None:
    """It registers again every few seconds."""
    simulation = Simulation(1)

    def make(failing: Failing) -> Attempt:
        opened = list[Any]()
        plugin = SimpleNamespace(options=failing.call(PluginOptions), close=opened.clear)

        def connect(_endpoint: Path) -> Any:
            opened.append(plugin)
            return plugin

        context = cast("Any", SimpleNamespace(clock=simulation.clock, call_soon=lambda _: None))
        transport = cast("Any", SimpleNamespace(connect=connect))
        devices = NodeDevices(context, tmp_path, transport, pods=list, changes=cast("Any", None))
        return Attempt(lambda: devices._connect("example.com/x", tmp_path), left=lambda: len(opened))

    assert fail_at_each_call(make, error) == 1


def test_a_plug_in_whose_socket_was_removed_is_disconnected_once(tmp_path: Path) -> None:
    closed = list[str]()
    plugin = SimpleNamespace(options=PluginOptions, close=lambda: closed.append("plug-in"))
    context = cast("Any", SimpleNamespace(clock=Simulation(1).clock, call_soon=lambda _: None))
    transport = cast("Any", SimpleNamespace(connect=lambda _: plugin))
    devices = NodeDevices(context, tmp_path, transport, pods=list, changes=cast("Any", None))
    found = Plugin("example.com/x", tmp_path / "x.sock", ("v1beta1",))
    devices.register(found)
    for _ in range(2):
        devices.deregister(found)
        assert closed == ["plug-in"]
