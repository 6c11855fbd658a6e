"""System calls for the namespaces of pods, and functions that run in such a namespace.

The kernel keeps namespaces by thread, not by process: a new thread may leave the machine's namespaces, or enter a
pod's, and no other thread of edgecore notices. Each function here that changes a namespace does so on a thread of its
own, which then ends; a pooled thread would take the namespace to its next task.
"""

import errno
import fcntl
import socket
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from modules.runtimes.shim import kernel

T = TypeVar("T")

_MS_NOEXEC = 0x8

_SIOCGIFFLAGS: Final = 0x8913
_SIOCSIFFLAGS: Final = 0x8914
_IFF_UP: Final = 0x1
_INTERFACE_NAME: Final = 16
"""Bytes of an interface's name in `struct ifreq`, with the closing zero."""


def on_own_thread(function: Callable[[], T]) -> T:
    """Call a function on a thread of its own; return its result, or raise its exception.

    Raises OSError when there can be no more threads.
    """
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(function())
        except BaseException as error:  # noqa: BLE001 - raised again on the caller's thread
            errors.append(error)

    thread = threading.Thread(target=run, name="pod-namespace", daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        raise OSError(errno.EAGAIN, str(error)) from None
    thread.join()
    if errors:
        try:
            raise errors.pop()
        finally:
            del run
    return results[0]


def in_network_namespace(path: Path, function: Callable[[], T]) -> T:
    """Call a function in a network namespace. Raises OSError when it cannot be entered."""

    def run() -> T:
        kernel.join_namespace(str(path), kernel.NEW_NETWORK_NAMESPACE)
        return function()

    return on_own_thread(run)


def own_namespace(kind: str) -> str:
    """Return the path of the calling thread's namespace of this kind (net, ipc, uts), valid while the thread lives."""
    return f"/proc/self/task/{threading.get_native_id()}/ns/{kind}"


def bind_file(source: str, target: Path | str) -> None:
    """Bind a file, such as a namespace of /proc, to an existing file. Raises OSError."""
    kernel.mount(source, str(target), "", kernel.MS_BIND)


def mount_tmpfs(target: Path, options: str) -> None:
    """Mount memory at a directory, without set-user-id programs, devices and executables. Raises OSError.

    Mounts below it never reach other mount namespaces, however the machine's root is shared.
    """
    kernel.mount("tmpfs", str(target), "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV | _MS_NOEXEC, options)
    kernel.mount("", str(target), "", kernel.MS_PRIVATE)


def unmount(target: Path | str) -> None:
    """Undo the last mount at a path, also while it is in use. Raises OSError."""
    kernel.unmount(str(target), kernel.MNT_DETACH)


def set_interface_up(name: str, *, up: bool = True) -> None:
    """Bring a network interface of the calling thread's namespace up or down. Raises OSError."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack(f"{_INTERFACE_NAME}sh14x", name.encode(), 0)
        found = fcntl.ioctl(control, _SIOCGIFFLAGS, request)
        (flags,) = struct.unpack_from("h", found, _INTERFACE_NAME)
        flags = flags | _IFF_UP if up else flags & ~_IFF_UP
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack(f"{_INTERFACE_NAME}sh14x", name.encode(), flags))
