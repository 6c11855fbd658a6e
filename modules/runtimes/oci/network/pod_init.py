"""The first process of a pod whose containers see each other's processes (shareProcessNamespace).

A process namespace lives only as long as its first process, so that such a pod, and no other, has one: a container
without content, see `modules.runtimes.oci.network.pause`. It outlives edgecore; its namespace, which is pinned beside
the others, tells it from a later process with its number.
"""

import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from beehive.files.descriptors import OwnedFd, is_readable, open_process
from modules.runtimes.oci.network.kernel import bind_file
from modules.runtimes.oci.network.pause.control_group import enter_control_group
from modules.runtimes.oci.network.pause.process import GO

_log = logging.getLogger(__name__)

NAMESPACE: Final = "pid"
"""File of the namespace, in the directory of the sandbox."""

_NUMBER: Final = "init"
"""File with the number of the first process."""
_PROGRAM: Final = Path(__file__).with_name("pause") / "__main__.py"
_SECONDS: Final = 30.0
"""Seconds that each step of the start may take."""
_LONGEST_ANSWER: Final = 4096
_OOM_SCORE: Final = "-998"
"""As of the kubelet's pause containers."""
_END_MILLISECONDS: Final = 10_000
_CONFINED: Final = "Seccomp:\t2"
"""Line of /proc/PID/status."""


def start_pod_init(directory: Path, kinds: Sequence[str], group: str = "") -> None:
    """Start the first process of a new process namespace, and pin the namespace.

    Args:
        directory: of the sandbox's namespaces.
        kinds: the namespaces in it, which the process enters. If the user namespace is one, the process namespace
            belongs to it, so that the pod's root may mount its /proc.
        group: control group of the process; empty for edgecore's own.

    Raises:
        OSError: it cannot be started; `end_pod_init` removes the files.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours:
        ours.settimeout(_SECONDS)
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_PROGRAM), str(theirs.fileno()), str(directory), *kinds],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()], env={}, cwd="/", start_new_session=True,
            )  # fmt: skip
        try:
            pid = _started(ours)
            (directory / _NUMBER).write_text(str(pid))
            (directory / NAMESPACE).touch(mode=0o400)
            bind_file(f"/proc/{pid}/ns/pid", directory / NAMESPACE)
            with suppress(OSError):  # lowering it takes a capability
                Path(f"/proc/{pid}/oom_score_adj").write_text(_OOM_SCORE)
            if group:
                enter_control_group(directory, group, pid)
            ours.send(GO)
            if error := ours.recv(_LONGEST_ANSWER):
                raise OSError(error.decode(errors="replace"))
        finally:
            process.kill()  # it has ended, unless it is late
            process.wait()


def _started(peer: socket.socket) -> int:
    """Return the number of the process, which waits until it may go on. Raises OSError."""
    answer = peer.recv(_LONGEST_ANSWER).decode(errors="replace")
    if not answer.isdecimal():
        raise OSError(answer or "the process that starts the first process of a pod has ended early")
    return int(answer)


def pod_init_lives(directory: Path) -> bool:
    """Return whether the pod has a process namespace whose first process lives."""
    return _pid(directory) is not None


def end_pod_init(directory: Path) -> None:
    """End the first process, and with it all of its namespace, if any."""
    pid = _pid(directory)
    if pid is None:
        return
    with suppress(ProcessLookupError), OwnedFd(open_process(pid)) as process:
        if _pid(directory) != pid:  # it has ended meanwhile, and the number may be another's
            return
        signal.pidfd_send_signal(process, signal.SIGKILL)
        if not is_readable(process, _END_MILLISECONDS):
            _log.error("the processes of a pod do not end: %s", directory)
        with suppress(ChildProcessError):  # of an earlier edgecore
            os.waitid(os.P_PIDFD, process, os.WEXITED | os.WNOHANG)


def pod_init_is_confined(directory: Path) -> bool:
    """Return False if an edgecore that did not confine first processes has started this one, with all rights."""
    pid = _pid(directory)
    try:
        return pid is None or _CONFINED in Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return True  # it has ended


def _pid(directory: Path) -> int | None:
    """Return the number of the first process; None if it does not live."""
    try:
        pid = int((directory / _NUMBER).read_text())
        of_process = Path(f"/proc/{pid}/ns/pid").stat()
        of_pod = (directory / NAMESPACE).stat()
        is_same = (of_process.st_dev, of_process.st_ino) == (of_pod.st_dev, of_pod.st_ino)
        return pid if is_same and not _has_ended(pid) else None
    except (OSError, ValueError):
        return None


def _has_ended(pid: int) -> bool:
    """Return whether only its parent's wait is missing. Raises ProcessLookupError."""
    with OwnedFd(open_process(pid)) as process:
        return is_readable(process, 0)
