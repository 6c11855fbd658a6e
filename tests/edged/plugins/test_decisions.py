"""The watcher over doubles of plug-ins: which it takes, when it tries a failed one again, what it closes."""

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from beehive.files.removal import remove_tree
from beehive.simulation import Simulation
from edged.errors import PluginCallError, PluginError
from edged.plugins.watcher import Plugin, PluginWatcher, sockets_in
from protos.pluginregistration.v1 import api_pb2 as registration
from tests.support.directories import short_directory


class Sockets:
    """What all plug-ins answer, and what was asked of them. An instance is `PluginSocket`'s double."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.info = registration.PluginInfo(type="CSIPlugin", name="d", supported_versions=["1.0.0", "2.0.0"])
        self.failure: Exception | None = None
        self.asked: list[tuple[float, str]] = []
        self.notified: list[tuple[bool, str]] = []
        self.open: list[Path] = []
        self._clock = clock

    def __call__(self, path: Path) -> "Sockets._Socket":
        return self._Socket(self, path)

    class _Socket:
        def __init__(self, answers: "Sockets", path: Path) -> None:
            self._answers, self._path = answers, path
            answers.open.append(path)

        def call(self, method: str, request: Any, *_: object) -> Any:
            answers = self._answers
            if method.endswith("/NotifyRegistrationStatus"):
                answers.notified.append((request.plugin_registered, request.error))
                return registration.RegistrationStatusResponse()
            answers.asked.append((answers._clock(), self._path.name))
            if answers.failure is not None:
                raise answers.failure
            return answers.info

        def close(self) -> None:
            self._answers.open.remove(self._path)


class Handler:
    """Takes every plug-in."""

    def __init__(self) -> None:
        self.there: list[Plugin] = []
        self.gone: list[Plugin] = []

    def register(self, plugin: Plugin) -> None:
        self.there.append(plugin)

    def deregister(self, plugin: Plugin) -> None:
        self.gone.append(plugin)


class Node:
    """A watcher over a directory of sockets without programs."""

    def __init__(self, directory: Path) -> None:
        self.simulation = Simulation(1)
        self.registry = directory / "agent" / "registry"
        self.sockets = Sockets(self.simulation.clock.monotonic)
        self.csi, self.devices = Handler(), Handler()

    def add(self, name: str = "d.sock") -> Path:
        path = self.registry / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(str(path))
        return path

    def start(self, wait: float = 0.0) -> Any:
        kinds = {"CSIPlugin": self.csi, "DevicePlugin": self.devices}
        watcher = self.simulation.start(PluginWatcher, self.registry, kinds)
        if wait:
            self.simulation.run_for(wait)
        return watcher


@pytest.fixture
def node() -> Iterator[Node]:
    with short_directory("plug-") as directory:
        made = Node(directory)
        with patch("edged.plugins.watcher.PluginSocket", made.sockets):
            yield made


def test_a_plugin_that_fails_is_tried_again_after_twice_as_long_and_after_two_minutes_at_most(node: Node) -> None:
    """kubelet's back-off, at the next scan each time; a socket that is made again is tried at once."""
    path = node.add()
    node.sockets.failure = PluginCallError("GetInfo", "d", "UNAVAILABLE", "")
    node.start(wait=400)
    assert [time for time, _ in node.sockets.asked] == [0, 2, 4, 6, 10, 18, 34, 66, 130, 250, 370]
    path.unlink()
    node.add()
    node.simulation.run_for(6)
    assert [time for time, _ in node.sockets.asked[11:]] == [402, 404, 406]


def test_the_back_off_does_not_follow_a_clock_that_is_set(node: Node) -> None:
    node.add()
    node.sockets.failure = PluginCallError("GetInfo", "d", "UNAVAILABLE", "")
    node.start(wait=20)
    asked = len(node.sockets.asked)
    node.simulation.clock.jump_wall(-1e6)
    node.simulation.run_for(20)
    assert len(node.sockets.asked) == asked + 1


def test_no_connection_for_a_registration_is_left_open(node: Node) -> None:
    """Neither of a plug-in that is taken, nor of one that is tried every two minutes for months."""
    node.add("a.sock")
    node.start(wait=1)
    node.sockets.failure = ValueError("a bug")
    node.add("b.sock")
    node.simulation.run_for(30)
    assert len(node.sockets.asked) > 3
    assert node.sockets.open == []


def test_a_plugin_that_is_taken_after_failures_is_not_asked_again(node: Node) -> None:
    node.add()
    node.sockets.failure = PluginCallError("GetInfo", "d", "UNAVAILABLE", "")
    node.start(wait=5)
    node.sockets.failure = None
    node.simulation.run_for(600)
    assert len(node.csi.there) == 1
    assert node.csi.gone == []


@pytest.mark.parametrize("endpoint", ["", "/srv/other.sock"])
def test_a_plugin_is_called_at_the_endpoint_that_it_names_or_at_its_registration_socket(
    node: Node, endpoint: str
) -> None:
    path = node.add()
    node.sockets.info.endpoint = endpoint
    node.start(wait=1)
    assert node.csi.there == [Plugin("d", Path(endpoint) if endpoint else path, ("1.0.0", "2.0.0"))]


