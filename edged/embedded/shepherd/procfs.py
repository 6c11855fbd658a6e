"""What /proc tells of processes: parents, what they use, and who descends from whom."""

import os
from pathlib import Path
from typing import NamedTuple

from edged.embedded.shepherd.protocol import Pid


class ProcessStat(NamedTuple):
    """The fields of /proc/PID/stat that are used here, as proc(5) names them; times in clock ticks."""

    pid: Pid
    parent: Pid
    minor_faults: int
    major_faults: int
    own_ticks: int
    reaped_ticks: int
    resident_pages: int


def parse_stat(text: str) -> ProcessStat:
    """Read one /proc/PID/stat; the command name in it may hold anything, so fields count from its last
    parenthesis.
    """
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
    """The process `pid` as it is now; None when there is none."""
    try:
        return parse_stat(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace"))
    except (FileNotFoundError, ProcessLookupError):
        return None


def all_processes() -> dict[Pid, ProcessStat]:
    """Every process that can be seen, by pid."""
    stats = (read_stat(int(entry.name)) for entry in Path("/proc").iterdir() if entry.name.isdecimal())
    return {stat.pid: stat for stat in stats if stat is not None}


def descendants(of: Pid, processes: dict[Pid, ProcessStat]) -> list[ProcessStat]:
    """The processes below `of` in `processes`, itself not included."""
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
    """Living and unreaped children of the calling, single-threaded process.

    The kernel's list may skip entries while siblings are ending; who needs it whole asks again after the next
    SIGCHLD. Kernels built without CONFIG_PROC_CHILDREN do not have it: then every process is looked at.
    """
    me = os.getpid()
    try:
        return [Pid(int(pid)) for pid in Path(f"/proc/{me}/task/{me}/children").read_text("ascii").split()]
    except FileNotFoundError:
        return [stat.pid for stat in all_processes().values() if stat.parent == me]
