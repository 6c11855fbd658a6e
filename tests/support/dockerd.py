"""A Docker Engine of the test's own: started in a scratch directory, and gone without a trace afterwards.

It has its own data, state, socket, containerd and parent cgroup, no network of its own, and touches no iptables; in a
network namespace of the test's it does all that a Docker Engine does.
"""

import os
import shutil
import signal
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final

from beehive.clock import RealClock
from modules.runtimes.docker.client import DockerClient
from modules.runtimes.docker.errors import DockerUnreachableError
from tests.support.daemons import PrivateDaemon
from tests.support.directories import new_directory
from tests.support.images import BUSYBOX, Image, busybox_image, docker_archive
from tests.support.leftovers import kill_programs, kill_shims, remove_cgroups, unmount_under

_SEARCHED: Final = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
_PROGRAMS: Final = ("dockerd", "containerd", "containerd-shim-runc-v2", "runc")
_NO_NETWORK: Final = ["--bridge", "none", "--iptables=false", "--ip-masq=false", "--ip-forward=false"]
_STARTUP_SECONDS: Final = 120


class DockerdError(Exception):
    """The private dockerd failed; the text has the end of its log."""


def reason_missing() -> str:
    """Why this machine cannot run a private dockerd, for `pytest.skip`; empty when it can."""
    if os.geteuid() != 0:
        return "a private dockerd needs root"
    missing = [program for program in _PROGRAMS if shutil.which(program, path=_SEARCHED) is None]
    missing += [] if BUSYBOX.exists() else [str(BUSYBOX)]
    return f"not installed: {', '.join(missing)} (.ci/install-runtime installs them)" if missing else ""


class PrivateDockerd(PrivateDaemon):
    """Use as a context manager. Holds busybox once started.

    With `live_restore` containers outlive the daemon; Docker's default is that they do not. With `netns`, Docker makes
    its bridge and its rules in that network namespace.
    """

    def __init__(self, *, live_restore: bool = True, netns: Path | None = None) -> None:
        self._options = ["--live-restore"] if live_restore else []
        self._options += _NO_NETWORK if netns is None else []
        self._prefix = [] if netns is None else ["nsenter", f"--net={netns}"]
        self.directory = new_directory("dk-", mode=0o755)
        self.socket = self.directory / "d.sock"
        self.cgroup_parent = f"/{self.directory.name}"
        self.log_path = self.directory / "dockerd.log"
        self.client = DockerClient(self.socket, RealClock())

    def start(self) -> None:
        """Start the daemon (again) and return when it answers."""
        own = self.directory
        command = [
            *self._prefix, "dockerd", "--data-root", str(own / "data"), "--exec-root", str(own / "exec"),
            *self._options, "--host", f"unix://{self.socket}", "--pidfile", str(own / "pid"), "--userland-proxy=false",
            "--cgroup-parent", self.cgroup_parent,
        ]  # fmt: skip
        self._begin(command, {**os.environ, "PATH": _SEARCHED})
        pause = threading.Event()
        for _ in range(_STARTUP_SECONDS * 50):
            if not self._runs():
                raise DockerdError(f"dockerd ended at once:\n{self.log_tail()}")
            with suppress(DockerUnreachableError):
                self.client.negotiate()
                return
            pause.wait(0.02)
        raise DockerdError(f"dockerd was not ready after {_STARTUP_SECONDS} s:\n{self.log_tail()}")

    def terminate(self) -> None:
        """Stop the daemon in order."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the daemon; its containerd dies with it; containers go on, and `start` finds them again.

        containerd's file is removed: on a machine whose first process does not reap, dockerd takes it for alive.
        """
        self._end(signal.SIGKILL)
        (self.directory / "exec/containerd/containerd.pid").unlink(missing_ok=True)

    def load(self, image: Image) -> None:
        """Make the image present under its name."""
        archive = docker_archive(image, self.directory)
        self.client.send("/images/load", "load an image", archive.read_bytes())
        archive.unlink()

    def stop(self) -> None:
        """End the daemon and remove everything that it has made on this machine."""
        self.terminate()
        kill_programs("containerd", self.directory / "exec/containerd/containerd.toml")  # after a failure
        kill_shims(self.directory / "exec/containerd/containerd.sock")
        unmount_under(self.directory)
        remove_cgroups(self.cgroup_parent)
        shutil.rmtree(self.directory, ignore_errors=True)

    def _prepare(self) -> None:
        self.load(busybox_image())
