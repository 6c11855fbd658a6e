"""Makes the first process of a pod: a container whose root is empty, without rights, files and names of the machine.

Containers of the pod see it in their /proc, and one with SYS_PTRACE may do anything with it: so there must be
nothing behind it. It is in the pod's namespaces; its mount namespace has one empty file system that cannot be written;
it is nobody, without groups and capabilities; the kernel leaves it the system calls that it needs to wait and to end.

A process namespace begins with a child. So the process that edgecore starts prepares the root and enters the
namespaces, then it forks, and the child gives its rights up and executes the program. Before that the child waits until
edgecore has pinned the new namespace: when edgecore dies earlier, the child ends.
"""

import errno
import os
import resource
import signal
from collections.abc import Sequence
from typing import Final, NoReturn

from modules.runtimes.oci.network.pause.program import AWAITED, pause_program
from modules.runtimes.shim import kernel

NAMESPACES: Final = {"net": 0x4000_0000, "ipc": 0x0800_0000, "uts": 0x0400_0000}
"""Kinds that are entered with the machine's rights, with the flags of setns(2)."""
USER: Final = "user"
GO: Final = b"go"
"""edgecore's message once the namespace is pinned."""

_NEW_PID: Final = 0x2000_0000
_NOBODY: Final = 65534
_SAFE: Final = kernel.MS_NOSUID | kernel.MS_NODEV
_ROOT_OPTIONS: Final = "mode=0755,size=16k,nr_inodes=4"
_FILE: Final = "pause"
_EXECUTED_ONLY: Final = 0o111
"""A process whose program it may not read is not dumpable from its first instruction on, and the kernel takes it for
one of the owner's user namespace: the machine's.
"""


def main(control: int, directory: str, kinds: Sequence[str]) -> NoReturn:
    """Make the process, and tell its id, or the error.

    Args:
        control: descriptor of a socket to edgecore.
        directory: with the files of the pod's namespaces.
        kinds: its own namespaces, of NAMESPACES and USER.
    """
    os.set_inheritable(control, False)  # noqa: FBT003 - the function's form
    try:
        program = _enter(directory, kinds)
        pid = os.fork()
    except OSError as error:
        os.write(control, str(error).encode())
        os._exit(1)
    if pid:
        os.write(control, str(pid).encode())
        os._exit(0)
    try:
        if os.read(control, len(GO)) == GO:
            _give_up_rights()
            os.execve(program, [_FILE], {})  # noqa: S606 - no shell
    except OSError as error:
        os.write(control, str(error).encode())
    finally:
        os._exit(1)


def _enter(directory: str, kinds: Sequence[str]) -> int:
    """Leave the machine's mounts and enter the pod's namespaces; return a descriptor of the program.

    The mounts are left before the user namespace is entered: so they belong to the machine, and the pod's root has no
    rights over them.
    """
    for kind, flag in NAMESPACES.items():
        if kind in kinds:
            kernel.join_namespace(f"{directory}/{kind}", flag)
    users = os.open(f"{directory}/{USER}", os.O_RDONLY | os.O_CLOEXEC) if USER in kinds else None
    program = _enter_empty_root(directory)
    if users is not None:
        kernel.set_namespace(users, kernel.NEW_USER_NAMESPACE, USER)
        os.close(users)
    kernel.unshare(_NEW_PID)  # of the child
    return program


def _enter_empty_root(directory: str) -> int:
    """Make an empty file system the root, unmount all others, and return a descriptor of the program, which had a name
    there only until now. The file system's own name, in the list of mounts, tells whose process it is.
    """
    content = pause_program(os.uname().machine)
    if content is None:
        raise OSError(errno.ENOEXEC, "shareProcessNamespace is not supported", os.uname().machine)
    kernel.unshare(kernel.NEW_MOUNT_NAMESPACE)
    kernel.mount("", "/", "", kernel.MS_REC | kernel.MS_PRIVATE)
    kernel.mount(directory, directory, "tmpfs", _SAFE, _ROOT_OPTIONS)
    os.chdir(directory)
    with open(_FILE, "xb", buffering=0) as file:  # noqa: PTH123 - pathlib costs a third of the process
        file.write(content)
        os.fchmod(file.fileno(), _EXECUTED_ONLY)
    program = os.open(_FILE, os.O_PATH | os.O_CLOEXEC)
    os.unlink(_FILE)  # noqa: PTH108
    kernel.mount("", ".", "", kernel.MS_REMOUNT | kernel.MS_BIND | kernel.MS_RDONLY | _SAFE)
    kernel.pivot_root(".", ".")
    kernel.unmount(".", kernel.MNT_DETACH)
    os.chdir("/")
    return program


def _give_up_rights() -> None:
    """Become nobody, with no descriptor that outlives the execution of a program."""
    os.setsid()
    kernel.drop_bounding_capabilities()
    os.setgroups([])
    os.setresgid(_NOBODY, _NOBODY, _NOBODY)
    os.setresuid(_NOBODY, _NOBODY, _NOBODY)
    kernel.drop_capabilities()
    kernel.forbid_new_privileges()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for number in range(1, signal.NSIG):
        try:
            signal.signal(number, signal.SIG_DFL)
        except (OSError, ValueError):  # KILL, STOP and the C library's own
            continue
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, AWAITED)
    os.umask(0o077)
    for standard in range(3):
        os.close(standard)