@pytest.mark.parametrize(
    ("name", "endpoint", "is_taken"),
    [
        ("", "/srv/d.sock", False),
        ("d", "srv/d.sock", False),
        ("d", "/" + "x" * 106, True),
        ("d", "/" + "x" * 107, False),
        ("d", "/" + "ä" * 54, False),
    ],
    ids=["no name", "relative", "as long as a socket's path can be", "longer", "longer in bytes"],
)
def test_a_plugin_needs_a_name_and_a_path_that_can_be_connected(
    node: Node, name: str, endpoint: str, is_taken: bool
) -> None:
    node.add()
    node.sockets.info.name, node.sockets.info.endpoint = name, endpoint
    node.start(wait=1)
    assert [bool(node.csi.there), node.sockets.notified[0][0]] == [is_taken, is_taken]


def test_a_plugin_is_deregistered_by_the_handler_that_took_it(node: Node) -> None:
    path = node.add()
    node.sockets.info.type = "DevicePlugin"
    node.start(wait=1)
    path.unlink()
    node.simulation.run_for(2)
    assert (node.devices.gone, node.csi.gone) == (node.devices.there, [])
    assert len(node.devices.gone) == 1
    node.simulation.run_for(10)
    assert len(node.devices.gone) == 1


def test_a_plugin_that_was_never_taken_is_deregistered_nowhere(node: Node) -> None:
    path = node.add()
    node.sockets.failure = PluginCallError("GetInfo", "d", "UNAVAILABLE", "")
    node.start(wait=1)
    path.unlink()
    node.simulation.run_for(2)
    assert node.csi.gone == []


def test_a_watcher_that_ends_registers_none_of_the_others(node: Node) -> None:
    """edged is closing their connections."""
    node.add("a.sock")
    node.add("b.sock")

    def end(plugin: Plugin) -> None:
        node.csi.there.append(plugin)
        watcher.ref.actor_stopped.set()  # as `Module` does when the time to stop has passed

    with patch.object(node.csi, "register", end):
        watcher = node.start()
        node.simulation.run_for(10)
    assert len(node.csi.there) == 1


def test_a_socket_that_was_replaced_by_another_one_has_another_stamp(node: Node) -> None:
    """The number of the file may be used again at once, and its time may be the same."""
    path = node.add()
    [before] = sockets_in(node.registry, {}).values()
    os.utime(path, ns=(1, 1))
    [touched] = sockets_in(node.registry, {}).values()
    other = node.add("other.sock")
    os.utime(other, ns=(1, 1))
    other.replace(path)
    [after] = sockets_in(node.registry, {}).values()
    assert len({before, touched, after}) == 3


def test_a_plugin_may_put_its_socket_some_directories_below(node: Node) -> None:
    path = node.add("a/b/c/d.sock")
    assert set(sockets_in(node.registry, {})) == {path}


def test_a_directory_that_cannot_be_read_keeps_what_is_below_it_and_no_other(node: Node) -> None:
    """Also two levels below; what went elsewhere meanwhile is gone."""
    deep, gone = node.add("sick/deep/d.sock"), node.add("gone.sock")
    known = sockets_in(node.registry, {})
    gone.unlink()
    scandir = os.scandir

    def sick(path: Any) -> Any:
        if Path(path).name == "sick":
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    with patch("os.scandir", sick):
        assert set(sockets_in(node.registry, known)) == {deep}


def test_sockets_are_found_down_to_a_depth(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edged.plugins.watcher._DEEPEST", 2)
    found = [node.add(), node.add("a/b/d.sock")]
    node.add("a/b/c/d.sock")
    assert sorted(sockets_in(node.registry, {})) == sorted(found)


def test_a_socket_that_goes_during_the_scan_is_no_hindrance(node: Node) -> None:
    path = node.add()
    lstat = Path.lstat

    def gone(each: Path) -> Any:
        if each == path:
            path.unlink(missing_ok=True)
        return lstat(each)

    with patch.object(Path, "lstat", gone):
        assert sockets_in(node.registry, {}) == {}


def test_a_refused_plugin_gets_no_success(node: Node) -> None:
    node.add()
    with patch.object(node.csi, "register", side_effect=PluginError("register", "d", "no")):
        node.start(wait=1)
    assert node.sockets.notified == [(False, "register: d (no)")]


def test_a_socket_behind_a_link_to_a_directory_is_no_plugin(node: Node) -> None:
    """A plug-in could show the sockets of the whole machine."""
    node.registry.mkdir(parents=True)
    node.add("../elsewhere/d.sock")
    (node.registry / "link").symlink_to(node.registry.parent / "elsewhere")
    assert sockets_in(node.registry, {}) == {}


def test_plugins_go_with_their_directory(node: Node) -> None:
    """And come with it: an uninstalled driver takes its own along."""
    node.add("driver/d.sock")
    node.start(wait=1)
    remove_tree(node.registry)
    node.simulation.run_for(2)
    assert (len(node.csi.there), len(node.csi.gone)) == (1, 1)
    node.add()
    node.simulation.run_for(2)
    assert len(node.csi.there) == 2


def test_a_watcher_makes_its_directory_and_scans_until_it_ends(node: Node) -> None:
    watcher = node.start()
    node.simulation.run_for(1)
    assert node.registry.is_dir()
    watcher.stop(5)
    node.add()
    node.simulation.run_for(10)
    assert node.sockets.asked == []
