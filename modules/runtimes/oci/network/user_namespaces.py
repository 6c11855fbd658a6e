"""Namespaces of a pod with users of its own: its root is nobody on the machine.

The other namespaces of such a pod belong to its user namespace, so that its root may set their hostname, interfaces and
parameters. No thread of edgecore can leave the machine's user namespace, as the kernel lets single-threaded processes
only: a short-lived process makes all of them, is pinned, and ends.
"""

import os
import select
import signal
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import msgspec

from modules.runtimes.oci.network.kernel import bind_file

USER: Final = "user"
"""File of the namespace, in the directory of the sandbox."""

_OPTIONS: Final = {USER: "--user", "net": "--net", "ipc": "--ipc", "uts": "--uts"}
"""Options of unshare(1)."""
_WAIT: Final = ("sh", "-c", "echo; read -r line")
"""Tells that the namespaces are there, and keeps them until its input ends."""
_MILLISECONDS: Final = 30_000
_DEFAULT_SIGNALS: Final = (signal.SIGPIPE, signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class IdRange(msgspec.Struct, frozen=True):
    """Users or groups from 0 in a pod are those from `host` on the machine."""

    host: int
    length: int


class UserMapping(msgspec.Struct, frozen=True):
    """Users and groups of a pod's user namespace."""

    users: IdRange
    groups: IdRange


def pin_with_users(directory: Path, kinds: Sequence[str], mapping: UserMapping) -> None:
    """Make a user namespace and others in it, and bind them to files.

    Args:
        directory: for the files, named as the kinds.
        kinds: "net", "ipc", "uts"; USER is always made.
        mapping: of the user namespace.

    Raises:
        OSError: the kernel refuses, or unshare(1) is not installed.
    """
    with ExitStack() as closing:
        with ExitStack() as handed_on:
            ours, theirs = os.pipe2(os.O_CLOEXEC)
            closing.callback(os.close, ours)
            handed_on.callback(os.close, theirs)
            given, kept = os.pipe2(os.O_CLOEXEC)
            closing.callback(os.close, kept)
            handed_on.callback(os.close, given)
            pid = _spawn([USER, *kinds], given, theirs)
        closing.callback(_end, pid)
        _await(ours)
        _write_mapping(pid, mapping)
        for kind in (USER, *kinds):
            file = directory / kind
            file.touch(mode=0o400)
            bind_file(f"/proc/{pid}/ns/{kind}", file)


def _end(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def _spawn(kinds: Sequence[str], stdin: int, stdout: int) -> int:
    command = ("unshare", *(_OPTIONS[kind] for kind in kinds), *_WAIT)
    return os.posix_spawnp(
        command[0], command, {"PATH": os.environ.get("PATH", os.defpath)},
        file_actions=[
            (os.POSIX_SPAWN_DUP2, stdin, 0),
            (os.POSIX_SPAWN_DUP2, stdout, 1),
            (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
        ],
        setsid=True, setsigmask=(), setsigdef=_DEFAULT_SIGNALS,
    )  # fmt: skip


def _await(output: int) -> None:
    """Wait until the process reports its namespaces. Raises OSError when it has failed."""
    poll = select.poll()
    poll.register(output, select.POLLIN)
    if not poll.poll(_MILLISECONDS):
        raise TimeoutError("unshare does not answer")
    if not os.read(output, 1):
        raise PermissionError("unshare has failed: does the kernel allow user namespaces (user.max_user_namespaces)?")


def _write_mapping(pid: int, mapping: UserMapping) -> None:
    for name, ids in (("uid_map", mapping.users), ("gid_map", mapping.groups)):
        Path(f"/proc/{pid}/{name}").write_text(f"0 {ids.host} {ids.length}\n")
