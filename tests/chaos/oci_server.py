"""The OCI runtime as a process that is killed at a chosen point, for `tests.chaos.oci`.

The program imports everything once. For each line on its standard input it forks a process that serves, which says
`ready PID` on the standard output; the program says `ended` when that process is dead. Points are counted: calls of
the kernel's functions and returns of edgecore's own, on all threads. At the chosen one the process dies by SIGKILL, or
some microseconds later by a timer, whose signal nothing handles either; or it kills the conmon of a container.
"""

import mmap
import os
import select
import shutil
import signal
import sys
import threading
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any, Final

import msgspec

from beehive.clock import Clock, RealClock
from beehive.files.removal import remove_tree
from modules.runtimes.cri_server.runtime_server import CriServer
from modules.runtimes.engine.engine import purge
from modules.runtimes.oci.driver import OciSettings
from modules.runtimes.oci.network.default_network import DefaultNetwork
from modules.runtimes.oci.network.pod_network import PodNetwork
from modules.runtimes.oci.programs import find_programs
from modules.runtimes.oci.rootless.entering import end_namespaces, enter
from modules.runtimes.oci.rootless.settings import rootless_settings
from modules.runtimes.shim.kernel import die_with_parent
from tests.modules.runtimes.oci.network.machine import PLUGINS

LIMIT, DELAY, VICTIM, COUNTED, REACHED = range(5)
"""Numbers of 8 bytes in the file `countdown`.

The campaign writes the point of the end (0: none), microseconds after it, and the first digits of the id of
the container whose conmon dies instead of the runtime. The server writes the points so far, and whether that one was
reached; in the place of the digits, less than 0 once it has killed a conmon.
"""
DIGITS: Final = 15
"""Of an id, in a number of 8 bytes."""

CONMON, RUNC = "conmon", "runc"
KINDS: Final = (CONMON, RUNC)
"""Of root's runtime: crun and conmon; runc and conmon."""
ROOTLESS: Final = "rootless"
"""An ordinary user's, with crun and conmon."""
SLIRP, HOLDER = "slirp4netns", "sleep"
HELPERS: Final = (SLIRP, HOLDER)
"""Programs that die in the place of a conmon; with the holder of the namespaces the runtime dies, too."""

_BYTES: Final = 40
_PLUGINS: Final = ("bridge", "portmap")
NAMESPACES: Final = "namespaces"
"""File with the secret name of an ordinary user's namespaces."""
HELD: Final = "held"
"""File that holds up crun and the CNI plug-ins."""

_EDGECORE: Final = ("/modules/runtimes/", "/beehive/files/")
_KERNEL: Final = frozenset({"posix", "select", "_socket", "_posixsubprocess", "fcntl", "_io", "_signal"})


def countdown(directory: Path) -> "memoryview[int]":
    """Return the numbers that the campaign and the server share."""
    path = directory / "countdown"
    if not path.exists():
        path.write_bytes(bytes(_BYTES))
    with path.open("r+b") as file:
        return memoryview(mmap.mmap(file.fileno(), _BYTES)).cast("q")


def number_of(directory: Path) -> int:
    """A number less than 12,800 of this node on the machine."""
    return int(directory.name.encode().hex(), 16) % 12_800


def network_of(directory: Path, clock: Clock) -> DefaultNetwork:
    """A network with a bridge and addresses of its own."""
    number = number_of(directory)
    cidr = f"10.{140 + number % 50}.{number // 50}.0/24"
    return DefaultNetwork(clock, [cidr], f"ecc{number}", directory / "leases")


def settings_of(directory: Path, clock: Clock, kind: str) -> OciSettings:
    """The settings of a runtime of one of the `KINDS` whose files are all in one directory."""
    programs = find_programs()
    if kind == RUNC:
        programs = msgspec.structs.replace(programs, runtime=_found(RUNC))
    programs = msgspec.structs.replace(programs, runtime=_holdable(directory, programs.runtime))
    if kind == ROOTLESS:
        return rootless_settings(programs, clock, (), directory / "certs.d", directory / "archives", keep_blobs=False)
    for plugin in _PLUGINS:
        if (PLUGINS / plugin).exists():
            _holdable(directory, PLUGINS / plugin)
    network = PodNetwork(directory / "net.d", [directory / "bin", PLUGINS], clock, default=network_of(directory, clock))
    return OciSettings(programs, network, directory / "certs.d", directory / "archives")


def _found(name: str) -> Path:
    path = shutil.which(name)
    assert path is not None, f"{name} is not installed"
    return Path(path)


