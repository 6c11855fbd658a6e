"""Plug-ins and monitoring agents over real sockets."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import grpc
import pykka
import pytest
from msgspec.structs import replace

from beehive import Actor, Timer
from beehive.clock import RealClock
from beehive.runtime import Threads
from edged.devices.contract import GrpcService
from edged.devices.model import Device, DeviceCapacity
from edged.devices.node_devices import NodeDevices
from edged.devices.rules import CHECKPOINT
from edged.devices.transport import GrpcDevicePluginTransport
from edged.errors import AllocationRefusedError, DeviceError, PluginCallError, RegistrationError
from edged.plugins.watcher import Plugin, PluginWatcher
from edged.pods.config.device_options import DeviceNode
from edged.sync_events import PluginsChanged
from modules.apimachinery.types import Pod, PodStatus, from_value
from protos.podresources.v1 import api_pb2 as resources
from tests.edged.conftest import pod
from tests.edged.devices.fake_plugins import FakeDevicePlugin
from tests.support.device_plugin import RESOURCE, DevicePluginDouble, ask_pod_resources
from tests.support.directories import short_directory
from tests.support.patience import PATIENCE


class Node:
    """edged's devices without the rest of edged: the caller's thread stands for the module's."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.runtime = Threads()
        self.clock = self.runtime.clock
        self.changes = threading.Condition()
        self.wanted: list[Pod] = []
        self.actors: list[Any] = []
        self.devices = NodeDevices(
            self, root, GrpcDevicePluginTransport(self.clock), pods=lambda: self.wanted, changes=self
        )

    def call_soon(self, function: Callable[[], None], name: str = "", since: float | None = None) -> None:
        function()

    def after(self, seconds: float, function: Callable[[], None]) -> Timer:
        return self.clock.after(seconds, function)

    def every(self, seconds: float, function: Callable[[], None], *, jitter: float = 0.0) -> Timer:
        return self.clock.every(seconds, function, jitter=jitter)

    def start_actor(self, actor_class: type[Actor], *args: Any, name: str = "", **kwargs: Any) -> pykka.ActorRef[Any]:
        self.actors.append(self.runtime.start(actor_class, *args, name=name, **kwargs))
        ref: pykka.ActorRef[Any] = self.actors[-1].ref
        return ref

    def wait(self, share: DeviceCapacity | None) -> None:
        """Until the node has this of the resource."""
        with self.changes:
            done = self.changes.wait_for(lambda: self.devices.manager.capacity().get(RESOURCE) == share, PATIENCE)
        assert done, self.devices.manager.capacity()

    def close(self) -> None:
        self.devices.close()
        for actor in self.actors:
            actor.ref.stop(block=False)
            actor.ended.get(timeout=PATIENCE)

    def handle(self, event: PluginsChanged) -> None:
        assert event == PluginsChanged()
        with self.changes:
            self.changes.notify_all()

    post = handle


@pytest.fixture
def root() -> Iterator[Path]:
    """Short: a socket's path has 107 bytes."""
    with short_directory("dev-") as made:
        yield made


@pytest.fixture
def node(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Node]:
    """It reports each change of a plug-in's devices at once."""
    monkeypatch.setattr("edged.devices.node_devices.NOTIFY_SECONDS", 0.01)
    made = Node(root)
    made.devices.start()
    yield made
    made.close()


def wanting(count: int, name: str = "web") -> Pod:
    container = {"name": "main", "image": "i", "resources": {"limits": {RESOURCE: str(count)}}}
    return from_value(Pod, pod(name, containers=[container]))


def test_a_life_of_a_plugin(node: Node) -> None:
    """It registers, says how its devices are, gives some, goes, and comes again."""
    manager = node.devices.manager
    with DevicePluginDouble(node.root, "a", "b", "c", pre_start_required=True) as plugin:
        assert plugin.registered == [""]
        node.wait(DeviceCapacity(3, 3))
        plugin.say(b="Unhealthy")
        node.wait(DeviceCapacity(3, 2))
        manager.allocate(wanting(2), anew=True)
        options = manager.run_container_options(wanting(2), wanting(2).spec.containers[0])
        assert (plugin.allocated, plugin.prepared) == ([["a", "c"]], [["a", "c"]])
        assert (options.envs, options.annotations) == ({"DEVICES": "a,c"}, {"example.com/given": "yes"})
        assert options.nodes == (DeviceNode("/dev/given", "/dev/null", "rw"),)
    node.wait(DeviceCapacity(3, 0))
    with DevicePluginDouble(node.root, "a", "b", "c"):
        node.wait(DeviceCapacity(3, 3))


def test_a_plugin_is_asked_for_its_preferred_allocation(node: Node) -> None:
    with DevicePluginDouble(node.root, "a", "b", "c", get_preferred_allocation_available=True) as plugin:
        node.wait(DeviceCapacity(3, 3))
        node.devices.manager.allocate(wanting(1), anew=True)
        (asked,) = plugin.asked
        assert (list(asked.available_deviceIDs), asked.allocation_size) == (["a", "b", "c"], 1)
        assert plugin.allocated == [["c"]]


def test_a_refusal_has_the_plugins_words_and_gives_nothing(node: Node) -> None:
    with DevicePluginDouble(node.root, "a") as plugin:
        node.wait(DeviceCapacity(1, 1))
        plugin.failure = (grpc.StatusCode.UNKNOWN, "no power")
        with pytest.raises(AllocationRefusedError, match=r"Allocate failed: .*no power; UNKNOWN"):
            node.devices.manager.allocate(wanting(1), anew=True)
        assert node.devices.manager.pods() == {}
        node.devices.manager.allocate(wanting(1, "next"), anew=True)
        assert plugin.allocated == [["a"], ["a"]]


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"version": "v1"}, "is not supported"),
        ({"resource_name": "memory"}, "is invalid"),
        ({"endpoint": "nobody.sock"}, "GetDevicePluginOptions failed"),
    ],
)
def test_a_plugin_learns_why_it_is_refused(node: Node, fields: dict[str, str], problem: str) -> None:
    plugin = DevicePluginDouble(node.root, "a")
    plugin.serve()
    assert problem in plugin.register(**fields)
    assert node.devices.manager.capacity() == {}
    plugin.stop()


