"""Processes of a container whose shepherd was killed, and that were not its child.

The main process dies with its shepherd (see `shepherd.launch`); what it had started does not. Nothing but its
environment still tells whose it is: HOME is the container's own directory, named by 256 random bits, unless the pod
sets another. No process is taken for a leftover by its number, which may long be another's.
"""

import os
import signal
from pathlib import Path


def kill_leftovers(work: Path) -> None:
    """Kill every process that has `work`, a container's directory, as HOME."""
    mark = b"HOME=" + os.fsencode(work)
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and mark in _environment(entry):
            _kill_if_marked(int(entry.name), mark)


def _kill_if_marked(pid: int, mark: bytes) -> None:
    """The descriptor is of one process; looking again through it makes sure that it is the marked one."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        if mark in _environment(Path(f"/proc/{pid}")):
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    except ProcessLookupError:
        return
    finally:
        os.close(descriptor)


def _environment(process: Path) -> list[bytes]:
    try:
        return (process / "environ").read_bytes().split(b"\0")
    except OSError:
        return []
