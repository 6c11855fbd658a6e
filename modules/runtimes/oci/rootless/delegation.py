"""The control group that an ordinary user's node has for its pods: a scope of the user's systemd (cgroup v2).

systemd gives the groups below `user@UID.service` to the user, and a scope with `Delegate=yes` to the node
(https://systemd.io/CGROUP_DELEGATION). Pods are not in the group of edgecore's own unit: its group would have children
with controllers then, and systemd before 254 (`DelegateSubgroup=`) cannot start a unit in such a group again. The scope
lives as long as a process is in it, at least its keeper, a `sleep`. In the node's mount namespace the scope is what is
mounted at /sys/fs/cgroup.

A process may move others between two groups only if it may write to their nearest common parent. So an edgecore that
does not run below the user's systemd, as one that is started in a shell, is moved into the scope, too. A service of the
system stays in its unit, and has no such groups.
"""

import os
import secrets
import select
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from beehive.files.descriptors import OwnedFd
from beehive.node_namespaces import GROUPS
from beehive.on_failure import on_failure
from modules.runtimes.shim import kernel

WANTED: Final = ("cpu", "memory", "pids")
"""Controllers of the limits that pods usually have."""

_CONTROLLERS: Final = "cgroup.controllers"
_PROCESSES: Final = "cgroup.procs"
_KEEPER: Final = "keeper"
"""The keeper's group in the scope: a group with processes of its own hands down no controllers."""
_AGENT: Final = "agent"
"""edgecore's own, where it is in the scope."""
_SLICE: Final = "app.slice"
_SEARCHED: Final = "/usr/local/bin:/usr/bin:/bin"
_RUNTIME: Final = Path("/run/user")
_MANAGER: Final = ("org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager")
_SECONDS: Final = 30.0
_LONGEST: Final = 100
_DROP_IN: Final = "/etc/systemd/system/user@.service.d/edgecore.conf"


class Undelegated(NamedTuple):
    """Limits that this user's node cannot enforce."""

    limits: tuple[str, ...]
    """The controllers."""
    reason: str
    remedy: str


def undelegated(groups: Path = GROUPS, runtime: Path = _RUNTIME, searched: str = _SEARCHED) -> Undelegated | None:
    """Return what this user's systemd lacks to limit pods; None where all of it is there.

    Args:
        groups: where the machine's control groups are mounted.
        runtime: directory of the users' runtime directories.
        searched: directories of programs, separated by colons.
    """
    if not (groups / _CONTROLLERS).exists():
        reason = "this machine has control groups v1, in which only root may limit"
        return Undelegated(WANTED, reason, "systemd.unified_cgroup_hierarchy=1 on the kernel's command line")
    manager = _manager(groups)
    if not os.access(manager / _PROCESSES, os.W_OK):
        return Undelegated(WANTED, "no systemd of this user runs", "loginctl enable-linger")
    if not _has_bus(runtime) or any(shutil.which(each, path=searched) is None for each in ("systemd-run", "busctl")):
        return Undelegated(WANTED, "this user's systemd cannot be asked", "apt-get install systemd dbus-user-session")
    given = (manager / _CONTROLLERS).read_text().split()
    if missing := tuple(each for each in WANTED if each not in given):
        reason = f"systemd does not delegate {' and '.join(missing)} to users"
        lines = rf"[Service]\nDelegate={' '.join(WANTED)}\n"
        return Undelegated(
            missing, reason, f"mkdir -p {Path(_DROP_IN).parent} && printf '{lines}' > {_DROP_IN} && reboot"
        )
    return None


def delegated_group(record: Path, *, anew: bool) -> Path | None:
    """Return the directory of the node's scope, which lives; None where this user's systemd gives none. This process
    may move its children into it. It must be in the machine's namespaces still. Raises OSError for the record.

    Args:
        record: file with the name of the scope, if the node has one.
        anew: whether to make another scope; else there is one only if there was one before.
    """
    if anew:
        record.unlink(missing_ok=True)
        gap = undelegated()
        if gap is not None and gap.limits == WANTED:
            return None
        name = f"edgecore-{secrets.token_hex(8)}.scope"
    else:
        try:
            name = record.read_text()[:_LONGEST]
        except FileNotFoundError:
            return None
    group, own, keeper = _manager(GROUPS) / _SLICE / name, _own_group(), 0
    reaches = _may_move(own, group)
    if not reaches and own.endswith(".service"):
        return None
    try:
        if not _is_populated(group):
            keeper = _start_keeper(name, group)
        if not reaches:
            _move_into(name, group)
    except (OSError, subprocess.SubprocessError):
        if keeper:
            end_child(keeper)
        return None
    if anew:
        record.write_text(name)
    return group