def test_a_change_is_told_on_the_modules_thread(root: Path) -> None:
    """A plug-in's report comes on a thread of its own."""
    node, later = Node(root), list[Callable[[], None]]()
    connection = FakeDevicePlugin(node.runtime).connect()
    node.devices.manager.connect(RESOURCE, connection)
    with patch.object(node, "call_soon", later.append), patch.object(node, "handle") as told:
        node.devices.manager.listed(RESOURCE, connection, (Device("a"),))
        assert not told.called
        for each in later:
            each()
        told.assert_called_once_with(PluginsChanged())
    node.close()


def test_a_plugin_is_found_by_its_socket_in_the_registry(node: Node) -> None:
    """The watcher scans every two seconds; when the socket is removed, so are the devices. One that is refused is not
    even connected.
    """
    with pytest.raises(RegistrationError, match="is invalid"):
        node.devices.register(Plugin("memory", node.root / "nobody.sock", ("v1beta1",)))
    with DevicePluginDouble(node.root, "a", registry=True) as plugin:
        node.start_actor(PluginWatcher, node.root / "plugins_registry", {"DevicePlugin": node.devices})
        assert plugin.heard.wait(PATIENCE)
        assert plugin.registered == [""]
        node.wait(DeviceCapacity(1, 1))
    node.wait(DeviceCapacity(1, 0))


def test_the_sockets_are_roots_and_old_ones_are_removed(root: Path) -> None:
    """So plug-ins notice that they must register again; allocations stay known."""
    plugin = DevicePluginDouble(root, "a")
    plugin.serve()
    first = Node(root)
    first.devices.start()
    assert not plugin.socket.exists()
    for directory in ("device-plugins", "pod-resources"):
        assert (root / directory / "kubelet.sock").stat().st_mode & 0o777 == 0o600
    plugin.stop()
    with DevicePluginDouble(root, "a"):
        first.wait(DeviceCapacity(1, 1))
        first.devices.manager.allocate(wanting(1), anew=True)
        first.close()
    second = Node(root)
    second.devices.start()
    assert second.devices.manager.capacity() == {RESOURCE: DeviceCapacity(0, 0)}
    assert list(second.devices.manager.pods()) == ["uid-web"]
    assert (root / "device-plugins" / CHECKPOINT).exists(), "it is no socket"
    with DevicePluginDouble(root, "a"):
        second.wait(DeviceCapacity(1, 1))
    second.close()


def test_a_plugin_that_removes_its_own_socket_at_the_start_is_no_hindrance(root: Path) -> None:
    """It ends between the listing of the directory and the removal."""
    directory = root / "device-plugins"
    directory.mkdir()
    node = Node(root)
    with patch.object(Path, "iterdir", lambda path: iter([path / "gone.sock"])):
        node.devices.start()
    assert (directory / "kubelet.sock").exists()
    node.close()


def test_the_pod_resources_api_lists_the_devices_of_containers(node: Node) -> None:
    ended = replace(wanting(1, "ended"), status=PodStatus(phase="Succeeded"))
    node.wanted = [wanting(1), wanting(0, "none"), ended]
    with DevicePluginDouble(node.root, "a", "b"):
        node.wait(DeviceCapacity(2, 2))
        node.devices.manager.allocate(wanting(1), anew=True)
        given = resources.ContainerDevices(resource_name=RESOURCE, device_ids=["a"])
        given.topology.nodes.add(ID=1)
        listed = ask_pod_resources(
            node.root, "List", resources.ListPodResourcesRequest(), resources.ListPodResourcesResponse
        )
        assert {p.name: list(p.containers[0].devices) for p in listed.pod_resources} == {"web": [given], "none": []}
        there = resources.AllocatableResourcesRequest()
        found = ask_pod_resources(node.root, "GetAllocatableResources", there, resources.AllocatableResourcesResponse)
        assert [list(each.device_ids) for each in found.devices] == [["a"], ["b"]]
        with pytest.raises(grpc.RpcError, match="pod x in namespace y not found"):
            ask_pod_resources(
                node.root,
                "Get",
                resources.GetPodResourcesRequest(pod_name="x", pod_namespace="y"),
                resources.GetPodResourcesResponse,
            )


def test_a_socket_that_cannot_be_made(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Its path is too long: edged goes on without devices, and says why."""
    deep = root / ("d" * 90)
    with pytest.raises(DeviceError, match="107 bytes"):
        GrpcDevicePluginTransport(RealClock()).serve(GrpcService(deep / "kubelet.sock" / "x", "v1.X", {}))
    node = Node(deep)
    node.devices.start()
    assert caplog.text.count("configure a shorter rootDirectory") == 2, "of each socket"
    node.close()


def test_a_closed_connection_ends_its_open_calls(node: Node) -> None:
    plugin = DevicePluginDouble(node.root, "a")
    plugin.serve()
    connection = GrpcDevicePluginTransport(RealClock()).connect(plugin.socket)
    heard = connection.watch()
    assert [device.id for device in next(heard)] == ["a"]
    connection.close()
    with pytest.raises(PluginCallError, match="CANCELLED"):
        next(heard)
    with pytest.raises(PluginCallError, match="the connection was closed"):
        connection.allocate({"a"})
    plugin.stop()
