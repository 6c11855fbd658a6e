"""A containerd of the test's own: started in a scratch directory, and gone without a trace afterwards.

Tests must not share a containerd with the machine, nor with each other: two node agents on one runtime kill
each other's pods. So each has its own root, state, socket, network and cgroup parent, and several run side
by side. It is configured for machines like those that build this project (no CAP_SYS_RESOURCE, no systemd,
cgroup v1), which works on others too.
"""

import os
import shutil
import signal
import socket
import subprocess
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final

from edged.cri import CriError, SandboxId
from edged.cri.client import CriClient
from tests.support.containerd_config import CniNetwork, cni_conflist, containerd_config
from tests.support.daemons import SHUTDOWN_SECONDS, PrivateDaemon
from tests.support.directories import new_directory
from tests.support.images import BUSYBOX, Image, busybox_image, docker_archive, pause_image
from tests.support.leftovers import kill_shims, remove_cgroups, unmount_under

CNI_PLUGINS: Final = Path("/usr/lib/cni")

_PROGRAMS = ("containerd", "ctr", "containerd-shim-runc-v2", "runc")
_STARTUP_SECONDS = 120
_COMMAND_SECONDS = 180
_SUBNETS = range(1, 255)


class ContainerdError(Exception):
    """The private containerd failed; the text contains the end of its log."""


def reason_missing() -> str | None:
    """Why this machine cannot run a private containerd, for `pytest.skip`; None when it can."""
    if os.geteuid() != 0:
        return "a private containerd needs root"
    missing = [program for program in _PROGRAMS if shutil.which(program) is None]
    missing += [str(path) for path in (BUSYBOX, CNI_PLUGINS / "bridge") if not path.exists()]
    return f"not installed: {', '.join(missing)} (.ci/install-runtime installs them)" if missing else None


class PrivateContainerd(PrivateDaemon):
    """Use as a context manager, or `start` and `stop`. Holds busybox and the pause image once started."""

    def __init__(self, *, cni: bool = False, host_ports: bool = False) -> None:
        """With `cni`, pods get addresses on a bridge of their own; without, only host-network pods run. With
        `host_ports`, ports of the machine lead to them, by iptables.
        """
        self.directory = new_directory("ec-")
        self.socket = self.directory / "c.sock"
        self.endpoint = f"unix://{self.socket}"
        self.cgroup_parent = f"/{self.directory.name}"
        self.log_path = self.directory / "containerd.log"
        self._network = reserve_network(self.directory.name) if cni else None
        self._host_ports = host_ports
        self._write_configuration()

    def start(self) -> None:
        """Starts the daemon (again) and returns when it answers and has its images."""
        self._begin(["containerd", "--config", str(self.directory / "config.toml")])
        self._wait_until_ready()
        if not (self.directory / "images").exists():
            for image in (pause_image(self.directory), busybox_image()):
                self.import_image(image)

    def kill(self) -> None:
        """Kills the daemon with SIGKILL. Containers go on; `start` finds them again."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Removes all pods, ends the daemon and removes everything it made on this machine."""
        with suppress(ContainerdError):  # a dead one is started again, because it cleans up best itself
            if (self.directory / "state").exists() and not self._runs():
                self.start()
            self._remove_pods()
        self._end(signal.SIGTERM)
        kill_shims(self.socket)
        unmount_under(self.directory)
        remove_cgroups(self.cgroup_parent)
        if self._network is not None:
            subprocess.run(["ip", "link", "delete", self._network.bridge], check=False, capture_output=True)
            self._network.reservation.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def import_image(self, image: Image) -> None:
        """Makes the image present in the runtime, under its name."""
        archives = self.directory / "images"
        archives.mkdir(exist_ok=True)
        self.ctr("images", "import", str(docker_archive(image, archives)))

    def ctr(self, *arguments: str) -> str:
        """Output of `ctr` in the namespace that CRI uses."""
        command = ["ctr", "--address", str(self.socket), "--namespace", "k8s.io", *arguments]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=_COMMAND_SECONDS)
        if done.returncode != 0:
            raise ContainerdError(f"{' '.join(command)}: {done.stderr.strip()}\n{self.log_tail()}")
        return done.stdout

    def _write_configuration(self) -> None:
        networks = self.directory / "cni"
        networks.mkdir()
        if self._network is not None:
            (networks / "10-edgecore.conflist").write_text(
                cni_conflist(self._network, self.directory / "ipam", host_ports=self._host_ports)
            )
        (self.directory / "config.toml").write_text(containerd_config(self.directory, self.socket, networks))

    def _wait_until_ready(self) -> None:
        client, pause = CriClient(self.endpoint, request_timeout=5), threading.Event()
        try:
            for _ in range(_STARTUP_SECONDS * 50):
                if not self._runs():
                    raise ContainerdError(f"containerd ended at once:\n{self.log_tail()}")
                with suppress(CriError):
                    if all(c.status for c in client.status().status.conditions if c.type == "RuntimeReady"):
                        return
                pause.wait(0.02)
        finally:
            client.close()
        raise ContainerdError(f"containerd was not ready after {_STARTUP_SECONDS} s:\n{self.log_tail()}")

    def _remove_pods(self) -> None:
        client = CriClient(self.endpoint, request_timeout=SHUTDOWN_SECONDS)
        with suppress(CriError):  # what is left after a failure is killed from outside
            for sandbox in client.list_pod_sandboxes():
                client.stop_pod_sandbox(SandboxId(sandbox.id))
                client.remove_pod_sandbox(SandboxId(sandbox.id))
        client.close()


def reserve_network(name: str) -> CniNetwork:
    """Reserve a subnet of this machine's private containerds by a socket, which leaves nothing behind.

    Subnets of existing bridges are skipped: the bridge of a killed test run would receive the pods' packets.
    """
    routed = {line.split()[1] for line in Path("/proc/net/route").read_text().splitlines()[1:]}
    for number in _SUBNETS:
        if f"00{number:02X}630A" in routed:
            continue
        reservation = socket.socket(socket.AF_UNIX)
        try:
            reservation.bind(f"\0edgecore-test-subnet-{number}")
        except OSError:
            reservation.close()
            continue
        return CniNetwork(f"{name[:15]}", f"10.99.{number}.0/24", reservation)
    raise ContainerdError("all subnets of 10.99.0.0/16 are in use by other tests")
