"""The container runtimes that everything is tested on."""

import fcntl
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Protocol, Self

from beehive.clock import RealClock
from edged.cri import ContainerId, CriError, SandboxId
from edged.cri.client import CriClient
from modules.processes.edgecore.config import PROCESS_ENDPOINT
from modules.processes.edgecore.config.names import DOCKER_ENDPOINT, OCI_ENDPOINT
from modules.runtimes.docker.answers import InspectedContainer, ListedContainer, State
from modules.runtimes.docker.driver import DockerSettings
from modules.runtimes.engine.engine import purge
from modules.runtimes.engine.errors import NoSuchObjectError, RequestRefusedError
from modules.runtimes.oci.driver import OciSettings
from modules.runtimes.oci.network.pod_network import BINARY_DIRECTORIES, PodNetwork
from modules.runtimes.oci.programs import find_programs
from modules.runtimes.process.driver import ProcessSettings
from tests.end_to_end.processes import wait_until
from tests.support.containerd import PrivateContainerd, reserve_network
from tests.support.containerd_config import cni_conflist
from tests.support.directories import new_directory
from tests.support.dockerd import PrivateDockerd
from tests.support.images import busybox_image, docker_archive
from tests.support.leftovers import kill_recorded
from tests.support.patience import PATIENCE

IMAGES: Final = ("docker.io/library/busybox:1.36", "docker.io/library/busybox:1.37")


class RuntimeUnderTest(Protocol):
    """What a machine needs to know of its runtime."""

    @property
    def name(self) -> str:
        """In the tests' names."""

    @property
    def endpoint(self) -> str:
        """As the configuration has it."""

    def kill_containers(self, edged_root: Path) -> None:
        """Ends all containers while no edgecore runs, as a power failure would."""

    def pods(self, edged_root: Path) -> int:
        """How many sandboxes there are."""

    def clear(self, edged_root: Path) -> None:
        """Removes all pods, when no edgecore runs any more."""

    def left_behind(self) -> dict[str, list[str]]:
        """What it still has of pods, by kind, without empty kinds."""

    def prepare(self, edged_root: Path) -> dict[str, Any]:
        """Makes what it needs before the first start; returns settings of edged's section."""


class EmbeddedUnderTest:
    """The process runtime: its containers belong to the machine's own directory."""

    name = "embedded"
    endpoint = PROCESS_ENDPOINT

    def kill_containers(self, edged_root: Path) -> None:
        """Kills their main processes, which their shims record."""
        for record in (edged_root / "embedded" / "containers").glob("*/run.json"):
            kill_recorded(record)

    def pods(self, edged_root: Path) -> int:
        """The directories of sandboxes."""
        return sum(1 for _ in (edged_root / "embedded" / "sandboxes").glob("*"))

    def clear(self, edged_root: Path) -> None:
        """Purges the state directory."""
        if (edged_root / "embedded").exists():
            clock = RealClock()
            purge(edged_root / "embedded", clock, ProcessSettings())
            clock.close()

    def left_behind(self) -> dict[str, list[str]]:
        """All it has is below the machine's directory, and seen there."""
        return {}

    def prepare(self, edged_root: Path) -> dict[str, Any]:
        """Needs nothing."""
        return {}


class OciUnderTest:
    """The OCI runtime of one machine, with its images in archives and a network of its own. A context manager.

    Args:
        host_ports: whether ports of the machine lead to its pods, by iptables.
    """

    name = "oci"
    endpoint = OCI_ENDPOINT

    def __init__(self, *, host_ports: bool = False) -> None:
        self.directory = new_directory("on-")
        self._network = reserve_network(self.directory.name)
        networks = self.directory / "net.d"
        networks.mkdir()
        conflist = cni_conflist(self._network, self.directory / "ipam", host_ports=host_ports)
        (networks / "10-test.conflist").write_text(conflist)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._network.reservation.close()
        subprocess.run(["ip", "link", "delete", self._network.bridge], check=False, capture_output=True)
        shutil.rmtree(self.directory)

    def prepare(self, edged_root: Path) -> dict[str, Any]:
        """Puts the images where the runtime imports them."""
        archives = edged_root / "image-archives"
        archives.mkdir(parents=True)
        for image in IMAGES:
            docker_archive(busybox_image(image, Labels={"name": image}), archives)
        return {"cni_conf_dir": self.directory / "net.d"}

    def kill_containers(self, edged_root: Path) -> None:
        """Kills their first processes, which conmon records."""
        for record in (edged_root / "oci" / "containers").glob("*/run.json"):
            kill_recorded(record)

    def pods(self, edged_root: Path) -> int:
        """The directories of sandboxes."""
        return sum(1 for _ in (edged_root / "oci" / "sandboxes").glob("*"))

    def clear(self, edged_root: Path) -> None:
        """Purges the state directory."""
        if (edged_root / "oci").exists():
            clock = RealClock()
            network = PodNetwork(self.directory / "net.d", BINARY_DIRECTORIES, clock)
            settings = OciSettings(find_programs(), network, self.directory, edged_root / "image-archives")
            purge(edged_root / "oci", clock, settings)
            clock.close()

    def forget_boot(self) -> None:
        """Let what outlives a restart of the machine be older than its last one: addresses that are in use."""
        for lease in (self.directory / "ipam" / self._network.bridge).glob("*"):
            os.utime(lease, (0, 0))

    def left_behind(self) -> dict[str, list[str]]:
        """Addresses; everything else is below the machine's directory, and seen there."""
        leases = [each for each in entries(self.directory / "ipam" / self._network.bridge) if each[0].isdecimal()]
        return {"addresses": leases} if leases else {}

    @contextmanager
    def addresses_locked(self) -> Iterator[None]:
        """Lets the plug-in host-local wait: it locks this file before it gives or takes an address."""
        self._lock.parent.mkdir(parents=True, exist_ok=True)
        with self._lock.open("w") as opened:
            fcntl.flock(opened, fcntl.LOCK_EX)
            yield

    def waits_for_addresses(self) -> bool:
        """Whether a plug-in waits for the lock."""
        place = f":{self._lock.stat().st_ino} "
        return any("-> FLOCK" in line and place in line for line in Path("/proc/locks").read_text().splitlines())

    @property
    def _lock(self) -> Path:
        return self.directory / "ipam" / self._network.bridge / "lock"


