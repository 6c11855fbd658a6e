"""What a run of the tests has left on the machine: found by the run's mark, or by comparison with its beginning.

Other programs, and other runs of the tests, work on the machine meanwhile: their processes, mounts, interfaces, rules,
control groups and files have another mark or none, and do not count. What all runs would share, since the programs
choose its name themselves, is compared by the run that ends last.
"""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple

from tests.support.directories import VARIABLE
from tests.support.patience import PATIENCE

_CGROUPS: Final = Path("/sys/fs/cgroup")
_INTERFACES: Final = Path("/sys/class/net")
_PROCESSES: Final = Path("/proc")
_MOUNTS: Final = Path("/proc/self/mountinfo")
_RULES: Final = (("iptables-save",), ("ip6tables-save",), ("nft", "list", "ruleset"))
_PUBLIC: Final = ("/tmp", "/var/tmp", "/dev/shm", "/run", "/run/netns", "/run/edgecore/cni", "/run/edgecore/roots")
"""Directories where tests make directories of their own, with the run's mark."""
_OF_PROGRAMS: Final = (
    "/etc/cni", "/etc/edgecore", "/etc/kubeedge", "/var/lib/cloudcore", "/var/lib/cni", "/var/lib/edged",
    "/run/edgecore", "/var/lib/edgecore", "/var/lib/kubeedge", "/var/lib/kubelet",
)  # fmt: skip
_OF_PROGRAMS_AT_HOME: Final = (".kube", ".local/state/cloudcore", ".local/state/edgecore")
"""Directories that the programs make without a configuration; tests configure others."""
_INTERFACE_OF_PROGRAMS: Final = "edgecore0"
_RULE_OF_PROGRAMS: Final = re.compile(
    r'--comment "(?P<comment>edgecore: loopback from elsewhere|edgecore: pods of edgecore0|CNI portfwd [a-z ]+)"'
    r"|(?P<table>table \w+ edgecore) \{|:(?P<chain>CNI-HOSTPORT-\w+) "
)
"""Of the default pod network, of edgemesh's tables, and of CNI's plug-in for ports of the machine."""


class Machine(NamedTuple):
    """The parts of the machine that a run may not change."""

    modes: Mapping[str, tuple[int, int, int]]
    """Mode, user and group of each directory that is everybody's, or above the repository."""
    present: frozenset[str]
    """The directories, interfaces and rules that are there of those whose names the programs choose, in words."""


def machine(repository: Path) -> Machine:
    """Look at the machine before or after a run."""
    home = Path(os.path.expanduser("~"))  # noqa: PTH111 - `Path.home` fails without a home
    watched = {*map(Path, _PUBLIC), home, Path(tempfile.gettempdir()), repository, *repository.parents}
    modes = {}
    for path in watched:
        with suppress(OSError):
            found = path.stat()
            modes[str(path)] = found.st_mode, found.st_uid, found.st_gid
    return Machine(modes, frozenset(_of_programs(home)))


def _of_programs(home: Path) -> Iterator[str]:
    directories = chain(map(Path, _OF_PROGRAMS), (home / name for name in _OF_PROGRAMS_AT_HOME))
    yield from (f"directory {path}" for path in directories if path.exists())
    if (_INTERFACES / _INTERFACE_OF_PROGRAMS).exists():
        yield f"network interface {_INTERFACE_OF_PROGRAMS}"
    for program, line in _lines_of_rules():
        if found := _RULE_OF_PROGRAMS.search(line):
            yield f"rule of {program}: {found[found.lastgroup or 0]}"


def changes(before: Machine, after: Machine) -> list[str]:
    """Return what differs, in words."""
    changed = [
        f"directory {path}: mode {mode[0] & 0o7777:o}, user {mode[1]}, group {mode[2]} became "
        f"{now[0] & 0o7777:o}, {now[1]}, {now[2]}"
        for path, mode in sorted(before.modes.items())
        if (now := after.modes.get(path, mode)) != mode
    ]
    return changed + [f"{each} was made" for each in sorted(after.present - before.present)]


def others_run(mark: str) -> bool:
    """Return whether processes of another run are there, as far as this user may see."""
    for entry in _PROCESSES.glob("[0-9]*"):
        with suppress(OSError):
            for each in (entry / "environ").read_bytes().split(b"\0"):
                name, _, value = each.partition(b"=")
                if name == VARIABLE.encode() and value != mark.encode():
                    return True
    return False


def had_rule(found: Machine, words: str) -> bool:
    """Return whether there was a rule of an edgecore, or of CNI's plug-in, with these words in its name."""
    return any(each.startswith("rule ") and words in each for each in found.present)


def remains(mark: str) -> list[str]:
    """Return what has this run's mark, in words; this process and those above it are left out."""
    return [*processes(mark), *_mounts(mark), *_interfaces(mark), *_rules(mark), *_cgroups(mark), *_files(mark)]


def is_of_run(pid: int, mark: str) -> bool:
    """Return whether a process has the run's mark in its environment or its arguments; False if it may not be read."""
    directory = _PROCESSES / str(pid)
    try:
        environment, arguments = ((directory / name).read_bytes() for name in ("environ", "cmdline"))
    except OSError:
        return False
    is_started_by_it = f"{VARIABLE}={mark}".encode() in environment.split(b"\0")
    return is_started_by_it or f"-{mark}".encode() in environment + arguments


def processes(mark: str) -> list[str]:
    """Return the processes with the run's mark, in words; this process and those above it are left out."""
    return list(_processes(mark))


def _processes(mark: str) -> Iterator[str]:
    above = ancestors(os.getpid())
    for entry in _PROCESSES.iterdir():
        if entry.name.isdigit() and int(entry.name) not in above and is_of_run(int(entry.name), mark):
            with suppress(OSError):
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                if state not in "ZX":
                    yield f"process {entry.name}: {command[:200]}"


def ancestors(pid: int) -> set[int]:
    """Return a process and those above it."""
    found: set[int] = set()
    while pid > 0 and pid not in found:
        found.add(pid)
        try:
            pid = int((_PROCESSES / str(pid) / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            break
    return found


def _mounts(mark: str) -> Iterator[str]:
    yield from (f"mount {line.split()[4]}" for line in _with_mark(_MOUNTS.read_text().splitlines(), mark))


def _interfaces(mark: str) -> Iterator[str]:
    yield from (f"network interface {path.name}" for path in _INTERFACES.iterdir() if mark in path.name)


def _rules(mark: str) -> Iterator[str]:
    for program, line in _lines_of_rules():
        if f"-{mark}" in line:
            yield f"rule of {program}: {line.strip()}"


def _lines_of_rules() -> Iterator[tuple[str, str]]:
    for command in _RULES:
        if os.geteuid() == 0 and shutil.which(command[0]):
            with suppress(subprocess.TimeoutExpired):
                done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
                yield from ((command[0], line) for line in done.stdout.splitlines())


def _cgroups(mark: str) -> Iterator[str]:
    for directory, below, _ in os.walk(_CGROUPS):
        marked = [name for name in below if mark in name]
        yield from (f"control group {directory}/{name}" for name in marked)
        below[:] = [name for name in below if name not in marked]


def _files(mark: str) -> Iterator[str]:
    for directory in _PUBLIC:
        with suppress(OSError):
            yield from (f"file {path}" for path in Path(directory).iterdir() if f"-{mark}" in path.name)


def _with_mark(lines: Iterable[str], mark: str) -> Iterator[str]:
    return (line for line in lines if f"-{mark}" in line)
