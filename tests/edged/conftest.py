"""edged alone on a hive: a runtime in memory, a double of metamanager, virtual time."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar
from unittest.mock import patch

import grpc
import pytest

from beehive import Message, ModuleName, Runtime, Threads
from beehive.simulation import Simulation
from beehive.testing import Harness
from edged.cgroups.tree import CgroupTree
from edged.cri.errors import UnavailableError
from edged.devices.contract import DevicePluginTransport
from edged.host import Host
from edged.module import Edged
from edged.pods.kill_options import KillOptions, KillPod
from edged.pods.model import PodUid
from edged.server.snapshots import Snapshots
from edged.settings import EdgedSettings
from edged.shutdown.logind import ShutdownSource
from edged.sync.loop import SyncLoop
from edged.volumes import MemoryMounts
from modules.apimachinery.types import Pod
from modules.lab.doubles.container_runtime import FakeRuntime
from modules.lab.doubles.container_runtime.machine_info import FakeMachineInfo
from modules.lab.doubles.probes import NetworkDouble
from tests.edged.meta_double import MetaDouble
from tests.support.directories import short_directory

IMAGE = "docker.io/library/busybox:1.36"


def unavailable() -> UnavailableError:
    """A runtime that cannot be reached."""
    return UnavailableError("Call", "", grpc.StatusCode.UNAVAILABLE, "the socket is gone")


@pytest.fixture(params=["threads", "simulation"])
def actors(request: pytest.FixtureRequest) -> Iterator[Runtime]:
    """Both runtimes of actors, each in turn."""
    runtime: Runtime = Threads() if request.param == "threads" else Simulation(1)
    yield runtime
    runtime.close()


def pod(name: str = "web", **changes: Any) -> dict[str, Any]:
    """A pod as the cloud sends it; `changes` go into its spec, except `metadata` and `status`."""
    metadata = {
        "name": name,
        "namespace": "default",
        "uid": f"uid-{name}",
        "resourceVersion": "1",
        **changes.pop("metadata", {}),
    }
    spec = {
        "nodeName": "n1",
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "containers": [{"name": "main", "image": "busybox:1.36", "command": ["sleep", "inf"]}],
        **changes,
    }
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}


class FragileSnapshots(Snapshots):
    """Fails once on demand, and edged with it."""

    def __init__(self, bee: Harness) -> None:
        super().__init__()
        self.fails = False
        self._bee = bee

    @property
    def pods(self) -> tuple[Pod, ...]:
        """What is served."""
        return self._pods

    @pods.setter
    def pods(self, pods: tuple[Pod, ...]) -> None:
        if self.fails:
            self.fails = False
            self._bee.expect_failures("a bug")
            raise RuntimeError("a bug")
        self._pods = pods
        self._changed()


class OpenEdged(Edged):
    """edged whose parts a test can call."""

    started: ClassVar[list["OpenEdged"]] = []

    def on_start(self) -> None:
        """Remember which one it is."""
        super().on_start()
        self.started.append(self)

    @property
    def conditions(self) -> dict[str, str]:
        """The node's conditions that are True, with their reasons."""
        return {each.type: each.reason for each in self.assembly.node.status().conditions if each.status == "True"}


