"""Processes of a node's pods whose files were removed under them, as by `rm -rf` of its directory."""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from beehive.files.descriptors import OwnedFd
from modules.processes.edgecore.config import EdgeCoreConfig
from modules.processes.edgecore.ownership import LOCK_FILE
from modules.runtimes.oci.rootless import entering
from modules.runtimes.shim.procfs import all_processes, descendants
from modules.runtimes.shim.protocol import Pid

_SHIM: Final = b"/modules/runtimes/shim/__main__.py"
_REMOVED: Final = " (deleted)"
_PROC: Final = Path("/proc")


def signal_lost(config: EdgeCoreConfig, number: int = 0) -> int:
    """Send a signal to the lost processes of pods that this user may end; return how many there are.

    Those of Docker Engine and of root's isolated containers are not among them.

    Args:
        config: of the node. As long as its lock is there, none of its processes is lost.
        number: of the signal; 0 only counts.
    """
    root = config.modules.edged.root_directory
    if (root / LOCK_FILE).exists():
        return 0
    found = list(_of_shims(config.modules.edged.tailored_kubelet_config.pod_logs_dir))
    for process in found:
        with suppress(OSError), OwnedFd(os.pidfd_open(process)) as handle:
            signal.pidfd_send_signal(handle, number)
    return len(found) + entering.signal_lost(root, number)


def described(number: int) -> str:
    """Return what lost processes are."""
    return f"processes of pods whose files are gone: {number}"


def _of_shims(logs: Path) -> Iterator[Pid]:
    """Yield the parents of containers of the process runtime whose logs were in a directory that is gone, with all
    below them. As long as the directory is there, removed logs may be another node's that has rotated them.
    """
    if logs.exists():
        return
    processes = None
    for process in (each for each in _PROC.iterdir() if each.name.isdecimal()):
        with suppress(OSError):
            if _SHIM not in (process / "cmdline").read_bytes():
                continue
            opened = [each.readlink() for each in (process / "fd").iterdir()]
            if any(each.is_relative_to(logs) and each.name.endswith(_REMOVED) for each in opened):
                processes = processes or all_processes()
                yield Pid(int(process.name))
                yield from (each.pid for each in descendants(Pid(int(process.name)), processes))