class DockerUnderTest:
    """A Docker Engine that one test worker has for itself, with a network of CNI's. A context manager."""

    name = "docker"
    endpoint = DOCKER_ENDPOINT

    def __init__(self, daemon: PrivateDockerd) -> None:
        self.daemon = daemon
        self._network = reserve_network(daemon.directory.name)
        self._networks = daemon.directory / "net.d"
        self._networks.mkdir()
        (self._networks / "10-test.conflist").write_text(cni_conflist(self._network, daemon.directory / "ipam"))
        for image in IMAGES:
            daemon.load(busybox_image(image, Labels={"name": image}))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._network.reservation.close()
        subprocess.run(["ip", "link", "delete", self._network.bridge], check=False, capture_output=True)

    def prepare(self, edged_root: Path) -> dict[str, Any]:
        """Its images are there."""
        return {"cni_conf_dir": self._networks, "docker_address": f"unix://{self.daemon.socket}"}

    def kill_containers(self, edged_root: Path) -> None:
        """By the daemon, immediately."""
        for each in self._containers("io.kubernetes.docker.type=container"):
            with suppress(RequestRefusedError):
                self.daemon.client.call("POST", f"/containers/{each.id}/kill", "kill a container")

    def pods(self, edged_root: Path) -> int:
        """The directories of sandboxes."""
        return sum(1 for _ in (edged_root / "docker" / "sandboxes").glob("*"))

    def clear(self, edged_root: Path) -> None:
        """Purges the state directory."""
        if (edged_root / "docker").exists():
            clock = RealClock()
            network = PodNetwork(self._networks, BINARY_DIRECTORIES, clock)
            purge(edged_root / "docker", clock, DockerSettings(network, self.daemon.socket))
            clock.close()

    def left_behind(self) -> dict[str, list[str]]:
        """Containers, and addresses."""
        leases = entries(self.daemon.directory / "ipam" / self._network.bridge)
        kinds = {
            "containers": [each.id for each in self._containers()],
            "addresses": [each for each in leases if each[0].isdecimal()],
        }
        return {kind: left for kind, left in kinds.items() if left}

    def state(self, container: str) -> State | None:
        """Docker's state of a container, or None."""
        try:
            return self.daemon.client.get(f"/containers/{container}/json", InspectedContainer, "look").state
        except NoSuchObjectError:
            return None

    def _containers(self, *labels: str) -> list[ListedContainer]:
        query = {"all": "1", "filters": json.dumps({"label": list(labels)})}
        return self.daemon.client.get("/containers/json", list[ListedContainer], "list containers", query)


class ContainerdUnderTest:
    """A containerd that one test worker has for itself, for all its tests. A context manager."""

    name = "containerd"

    def __init__(self, daemon: PrivateContainerd) -> None:
        self.endpoint = daemon.endpoint
        self.daemon = daemon
        self._client = CriClient(daemon.endpoint, request_timeout=PATIENCE)
        for image in IMAGES:
            daemon.import_image(busybox_image(image, Labels={"name": image}))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def prepare(self, edged_root: Path) -> dict[str, Any]:
        """Its images are there."""
        return {}

    def kill_containers(self, edged_root: Path) -> None:
        """By the daemon, immediately."""
        for each in self._client.list_containers():
            self._client.stop_container(ContainerId(each.id), 0)

    def pods(self, edged_root: Path) -> int:
        """All sandboxes: nobody else uses the daemon."""
        return len(self._client.list_pod_sandboxes())

    def clear(self, edged_root: Path) -> None:
        """Stops and removes all sandboxes; again, as long as the daemon is still busy starting what is in them."""
        wait_until(self._cleared, "all sandboxes are removed")

    def left_behind(self) -> dict[str, list[str]]:
        """Also what it should have given back to the machine."""
        directory, state = self.daemon.directory, self.daemon.directory / "state"
        leases = entries(directory / "ipam" / directory.name)
        kinds = {
            "sandboxes": [each.id for each in self._client.list_pod_sandboxes()],
            "containers": [each.id for each in self._client.list_containers()],
            "shims' bundles": entries(state / "io.containerd.runtime.v2.task" / "k8s.io"),
            "network namespaces": entries(state / "io.containerd.grpc.v1.cri" / "netns"),
            "addresses": [each for each in leases if each[0].isdecimal()],
        }
        return {kind: left for kind, left in kinds.items() if left}

    def _cleared(self) -> bool:
        try:
            for sandbox in self._client.list_pod_sandboxes():
                self._client.stop_pod_sandbox(SandboxId(sandbox.id))
                self._client.remove_pod_sandbox(SandboxId(sandbox.id))
        except CriError as error:
            print(f"not cleared yet: {error}")  # noqa: T201 - pytest shows it when the test fails
            return False
        return True


def entries(directory: Path) -> list[str]:
    """What is in a directory, if there is one."""
    return sorted(each.name for each in directory.iterdir()) if directory.exists() else []
