"""Kills processes of a container that have outlived a killed shim, because they were not its children.

The main process dies with its shim (see `shim.launch`); its descendants do not. Only their environment still tells
which container they belong to: HOME is the container's own directory, named by 256 random bits, unless the pod sets
another. No process is identified by its pid, which may belong to another one by now.
"""

import os
import signal
from pathlib import Path


def kill_leftovers(work: Path) -> None:
    """Kill every process whose HOME is `work`, a container's directory."""
    mark = b"HOME=" + os.fsencode(work)
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and mark in _environment(entry):
            _kill_if_marked(int(entry.name), mark)


def _kill_if_marked(pid: int, mark: bytes) -> None:
    """Kill the process if it carries the mark. Its environment is read again after pidfd_open, so that the pid cannot
    be another's.
    """
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
