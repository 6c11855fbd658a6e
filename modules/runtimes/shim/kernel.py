"""The few system calls that Python 3.11 lacks: namespaces, mounts, process control."""

import ctypes
import errno
import os
import struct
from select import poll

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mount.argtypes = (
    ctypes.c_char_p,
    ctypes.c_char_p,
    ctypes.c_char_p,
    ctypes.c_ulong,
    ctypes.c_char_p,
)
_libc.umount2.argtypes = (ctypes.c_char_p, ctypes.c_int)
_libc.pivot_root.argtypes = (ctypes.c_char_p, ctypes.c_char_p)
_libc.capset.argtypes = (ctypes.c_char_p, ctypes.c_char_p)
_libc.prctl.argtypes = (ctypes.c_int, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_ulong)

_SIGKILL = 9
"""Without the module `signal`, which imports `enum`."""

NEW_MOUNT_NAMESPACE = 0x0002_0000
NEW_USER_NAMESPACE = 0x1000_0000
NEW_UTS_NAMESPACE = 0x0400_0000
NEW_IPC_NAMESPACE = 0x0800_0000
NEW_NETWORK_NAMESPACE = 0x4000_0000

MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_REMOUNT = 0x20
MS_BIND = 0x1000
MS_MOVE = 0x2000
MS_REC = 0x4000
MS_PRIVATE = 0x4_0000
MS_SLAVE = 0x8_0000
MS_RELATIME = 0x20_0000

MNT_DETACH = 0x2
_UMOUNT_NOFOLLOW = 0x8

_ST_RELATIME = 0x1000
_SAME_IN_STATVFS = 0x1 | 0x2 | 0x4 | 0x8 | 0x400 | 0x800
"""rdonly, nosuid, nodev, noexec, noatime, nodiratime: the mount flags whose statvfs bits have the same values."""

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_PR_CAPBSET_DROP = 24
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_CLEAR_ALL = 4

_CAPABILITY_VERSION_3 = 0x20080522
_MOST_CAPABILITIES = 64


def _check(result: int, subject: str) -> None:
    if result != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error), subject)


def unshare(namespaces: int) -> None:
    """Leave the given namespaces for new ones."""
    _check(_libc.unshare(namespaces), "namespaces")


def join_namespace(path: str, kind: int) -> None:
    """Enter the namespace of the /proc/PID/ns file at `path`."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        set_namespace(descriptor, kind, path)
    finally:
        os.close(descriptor)


def set_namespace(descriptor: int, kind: int, subject: str) -> None:
    """Enter the namespace of an open file of /proc/PID/ns; an error names the subject."""
    _check(_libc.setns(descriptor, kind), subject)


def mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    """mount(2); the error names the target."""
    encoded = (os.fsencode(source), os.fsencode(target), kind.encode())
    _check(_libc.mount(*encoded, flags, options.encode()), target)


def unmount(target: str, flags: int = 0) -> None:
    """umount2(2); a symbolic link at the end of `target` is not followed."""
    _check(_libc.umount2(os.fsencode(target), flags | _UMOUNT_NOFOLLOW), target)


def sync_file_system(descriptor: int) -> None:
    """Put everything that was written to a descriptor's file system on the disk (syncfs)."""
    _check(_libc.syncfs(descriptor), "syncfs")


def pivot_root(new: str, old: str) -> None:
    """Make the mount at `new` the root of the mount namespace, and move the former root to `old`."""
    _check(_libc.pivot_root(os.fsencode(new), os.fsencode(old)), new)


def mount_flags(path: str) -> int:
    """Return the flags of the mount of `path`: a remount in a user namespace must not drop any."""
    found = os.statvfs(path).f_flag
    return found & _SAME_IN_STATVFS | (MS_RELATIME if found & _ST_RELATIME else 0)


def die_with_parent(signal_number: int) -> None:
    """Have the kernel send this signal to the calling process when the parent's thread that made it ends."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, signal_number, 0, 0, 0), "parent death signal")


def die_with_peer(descriptor: int) -> None:
    """Have the kernel kill the calling process when its parent's thread ends, as `die_with_parent`; end it now if that
    has happened before: the other end of a pipe or socket, which nobody but the parent has, is closed.
    """
    die_with_parent(_SIGKILL)
    poller = poll()
    poller.register(descriptor, 0)
    if poller.poll(0):
        os._exit(1)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends."""
    _check(_libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "child subreaper")


def forbid_new_privileges() -> None:
    """Make set-user-id programs run without their privilege from here on (allowPrivilegeEscalation: false)."""
    _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no new privileges")


def drop_bounding_capabilities() -> None:
    """Let no program that is executed from here on have a capability."""
    for number in range(_MOST_CAPABILITIES):
        if _libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0) != 0:
            if number == 0 or ctypes.get_errno() != errno.EINVAL:
                _check(-1, "capability bounding set")
            return  # the kernel has no more


def drop_capabilities() -> None:
    """Give up all capabilities of the calling thread, those for programs that it executes included."""
    if _libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0 and ctypes.get_errno() != errno.EINVAL:
        _check(-1, "ambient capabilities")
    header = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
    _check(_libc.capset(header, bytes(2 * 3 * 4)), "capabilities")


def name_process(name: str) -> None:
    """Set the name of the calling process in `ps` and `top`; 15 bytes at most."""
    buffer = ctypes.create_string_buffer(name.encode())
    _check(_libc.prctl(_PR_SET_NAME, ctypes.addressof(buffer), 0, 0, 0), "process name")