def show_group(group: Path) -> None:
    """Let /sys/fs/cgroup be a control group, in this process's mount namespace; nothing where it is already.

    Args:
        group: its path below the machine's /sys/fs/cgroup.

    Raises OSError.
    """
    with suppress(OSError):
        kernel.unmount(str(GROUPS), kernel.MNT_DETACH)  # of an earlier scope; what is the machine's is locked
    kernel.mount(str(group), str(GROUPS), "", kernel.MS_BIND)


def keepers() -> tuple[int, ...]:
    """Return the processes that keep the scope which this process sees at /sys/fs/cgroup."""
    try:
        return tuple(int(each) for each in (GROUPS / _KEEPER / _PROCESSES).read_text().split())
    except OSError:
        return ()


def _manager(groups: Path) -> Path:
    """Return the control group of this user's systemd, which need not run."""
    user = os.getuid()
    return groups / "user.slice" / f"user-{user}.slice" / f"user@{user}.service"


def _has_bus(runtime: Path) -> bool:
    return (runtime / str(os.getuid()) / "bus").exists()


def _environment() -> dict[str, str]:
    return {"PATH": _SEARCHED, "XDG_RUNTIME_DIR": str(_RUNTIME / str(os.getuid()))}


def _is_populated(group: Path) -> bool:
    try:
        return "populated 1" in (group / "cgroup.events").read_text().splitlines()
    except OSError:
        return False


def _start_keeper(name: str, group: Path) -> int:
    """Start a process that is the first of a new scope, and outlives this one; return its id. Raises OSError."""
    run = [
        "systemd-run", "--user", "--scope", "--quiet", "--collect", f"--unit={name}", f"--slice={_SLICE}",
        "--description=Pods of edgecore", "--property=Delegate=yes", "sh", "-c", "echo; exec sleep infinity >/dev/null",
    ]  # fmt: skip
    begun, written = os.pipe2(os.O_CLOEXEC)
    with os.fdopen(begun, "rb", 0) as answer:
        with OwnedFd(written):
            null = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 2)]
            output = (os.POSIX_SPAWN_DUP2, written, 1)
            keeper = os.posix_spawnp(run[0], run, _environment(), file_actions=[*null, output], setsid=True)
        with on_failure(lambda: end_child(keeper)):
            ready, _, _ = select.select([answer], [], [], _SECONDS)
            if not (ready and answer.read(1)):
                raise TimeoutError("systemd has not begun a scope")
            (group / _KEEPER).mkdir(exist_ok=True)
            (group / _KEEPER / _PROCESSES).write_text(str(keeper))
    return keeper


def end_child(child: int) -> None:
    """Kill a child."""
    with suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def _own_group() -> str:
    """Return this process's control group (v2), as the kernel names it."""
    return Path("/proc/self/cgroup").read_text().rpartition("0::")[2].strip()


def _may_move(own: str, group: Path) -> bool:
    """Return whether a process may move a child of its own to a group (cgroups(7), "Cgroups delegation").

    Args:
        own: the process's control group.
        group: directory of the other one; it need not exist.
    """
    common = os.path.commonpath((group, f"{GROUPS}{own}"))
    return os.access(f"{common}/{_PROCESSES}", os.W_OK)


def _move_into(name: str, group: Path) -> None:
    """Move this process into the scope. Raises OSError, subprocess.SubprocessError."""
    (group / _AGENT).mkdir(exist_ok=True)
    call = ["busctl", "--user", "call", *_MANAGER, "AttachProcessesToUnit", "ssau", name, f"/{_AGENT}", "1"]
    command = [*call, str(os.getpid())]
    subprocess.run(command, env=_environment(), capture_output=True, timeout=_SECONDS, check=True)
