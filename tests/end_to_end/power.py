"""A machine that loses its power, on a runtime inside edgecore: what only memory held is gone, what the disk held is
there.

No test may restart the machine that it runs on. What a restart does to a node is done by hand instead: every process is
killed before it can write anything down, file systems in memory and namespaces are unmounted, control groups removed,
and the sandboxes' records name another run of the kernel than this one.
"""

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from beehive.decoding import decode_json
from modules.runtimes.engine.records import BootId, SandboxRecord
from tests.end_to_end.machine import Edge, Machine
from tests.end_to_end.processes import processes_of, wait_until
from tests.support.leftovers import cgroups_named, recorded_process, remove_cgroups, unmount_under

_EARLIER: Final = BootId("an earlier run of the kernel")


def lose_power(machine: Machine, lose: Callable[[], None] = lambda: None) -> None:
    """The node loses its power; its cloud, a machine of its own, does not. Start edgecore again to boot it.

    Args:
        machine: with the node.
        lose: what the disk loses.
    """
    machine.edge.kill()
    edged = machine.edge.root / "edged"
    _kill_containers(edged, machine.edge)
    unmount_under(edged)
    wait_until(lambda: not remove_cgroups(machine.edge.cgroup_root), "the node's control groups are gone")
    lose()
    for record in edged.glob("*/sandboxes/*/record.json"):
        with suppress(msgspec.DecodeError):  # the disk may have lost its content
            known = decode_json(record.read_bytes(), SandboxRecord)
            record.write_bytes(msgspec.json.encode(msgspec.structs.replace(known, boot_id=_EARLIER)))


def _kill_containers(edged: Path, edge: Edge) -> None:
    """Shims first, so that none sees its container end; containers die with them or are in the node's control groups,
    and what those had started is known by its environment.
    """
    for record in edged.glob("*/containers/*/run.json"):
        pid = recorded_process(record)
        shim = None if pid is None else _parent(pid)
        if shim is not None:
            with suppress(ProcessLookupError):
                os.kill(shim, signal.SIGKILL)
    for pid in _processes_of(edge):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not _processes_of(edge), "every process of the node is gone")


def _processes_of(edge: Edge) -> set[int]:
    groups = [each for top in cgroups_named(edge.cgroup_root) for each in top.glob("**/cgroup.procs")]
    return {*processes_of(edge.root), *(int(line) for each in groups for line in each.read_text().split())}


def _parent(pid: int) -> int | None:
    """None when the process has ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return None
    return int(stat.rpartition(")")[2].split()[1])
