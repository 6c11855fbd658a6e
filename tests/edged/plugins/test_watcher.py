"""Plug-ins that put a socket into the directory are registered, get their status, and are deregistered when they go."""

import errno
import os
import socket
from pathlib import Path
from typing import Any
from unittest.mock import patch

import grpc
import pytest

from beehive.files.removal import remove_tree
from beehive.simulation import Simulation
from edged.errors import EdgedError, PluginCallError, PluginError
from edged.plugins.socket import PluginSocket
from edged.plugins.watcher import Plugin, PluginWatcher, sockets_in
from tests.beehive.files.trees import DEEP, make_deep, no_way_down
from tests.support.csi_driver import CsiDriver
from tests.support.directories import short_directory


class Handler:
    """Records its calls; refuses on demand."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []
        self.refusal: Exception | None = None

    def register(self, plugin: Plugin) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.seen.append(("there", plugin.name))

    def deregister(self, plugin: Plugin) -> None:
        self.seen.append(("gone", plugin.name))


class Watched:
    def __init__(self, directory: Path, *, kind: str = "CSIPlugin") -> None:
        self.simulation = Simulation(1)
        self.handler = Handler()
        self.registry = directory / "registry"
        self.simulation.start(PluginWatcher, self.registry, {kind: self.handler})

    def scan(self, seconds: float = 2.0) -> list[tuple[str, str]]:
        self.simulation.run_for(seconds)
        return self.handler.seen


def test_a_plugin_comes_goes_and_comes_again(directory: Path) -> None:
    """At the next scan; a plug-in that is there at the start is found immediately."""
    driver = CsiDriver(directory, directory / "registry", name="d")
    with driver:
        watched = Watched(directory)
        assert watched.scan(0.1) == [("there", "d")]
        assert driver.registered == [(True, "")]
        assert watched.scan(60) == [("there", "d")], "one that is registered is not asked again"
    assert watched.scan() == [("there", "d"), ("gone", "d")]
    with driver:
        assert watched.scan()[2:] == [("there", "d")]


def test_a_socket_that_was_recreated_between_two_scans_is_registered_again(directory: Path) -> None:
    driver = CsiDriver(directory, directory / "registry", name="d")
    with driver:
        watched = Watched(directory)
        watched.scan()
    with driver:
        assert watched.scan() == [("there", "d"), ("gone", "d"), ("there", "d")]


@pytest.mark.parametrize("refusal", [PluginError("register", "d", "not wanted"), ValueError("a bug")])
def test_a_refused_plugin_gets_the_reason_and_is_tried_again_with_growing_delays(
    directory: Path, refusal: Exception
) -> None:
    """A bug triggered by a plug-in ends only its own registration."""
    with CsiDriver(directory, directory / "registry", name="d") as driver:
        watched = Watched(directory)
        watched.handler.refusal = refusal
        watched.scan(10)
        asked = [method for method, _ in driver.calls].count("GetInfo")
        assert 2 <= asked <= 5
        if isinstance(refusal, EdgedError):
            assert driver.registered[0] == (False, "register: d (not wanted)")
        watched.handler.refusal = None
        assert watched.scan(20) == [("there", "d")]
        assert driver.registered[-1] == (True, "")


def test_a_plugin_of_an_unknown_type_is_refused(directory: Path) -> None:
    with CsiDriver(directory, directory / "registry", name="d") as driver:
        assert Watched(directory, kind="DevicePlugin").scan() == []
        assert driver.registered[0] == (False, "register a plug-in: d (no plug-ins of type 'CSIPlugin' are known)")


def test_a_plugin_that_fails_does_not_prevent_others(directory: Path) -> None:
    """A socket without a listener, and a plug-in that answers with an error."""
    registry = directory / "registry"
    registry.mkdir()
    with (
        socket.socket(socket.AF_UNIX) as dead,
        CsiDriver(directory / "a", registry, name="a") as failing,
        CsiDriver(directory / "z", registry, name="z"),
    ):
        dead.bind(str(registry / "dead.sock"))
        failing.fail("GetInfo", grpc.StatusCode.INTERNAL, "not yet", times=1)
        watched = Watched(directory)
        assert watched.scan(0.1) == [("there", "z")]
        assert watched.scan(3) == [("there", "z"), ("there", "a")]


def test_a_plugin_that_does_not_take_its_registration_status_stays_registered(directory: Path) -> None:
    call = PluginSocket.call

    def fails(plugin: PluginSocket, method: str, *args: Any, **options: Any) -> Any:
        if method.endswith("/NotifyRegistrationStatus"):
            raise PluginCallError("NotifyRegistrationStatus", "d", "UNAVAILABLE", "it is gone")
        return call(plugin, method, *args, **options)

    with CsiDriver(directory, directory / "registry", name="d"), patch.object(PluginSocket, "call", fails):
        assert Watched(directory).scan(10) == [("there", "d")]


def test_a_directory_that_cannot_be_read_deregisters_no_plugin(directory: Path) -> None:
    """All descriptors are in use: pods would lose their driver and their devices."""
    with CsiDriver(directory, directory / "registry", name="d"):
        watched = Watched(directory)
        assert watched.scan(0.1) == [("there", "d")]
        failure = OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(watched.registry))
        with patch("os.scandir", side_effect=failure):
            assert watched.scan(5) == [("there", "d")]
        assert watched.scan(5) == [("there", "d")]
    assert watched.scan(5) == [("there", "d"), ("gone", "d")]


def test_what_counts_as_a_plugins_socket(tmp_path: Path) -> None:
    """Sockets, also in directories below; no files, no hidden ones, nothing behind a link."""
    with short_directory("plug-") as top:
        (top / "below").mkdir()
        (top / ".hidden").mkdir()
        (top / "file").touch()
        (top / "link").symlink_to(tmp_path)
        for name in ("a.sock", ".b.sock", "below/c.sock", ".hidden/d.sock"):
            with socket.socket(socket.AF_UNIX) as made_socket:
                made_socket.bind(str(top / name))
        assert sorted(str(path.relative_to(top)) for path in sockets_in(top, {})) == ["a.sock", "below/c.sock"]
    assert sockets_in(top, {}) == {}


def test_directories_nested_deeply_are_no_hindrance(directory: Path) -> None:
    """A plug-in may write there. `os.walk` ends with RecursionError."""
    make_deep(directory / "deep", DEEP)
    with no_way_down(), socket.socket(socket.AF_UNIX) as server:
        server.bind(str(directory / "a.sock"))
        found = sockets_in(directory, {})
    remove_tree(directory / "deep")
    assert set(found) == {directory / "a.sock"}
