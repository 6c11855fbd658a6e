"""Tries whether this machine can have a node without root, in a process that ends and leaves nothing."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final, NoReturn

from beehive.files.removal import remove_tree
from beehive.node_namespaces import POD_ROOT
from modules.runtimes.engine.errors import StateDirectoryError
from modules.runtimes.oci.rootless.entering import REFUSED, fork_with, make_namespaces
from modules.runtimes.shim import kernel

_ATTEMPT: Final = "isolate containers without root"
_LONGEST: Final = 4096
_NEW_PID: Final = 0x2000_0000
_MARK: Final = "user.overlay.opaque"
_PARTS: Final = ("lower", "upper", "work", "rootfs", "proc")


def probe(directory: Path) -> None:
    """Make namespaces as a node does, and in them files of a sub-id, an overlay and a /proc.

    Args:
        directory: on the file system of the node's root directory.

    Raises:
        StateDirectoryError: something is refused.
    """
    read, write = os.pipe2(os.O_CLOEXEC)
    child = fork_with(read, write)
    if child == 0:
        _report(write, lambda: _try(directory))
    os.close(write)
    with os.fdopen(read, "rb") as answers:
        answer = answers.read(_LONGEST)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    reason, _, hint = answer.decode(errors="replace").partition("\0")
    if status or reason:
        raise StateDirectoryError(_ATTEMPT, reason or "the trial has ended early", hint)


def _report(write: int, work: Callable[[], None]) -> NoReturn:
    """Write the error of some work, and end this process."""
    status = 1
    try:
        work()
        status = 0
    except StateDirectoryError as error:
        os.write(write, f"{error.reason}\0{error.hint}".encode()[:_LONGEST])
    except OSError as error:
        os.write(write, str(error).encode()[:_LONGEST])
    finally:
        os._exit(status)


def _try(directory: Path) -> None:
    make_namespaces()
    _attempt("", REFUSED, lambda: kernel.mount("", "/", "", kernel.MS_REC | kernel.MS_SLAVE))
    local = "take a directory on a local disk, such as ext4, and Linux 5.11 or later"
    made = Path(tempfile.mkdtemp(prefix=".trial-", dir=directory))
    try:
        lower, upper, work, rootfs, proc = (made / name for name in _PARTS)
        for each in (lower, upper, work, rootfs, proc):
            each.mkdir()
        where = f'files of sub-ids and overlays do not work in "{directory}"'
        _attempt(where, local, lambda: os.chown(lower, POD_ROOT, POD_ROOT))
        _attempt(where, local, lambda: os.setxattr(lower, _MARK, b"y"))
        options = f"userxattr,lowerdir={lower},upperdir={upper},workdir={work}"
        _attempt(where, local, lambda: kernel.mount("overlay", str(rootfs), "overlay", 0, options))
        kernel.unmount(str(rootfs), kernel.MNT_DETACH)
        _attempt("", "start edgecore outside of a container, or with its /proc unmasked", lambda: _try_proc(proc))
    finally:
        remove_tree(made)


def _attempt(what: str, hint: str, step: Callable[[], None]) -> None:
    try:
        step()
    except OSError as error:
        raise StateDirectoryError(_ATTEMPT, f"{what}: {error}" if what else str(error), hint) from error


def _try_proc(target: Path) -> None:
    """Mount a /proc of new processes: the kernel refuses it where that of this process is masked. Raises OSError."""
    kernel.unshare(_NEW_PID)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            kernel.mount("proc", str(target), "proc", 0)
            kernel.unmount(str(target), kernel.MNT_DETACH)
            status = 0
        finally:
            os._exit(status)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
        raise PermissionError("a /proc for containers cannot be mounted")