class Bench:
    """edged and what it is surrounded by."""

    def __init__(
        self,
        root: Path,
        seed: int = 1,
        kind: type[FakeRuntime] = FakeRuntime,
        *,
        tree: CgroupTree | None = None,
        devices: DevicePluginTransport | None = None,
        machine: ShutdownSource | None = None,
        service_links: Callable[[Pod], Mapping[str, str]] | None = None,
        **settings: Any,
    ) -> None:
        self.bee = Harness(seed)
        self.runtime = kind(self.bee.simulation, [IMAGE])
        self.meta = MetaDouble(self.bee.clock)
        self.silent: set[str] = set()
        """Resources about which nobody answers."""
        self.bee.answer(ModuleName.METAMANAGER, self._answer)
        self.snapshots = FragileSnapshots(self.bee)
        self.settings = EdgedSettings(
            node_name="n1",
            root=root / "edged",
            pod_logs=root / "logs",
            runtime_endpoint="unix:///fake",
            node_ip="192.0.2.2",
            server_port=10255,
            **settings,
        )
        self.network = NetworkDouble(self.bee.simulation)
        self.mounts = MemoryMounts()
        self.figures = FakeMachineInfo()
        host = Host(
            machine_info=self.figures,
            network=self.network,
            mounts=self.mounts,
            cgroups=tree,
            devices=devices,
            service_links=service_links,
            shutdown=None if machine is None else lambda: machine,
        )
        self.bee.add(OpenEdged, self.settings, self.runtime.connect, self.snapshots, "v1.32", host)

    def _answer(self, message: Message) -> Message | None:
        return None if message.route.resource in self.silent else self.meta(message)

    def asked(self, operation: str, resource: str) -> list[Message]:
        """What edged has asked metamanager."""
        sent = self.bee.sent_to(ModuleName.METAMANAGER)
        return [each for each in sent if (each.route.operation, each.route.resource) == (operation, resource)]

    def start(self, *pods: dict[str, Any], wait: float = 0.0) -> None:
        """Start edged and let it come to rest; then the pods come, and `wait` seconds pass."""
        self.bee.start()
        self.run(0.5)
        for each in pods:
            self.tell("insert", each)
        self.run(wait)

    def run(self, seconds: float) -> None:
        """Let time pass."""
        self.bee.run_for(seconds)

    def running(self, after: float = 0.0) -> list[str]:
        """The names of the containers that run after so many more seconds."""
        self.run(after)
        return self.runtime.running()

    def tell(self, operation: str, value: dict[str, Any], kind: str = "pod", wait: float = 0.0) -> None:
        """Send an object as metamanager hands it on, let the pod's work be done, and `wait` more seconds pass."""
        self.post(operation, value, kind)
        self.run(0.1)
        self.run(wait)

    def post(self, operation: str, value: dict[str, Any], kind: str = "pod") -> None:
        """Send an object as metamanager hands it on, and let nothing be done yet."""
        meta = value["metadata"]
        resource = f"{meta['namespace']}/{kind}/{meta['name']}"
        self.bee.send(ModuleName.EDGED, self.bee.message(resource, operation, value, source="edgecontroller"))

    def exit(self, name: str, code: int, wait: float = 0.0) -> None:
        """Let a container end by itself, and let `wait` seconds pass."""
        self.runtime.end(name, code)
        self.run(wait)

    def connection(self, content: str, wait: float = 0.0) -> None:
        """Tell that the cloud is there, or not, and let `wait` more seconds pass."""
        self.meta.connected = content == "cloud_connected"
        event: Message = self.bee.message("node/connection", "connect", content, source="edgehub")
        self.bee.send(ModuleName.EDGED, event)
        self.run(0.1)
        self.run(wait)

    def end(self, uid: str, options: KillOptions, wait: float = 0.0) -> None:
        """Let the node itself end a pod, as a part of edged would, and let `wait` more seconds pass."""
        OpenEdged.started[-1].assembly.sync_loop.handle(KillPod(PodUid(uid), options))
        self.run(0.1)
        self.run(wait)

    @property
    def conditions(self) -> dict[str, str]:
        """The node's conditions that are True, with their reasons."""
        return OpenEdged.started[-1].conditions

    def fail(self, wait: float = 0.0) -> None:
        """Let edged fail until it gives up a message. It is started again, and `wait` more seconds pass."""
        self.bee.expect_failures("a bug")
        with patch.object(SyncLoop, "handle_dependency_change", side_effect=RuntimeError("a bug")):
            self.tell("update", {"metadata": {"namespace": "default", "name": "c"}}, "configmap")
        self.run(wait)

    def poison(self, wait: float = 0.0) -> None:
        """Let edged fail once on its own thread, as a bug would, and let `wait` more seconds pass."""
        self.snapshots.fails = True
        self.tell("insert", pod("poison"), wait=wait)

    def stop(self) -> None:
        """Stop edged."""
        self.bee.hive.stop()


@pytest.fixture
def directory() -> Iterator[Path]:
    """Short: a socket's path has 107 bytes."""
    with short_directory("edged-") as made:
        yield made


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """edged, not started yet."""
    bench = Bench(tmp_path)
    yield bench
    bench.stop()
