"""Removes the leftovers of a dead container runtime or of an interrupted run: shims and their containers, mounts,
cgroups.
"""

import json
import os
import shlex
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from beehive.clock import RealClock
from beehive.files.removal import remove_tree
from modules.runtimes.oci.network.loopback_firewall import LoopbackFirewall
from tests.support.patience import PATIENCE
from tests.support.remains import ancestors, is_of_run, remains

_CGROUPS = Path("/sys/fs/cgroup")
CNI = Path("/var/lib/cni")
LOOPBACK_RULE = "loopback from elsewhere"
"""A part of the comment of the rule that keeps 127.0.0.0/8 to the machine."""
_HOST_PORTS = "CNI-HOSTPORT-"
_PODS_PORTS = "CNI-DN-"
_OCTAL_SPACE = "\\040"
_LOOK_SECONDS = 0.02


def kill_shims(address: Path) -> list[int]:
    """Kills the shims of the containerd at this socket and the containers under them; says which it killed, when they
    have ended.
    """
    shims = [pid for pid, command in _processes() if "containerd-shim" in command[0] and str(address) in command]
    doomed = [*shims, *(pid for pid, _ in _processes() if _parent(pid) in shims)]
    for pid in doomed:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    _looked_for(lambda: not any(map(_lives, doomed)))
    return doomed


def kill_programs(program: str, argument: Path) -> None:
    """Kills the processes of a program that have this argument: numbers in files may be other processes' by now."""
    for pid, command in _processes():
        if Path(command[0]).name == program and str(argument) in command:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def recorded_process(record: Path) -> int | None:
    """The first process of a container of the embedded or the OCI runtime, as its record `run.json` has it.

    None when it has ended: its number may be another process's by now, or a thread's of the test process; and when a
    power cut has taken the record's content. Its environment (HOME) or its control group names the container.
    """
    container = record.parent.name.encode()
    try:
        pid = int(json.loads(record.read_bytes())["pid"])
        belongs = any(container in Path(f"/proc/{pid}/{file}").read_bytes() for file in ("environ", "cgroup"))
    except (OSError, ValueError):
        return None
    return pid if belongs else None


def kill_recorded(record: Path) -> None:
    """Kills the first process of a container, if it lives."""
    pid = recorded_process(record)
    if pid is not None:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def unmount_under(directory: Path) -> list[str]:
    """Unmounts everything mounted below the directory, the innermost first; says what it was."""
    fields = (line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines())
    points = [field[4].replace(_OCTAL_SPACE, " ") for field in fields]
    inner_first = sorted((p for p in points if Path(p).is_relative_to(directory)), key=len, reverse=True)
    for point in inner_first:
        subprocess.run(["umount", "--lazy", point], check=False, capture_output=True)
    return inner_first


def cgroups_named(parent: str) -> list[Path]:
    """The directories of a cgroup at the top of each hierarchy that has it: one on cgroup v2, several on v1.

    A search through the whole tree would stumble over the cgroups that others make and remove meanwhile.
    """
    name = parent.lstrip("/")
    return [path for path in (_CGROUPS / name, *(top / name for top in _CGROUPS.iterdir())) if path.is_dir()]


def remove_cgroups(parent: str) -> list[Path]:
    """Removes the cgroup and all below it in every hierarchy; says which could not be removed.

    One in which a killed process is still dying is in use: it is tried again.
    """
    left: list[Path] = []

    def are_removed() -> bool:
        left[:] = _removed(parent)
        return not left

    _looked_for(are_removed)
    return left


def _removed(parent: str) -> list[Path]:
    left = []
    for top in cgroups_named(parent):
        for directory, _, _ in os.walk(top, topdown=False):
            try:
                Path(directory).rmdir()
            except OSError:
                left.append(Path(directory))
    return left


def remove_rules_for_ports() -> None:
    """Removes the chains of CNI's plug-in for ports of the machine, which stay when no pod is left, unless a pod has
    such a port.

    For the end of the last run on the machine: the plug-in finds its chains or makes them, and fails if one is gone
    when its rule follows. A plug-in that is killed while it removes a pod's chain leaves it empty: no pod has that.
    """
    for program in filter(shutil.which, ("iptables", "ip6tables")):
        lines = _iptables(program, "nat", "-S")
        rules = [shlex.split(line)[1:] for line in lines if line.startswith("-A ")]
        if not any(word.startswith(_PODS_PORTS) for rule in rules for word in rule):
            made = [line.split()[1] for line in lines if line.startswith("-N ")]
            chains = [each for each in made if each.startswith((_HOST_PORTS, _PODS_PORTS))]
            for chain, *rule in rules:
                if chain in chains or rule[-1] in chains:
                    _iptables(program, "nat", "-D", chain, *rule)
            for chain in chains:
                _iptables(program, "nat", "-X", chain)


def remove_loopback_rule() -> None:
    """Removes the runtime's rule for 127.0.0.0/8, at the end of the last run: the runtime of another one needs it."""
    clock = RealClock()
    LoopbackFirewall(clock).remove()
    clock.close()


def remove_cni_cache(directory: Path = CNI) -> None:
    """Removes the directories of containerd's CNI library, whose place cannot be configured, unless they have files."""
    with suppress(OSError):
        (directory / "results").rmdir()
        directory.rmdir()


def _iptables(program: str, table: str, *arguments: str) -> list[str]:
    command = [program, "-w", "-t", table, *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True).stdout.splitlines()


def clear(mark: str, directory: Path) -> None:
    """Ends and removes what has the mark of an interrupted run, whose fixtures have not all ended: processes and those
    below them, mounts, network interfaces, control groups and files.

    Args:
        mark: of the run.
        directory: of the run; it stays, for people to look into.
    """
    _looked_for(lambda: not _killed(mark))
    found = [each.split(" ", 2) if each[:7] in ("network", "control") else each.split(" ", 1) for each in remains(mark)]
    subjects = sorted(((each[0], each[-1]) for each in found), key=lambda each: len(each[1]), reverse=True)
    for kind, subject in sorted(subjects, key=lambda each: each[0] != "mount"):
        if kind == "mount":
            _run("umount", "--lazy", subject)
        elif kind == "network":
            _run("ip", "link", "delete", subject)
        elif kind == "control":
            remove_cgroups(str(Path(subject).relative_to(_CGROUPS)))
        elif kind == "file" and Path(subject) != directory:
            with suppress(OSError):
                remove_tree(Path(subject))


def _killed(mark: str) -> list[int]:
    """Kills the processes of a run and those below them, but not this one and those above it; says which there were."""
    above = ancestors(os.getpid())
    living = [pid for pid, _ in _processes() if pid not in above and _lives(pid)]
    marked = {pid for pid in living if is_of_run(pid, mark)}
    doomed = [pid for pid in living if ancestors(pid) & marked]
    for pid in doomed:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    return doomed


def _run(*command: str) -> None:
    with suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(command, check=False, capture_output=True, timeout=PATIENCE)


def _processes() -> list[tuple[int, list[str]]]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                command = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
                found.append((int(entry.name), command))
    return found


def _parent(pid: int) -> int:
    with suppress(OSError):
        return int(_stat(pid)[1])
    return 0


def _lives(pid: int) -> bool:
    with suppress(OSError):
        return _stat(pid)[0] not in "ZX"
    return False


def _stat(pid: int) -> list[str]:
    """From the state on."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _looked_for(true: Callable[[], bool]) -> None:
    """Wait until something is true, or does not come true."""
    pause = threading.Event()
    for _ in range(int(PATIENCE / _LOOK_SECONDS)):
        if true():
            return
        pause.wait(_LOOK_SECONDS)
