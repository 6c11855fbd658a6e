"""Processes from /proc: parents, usage and descendants."""

import os
from pathlib import Path
from typing import NamedTuple

from modules.runtimes.shim.protocol import Pid


class ProcessStat(NamedTuple):
    """Fields of /proc/PID/stat, named after proc(5); times in clock ticks."""

    pid: Pid
    parent: Pid
    minor_faults: int
    major_faults: int
    own_ticks: int
    reaped_ticks: int
    resident_pages: int


def parse_stat(text: str) -> ProcessStat:
    """Parse one /proc/PID/stat. The command name may hold any character, so fields count from its last parenthesis."""
    pid = int(text[: text.index("(")])
    fields = text[text.rindex(")") + 2 :].split()
    return ProcessStat(
        pid=Pid(pid),
        parent=Pid(int(fields[1])),
        minor_faults=int(fields[7]),
        major_faults=int(fields[9]),
        own_ticks=int(fields[11]) + int(fields[12]),
        reaped_ticks=int(fields[13]) + int(fields[14]),
        resident_pages=int(fields[21]),
    )


def read_stat(pid: int) -> ProcessStat | None:
    """Return the process `pid`; None when it does not exist."""
    try:
        return parse_stat(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace"))
    except (FileNotFoundError, ProcessLookupError):
        return None


def all_processes() -> dict[Pid, ProcessStat]:
    """Return every visible process, by pid."""
    stats = (read_stat(int(entry.name)) for entry in Path("/proc").iterdir() if entry.name.isdecimal())
    return {stat.pid: stat for stat in stats if stat is not None}


def descendants(of: Pid, processes: dict[Pid, ProcessStat]) -> list[ProcessStat]:
    """Return the processes below `of` in `processes`, without itself."""
    children: dict[Pid, list[ProcessStat]] = {}
    for stat in processes.values():
        children.setdefault(stat.parent, []).append(stat)
    found: list[ProcessStat] = []
    pending = [of]
    while pending:
        below = children.pop(pending.pop(), [])
        found.extend(below)
        pending.extend(stat.pid for stat in below)
    return found


def children_of_this_process() -> list[Pid]:
    """Return living and unreaped children of the calling, single-threaded process.

    The kernel's list may skip entries while siblings are ending; a caller that needs all of them asks again after the
    next SIGCHLD. Kernels built without CONFIG_PROC_CHILDREN lack the list: then every process is read.
    """
    me = os.getpid()
    try:
        return [Pid(int(pid)) for pid in Path(f"/proc/{me}/task/{me}/children").read_text("ascii").split()]
    except FileNotFoundError:
        return [stat.pid for stat in all_processes().values() if stat.parent == me]
