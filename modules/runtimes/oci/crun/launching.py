"""Starts the programs that make containers, with a view of the control groups that they accept.

crun creates no container on a machine with control groups v1 and v2 side by side ("hybrid") if v2 has a controller
there (`libcrun_cgroup_enter` in its `cgroup.c`); its other commands do not ask. Then the program that creates one
starts in a mount namespace of its own without the v2 mount; the machine's mounts stay as they are. That is done for
each container and not once for edgecore, because a program must see all mounts of the moment when it starts.
"""

import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, TypeAlias

import msgspec

from modules.runtimes.oci.crun.group_moves import GroupMoves
from modules.runtimes.shim import kernel

_CGROUPS = Path("/sys/fs/cgroup")
_UNIFIED = "unified"

Stream: TypeAlias = int | IO[bytes]

SECONDS = 60.0
"""Seconds that one of the programs may take; on a busy machine crun has been seen to take 0.3 s."""


class Finished(msgspec.Struct, frozen=True):
    """A program that has ended."""

    code: int
    stdout: bytes
    stderr: bytes


class Launcher:
    """The launcher of programs as children of this process.

    Args:
        hides_unified: whether programs that create containers must not see control groups v2 beside v1, see
            `must_hide_unified`.
        moves: prepares the kernel for processes that programs move between control groups; None for no preparation.
    """

    def __init__(self, *, hides_unified: bool, moves: GroupMoves | None = None) -> None:
        self._hides_unified = hides_unified
        self._moves = moves

    def expect_move(self) -> None:
        """Prepare the kernel for a program that is started now and moves a process to another control group."""
        if self._moves is not None:
            self._moves.expect()

    def start(
        self,
        argv: Sequence[str],
        streams: tuple[Stream, Stream, Stream] = (subprocess.DEVNULL, subprocess.DEVNULL, subprocess.DEVNULL),
        passed: Sequence[int] = (),
        environment: Mapping[str, str] | None = None,
        directory: Path | None = None,
        *,
        creates: bool = False,
    ) -> subprocess.Popen[bytes]:
        """Start a program. Raises OSError.

        Args:
            argv: the program and its arguments.
            streams: its standard input, output and error.
            passed: further descriptors that it inherits.
            environment: all its variables; PATH alone by default.
            directory: its working directory; `/` by default.
            creates: whether it creates a container.
        """

        def begin() -> subprocess.Popen[bytes]:
            stdin, stdout, stderr = streams
            return subprocess.Popen(
                argv,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                pass_fds=passed,
                env={"PATH": _PATH, **(environment or {})},
                cwd=directory or "/",
                start_new_session=True,
            )

        return _without_unified(begin) if creates and self._hides_unified else begin()

    def run(self, argv: Sequence[str], stdin: bytes = b"", seconds: float = SECONDS) -> Finished:
        """Run a program to its end. Raises OSError, and subprocess.TimeoutExpired after killing it."""
        process = self.start(argv, (subprocess.PIPE if stdin else subprocess.DEVNULL, subprocess.PIPE, subprocess.PIPE))
        try:
            stdout, stderr = process.communicate(stdin or None, seconds)
        except BaseException:
            process.kill()
            process.communicate()
            raise
        return Finished(process.returncode, stdout, stderr)


_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def must_hide_unified(cgroups: Path = _CGROUPS) -> bool:
    """Return whether the machine has controllers of control groups v2 beside v1, which crun refuses."""
    try:
        return bool((cgroups / _UNIFIED / "cgroup.controllers").read_text().strip())
    except OSError:
        return False


def _without_unified(begin: Callable[[], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
    """Call `begin` in a thread whose mount namespace lacks control groups v2; the started process inherits the
    namespace.
    """
    begun: list[subprocess.Popen[bytes]] = []
    failed: list[OSError] = []

    def work() -> None:
        try:
            kernel.unshare(kernel.NEW_MOUNT_NAMESPACE)
            kernel.mount("", str(_CGROUPS), "", kernel.MS_REC | kernel.MS_PRIVATE)
            kernel.unmount(str(_CGROUPS / _UNIFIED), kernel.MNT_DETACH)
            begun.append(begin())
        except OSError as error:
            failed.append(error)

    thread = threading.Thread(target=work, name="oci-launcher")
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return begun[0]