def _holdable(directory: Path, program: Path) -> Path:
    """Return a program that waits before it does its work while there is a file `held`: it outlives who started it."""
    path = directory / "bin" / program.name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f'#!/bin/sh\nwhile [ -e {directory}/{HELD} ]; do sleep 0.02; done\nexec {program} "$@"\n')
    path.chmod(0o755)
    return path


class _Death:
    """Counts points, and ends this process at the chosen one."""

    def __init__(self, shared: "memoryview[int]") -> None:
        self._shared = shared

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        if event in ("c_call", "c_return"):
            holder = getattr(argument, "__module__", None) or type(getattr(argument, "__self__", None)).__module__
            if holder not in _KERNEL:
                return
        elif event != "return" or not any(part in frame.f_code.co_filename for part in _EDGECORE):
            return
        shared = self._shared
        shared[COUNTED] = counted = shared[COUNTED] + 1
        limit = shared[LIMIT]
        if limit and counted >= limit and not shared[REACHED]:
            shared[REACHED] = 1
            self._die()

    def _die(self) -> None:
        victim = self._shared[VICTIM]
        if 0 < victim <= len(HELPERS):
            self._shared[VICTIM] = -kill_helper(HELPERS[victim - 1], os.getpid())
            if HELPERS[victim - 1] == HOLDER:
                os.kill(os.getpid(), signal.SIGKILL)
        elif victim:
            self._shared[VICTIM] = -_kill_conmon(f"{victim:0{DIGITS}x}")
        elif self._shared[DELAY]:
            signal.setitimer(signal.ITIMER_REAL, self._shared[DELAY] / 1e6)
        else:
            os.kill(os.getpid(), signal.SIGKILL)


def is_parent(arguments: list[bytes]) -> bool:
    """Whether a command line belongs to a conmon."""
    return arguments[0].endswith(b"conmon")


def _kill_conmon(digits: str) -> int:
    """Kill the conmon of a container, and the processes that are on their way to become it; return how many."""
    killed = 0
    for entry in os.listdir("/proc"):  # noqa: PTH208 - few calls
        if entry.isdecimal():
            with suppress(OSError), open(f"/proc/{entry}/cmdline", "rb") as file:  # noqa: PTH123
                arguments = file.read().split(b"\0")
                if is_parent(arguments) and any(each.startswith(digits.encode()) for each in arguments):
                    os.kill(int(entry), signal.SIGKILL)
                    killed += 1
    return killed


def kill_helper(name: str, member: int) -> int:
    """Kill the processes of this name in the user namespace of one; return how many, when they are dead."""
    users = users_of(member)
    killed = 0
    for entry in os.listdir("/proc"):  # noqa: PTH208 - few calls
        if entry.isdecimal():
            with suppress(OSError):
                if Path("/proc", entry, "comm").read_text().strip() == name and users_of(int(entry)) == users:
                    end(int(entry))
                    killed += 1
    return killed


def users_of(process: int) -> str:
    """The user namespace of a process; empty if it has ended, or is somebody else's."""
    with suppress(OSError):
        return str(Path(f"/proc/{process}/ns/user").readlink())
    return ""


def end(process: int) -> None:
    """Kill a process, and wait until it is dead: nobody enters its namespaces any more. Raises OSError."""
    handle = os.pidfd_open(process)
    try:
        signal.pidfd_send_signal(handle, signal.SIGKILL)
        select.select([handle], [], [])
    finally:
        os.close(handle)


def _serve(directory: Path, kind: str) -> None:
    if kind == ROOTLESS:
        enter(directory / NAMESPACES)
    die_with_parent(signal.SIGKILL)
    death = _Death(countdown(directory))
    threading.setprofile(death)
    sys.setprofile(death)
    clock = RealClock()
    runtime = CriServer(directory / "state", directory / "cri.sock", clock, settings_of(directory, clock, kind))
    runtime.start()
    sys.setprofile(None)
    os.write(1, b"ready %d\n" % os.getpid())
    while True:
        signal.pause()


def _main(directory: Path, kind: str) -> None:
    for _ in sys.stdin:
        pid = os.fork()
        if not pid:
            try:
                _serve(directory, kind)
            finally:
                os._exit(1)
        _, status = os.waitpid(pid, 0)
        os.write(1, f"ended {os.waitstatus_to_exitcode(status)}\n".encode())
    if kind == ROOTLESS:
        enter(directory / NAMESPACES)
    clock = RealClock()
    purge(directory / "state", clock, settings_of(directory, clock, kind))
    if kind == ROOTLESS:
        remove_tree(directory / "state")
        end_namespaces()
    else:
        network_of(directory, clock).remove()
    clock.close()


if __name__ == "__main__":
    _main(Path(sys.argv[1]), sys.argv[2])
