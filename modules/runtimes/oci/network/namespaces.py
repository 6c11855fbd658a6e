"""Pins the namespaces of sandboxes, so that they live without a process.

A thread leaves the machine's namespaces, sets the new ones up, binds its files of /proc to files of a tmpfs, and ends.
Containers join the namespaces by these files. The tmpfs is private: a bind mount in a shared tree would be copied into
every mount namespace of the machine, and each copy would keep the pod's namespaces alive. A mount namespace that copies
the machine's mounts as a whole loses the copy when the file is unlinked (Linux 3.19 and later).
"""

import contextlib
import logging
import os
import socket
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from beehive.files.descriptors import is_mounted
from beehive.files.reading import list_directory
from beehive.files.removal import remove_tree
from modules.runtimes.engine.errors import BadRequestError
from modules.runtimes.oci.leftovers import unmount_all
from modules.runtimes.oci.network import pod_init
from modules.runtimes.oci.network.errors import PodNamespaceError
from modules.runtimes.oci.network.kernel import (
    bind_file,
    in_network_namespace,
    mount_tmpfs,
    on_own_thread,
    own_namespace,
    set_interface_up,
    unmount,
)
from modules.runtimes.oci.network.pause.control_group import leave_control_group
from modules.runtimes.oci.network.pod_init import end_pod_init, pod_init_is_confined, pod_init_lives, start_pod_init
from modules.runtimes.oci.network.sysctls import write_sysctls
from modules.runtimes.oci.network.user_namespaces import USER, UserMapping, pin_with_users
from modules.runtimes.shim.kernel import (
    NEW_IPC_NAMESPACE,
    NEW_NETWORK_NAMESPACE,
    NEW_UTS_NAMESPACE,
    join_namespace,
    unshare,
)
from modules.runtimes.streaming import connect_to_loopback

_log = logging.getLogger(__name__)

_KINDS: Final = {"net": NEW_NETWORK_NAMESPACE, "ipc": NEW_IPC_NAMESPACE, "uts": NEW_UTS_NAMESPACE}
"""Names in /proc/PID/ns and flags of unshare(2)."""

_SHM: Final = "shm"
_MOUNTED: Final = (*_KINDS, USER, pod_init.NAMESPACE, _SHM)
_MAKING: Final = "."
"""First letter of a sandbox that is being made."""
_LONGEST_HOSTNAME: Final = 64
_TMPFS: Final = "mode=0700,size=4m,nr_inodes=65536"
"""It holds a few empty files for each sandbox."""


class PinnedNamespaces(NamedTuple):
    """Files of the sandbox's namespaces for containers to join; None: the machine's."""

    network: Path | None
    ipc: Path | None
    uts: Path | None
    user: Path | None = None
    """With it, the others belong to it."""


class PodNamespaces:
    """The manager of sandboxes' namespaces and of the memory that is their /dev/shm: it makes, finds and removes them.

    Different sandboxes may be served at one time, one sandbox by one caller.
    """

    def __init__(self, directory: Path) -> None:
        """Take over the namespaces that an earlier edgecore has pinned.

        Args:
            directory: made if it is missing, and becomes a mount of its own.

        Raises:
            PodNamespaceError: it cannot be made or mounted.
        """
        self._lock = threading.Lock()
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._directory = directory.resolve()
            if not self._directory.is_mount():
                mount_tmpfs(self._directory, _TMPFS)
            for half_made in [each for each in self._directory.iterdir() if each.name.startswith(_MAKING)]:
                _discard(half_made)
        except OSError as error:
            hint = "this needs root" if isinstance(error, PermissionError) else ""
            raise PodNamespaceError(f'prepare "{directory}" for namespaces', str(error), hint) from error

    def pin(
        self,
        sandbox_id: str,
        *,
        network: bool,
        ipc: bool,
        uts: bool,
        hostname: str,
        sysctls: Mapping[str, str],
        users: UserMapping | None = None,
    ) -> PinnedNamespaces:
        """Make the namespaces of a sandbox; nothing is left when that fails.

        Args:
            sandbox_id: of the sandbox, which has no namespaces.
            network: whether it has a network of its own; the loopback interface is up.
            ipc: whether it has its own System V IPC and POSIX message queues.
            uts: whether it has its own hostname.
            hostname: set in its own uts namespace, unless it is empty.
            sysctls: written in its own namespaces; sysctls of the interface eth0 are left to `PodNetwork.attach`.
            users: of its own user namespace; None for the machine's.

        Raises:
            BadRequestError: the hostname is not possible.
            PodNamespaceError: the kernel refuses.
        """
        directory = self._path(sandbox_id)
        if len(hostname.encode()) > _LONGEST_HOSTNAME:
            raise BadRequestError(f'set hostname "{hostname}"', f"it has more than {_LONGEST_HOSTNAME} bytes")
        making = directory.with_name(_MAKING + sandbox_id)
        wanted = [kind for kind, is_wanted in zip(_KINDS, (network, ipc, uts), strict=True) if is_wanted]
        try:
            making.mkdir(mode=0o700)
            if users is not None:
                pin_with_users(making, wanted, users)
                root = users.users.host
                on_own_thread(lambda: _set_up_joined(making, wanted, hostname, sysctls, root))
            elif wanted:
                on_own_thread(lambda: _make(making, wanted, hostname, sysctls))
            making.rename(directory)
        except BaseException as error:
            _discard(making)
            if isinstance(error, OSError):
                raise PodNamespaceError(f"make the namespaces of sandbox {sandbox_id}", str(error)) from error
            raise
        made = {*wanted, *(() if users is None else (USER,))}
        return PinnedNamespaces(*(directory / kind if kind in made else None for kind in (*_KINDS, USER)))

    def unpin(self, sandbox_id: str) -> None:
        """Remove the namespaces and the memory of a sandbox, if any.

        The kernel ends a namespace with the last process in it.
        """
        _discard(self._path(sandbox_id))

    def pinned(self, sandbox_id: str) -> PinnedNamespaces | None:
        """Return the namespaces of a sandbox, or None, as after a restart of the machine."""
        try:
            return PinnedNamespaces(*_files(self._path(sandbox_id)).values())
        except FileNotFoundError:
            return None

    def sandboxes(self) -> set[str]:
        """Return the sandboxes that have something here."""
        return {each.name for each in self._directory.iterdir() if not each.name.startswith(_MAKING)}

    def shm(self, sandbox_id: str, size: int) -> Path:
        """Return the sandbox's own memory for /dev/shm, which is made at the first call. `unpin` removes it.

        Args:
            sandbox_id: of a pinned sandbox.
            size: in bytes (containerd: 64 MiB).

        Raises:
            PodNamespaceError: the sandbox is not pinned, or the kernel refuses.
        """
        path = self._path(sandbox_id) / _SHM
        try:
            with self._lock:
                if not is_mounted(path):
                    path.mkdir(mode=0o755, exist_ok=True)
                    mount_tmpfs(path, f"mode=1777,size={size}")
        except OSError as error:
            raise PodNamespaceError(f"make /dev/shm of sandbox {sandbox_id}", str(error)) from error
        return path

    def processes(self, sandbox_id: str, group: str = "") -> Path:
        """Return the process namespace that containers of the sandbox share; its first process is started at the first
        call, and again if it was killed. `unpin` ends it.

        Args:
            sandbox_id: of a pinned sandbox.
            group: control group of the process, which `unpin` removes; empty for edgecore's own.

        Raises:
            PodNamespaceError: the sandbox is not pinned, or the process cannot be started.
        """
        directory = self._path(sandbox_id)
        path = directory / pod_init.NAMESPACE
        with self._lock:
            if pod_init_lives(directory):
                return path
            try:
                with contextlib.suppress(OSError):  # there was none
                    unmount(path)
                kinds = [name for name, path in _files(directory).items() if path is not None]
                start_pod_init(directory, kinds, group)
            except OSError as error:
                raise PodNamespaceError(f"make the process namespace of sandbox {sandbox_id}", str(error)) from error
        return path

    def unconfined(self) -> set[str]:
        """Return the sandboxes whose first process is not confined: an earlier edgecore has started it."""
        return {each for each in self.sandboxes() if not pod_init_is_confined(self._path(each))}

    def remove(self) -> None:
        """Remove the namespaces of all sandboxes, and the mount that holds them. Raises OSError."""
        for each in list_directory(self._directory):
            _discard(each)
        unmount_all(self._directory)
        with contextlib.suppress(FileNotFoundError):
            self._directory.rmdir()

    def _path(self, sandbox_id: str) -> Path:
        if not (sandbox_id.isascii() and sandbox_id.isalnum()):
            raise BadRequestError("find a sandbox", f"{sandbox_id[:100]!r} is no id of a sandbox")
        return self._directory / sandbox_id


def _make(directory: Path, kinds: list[str], hostname: str, sysctls: Mapping[str, str]) -> None:
    """Leave the machine's namespaces on this thread, set up the new ones, and bind them to files."""
    flags = 0
    for kind in kinds:
        flags |= _KINDS[kind]
    unshare(flags)
    _set_up(kinds, hostname, sysctls)
    for kind in kinds:
        file = f"{directory}/{kind}"
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o400))
        bind_file(own_namespace(kind), file)


def _set_up_joined(directory: Path, kinds: list[str], hostname: str, sysctls: Mapping[str, str], root: int) -> None:
    """Enter namespaces of a pod whose root is this user, which are pinned, on this thread, and set them up."""
    for kind in kinds:
        join_namespace(str(directory / kind), _KINDS[kind])
    _set_up(kinds, hostname, sysctls, root)


def _set_up(kinds: list[str], hostname: str, sysctls: Mapping[str, str], root: int = 0) -> None:
    """Set up the calling thread's namespaces."""
    if "net" in kinds:
        set_interface_up("lo")
    if "uts" in kinds and hostname:
        socket.sethostname(hostname)
    write_sysctls(sysctls, network="net" in kinds, root=root)


def connect_in_namespace(netns: Path | None, port: int) -> socket.socket:
    """Return a connection to a port of a sandbox, at 127.0.0.1 or else ::1.

    Args:
        netns: network namespace of the sandbox; None for the machine's.
        port: TCP port.

    Raises:
        OSError: nothing listens there, or the namespace no longer exists.
    """
    if netns is None:
        return connect_to_loopback(port)
    return in_network_namespace(netns, lambda: connect_to_loopback(port))


def _files(directory: Path) -> dict[str, Path | None]:
    """Return the files of the namespaces that a sandbox has, by kind; None for the machine's."""
    name = str(directory)
    device = os.stat(name).st_dev  # noqa: PTH116 - asked several times for each pod
    return {kind: directory / kind if _is_bound(f"{name}/{kind}", device) else None for kind in (*_KINDS, USER)}


def _is_bound(path: str, device: int) -> bool:
    try:
        return os.stat(path).st_dev != device  # noqa: PTH116 - most of them are missing
    except FileNotFoundError:
        return False


def _discard(directory: Path) -> None:
    """Unmount the namespaces in a sandbox's directory, and remove it. A part that cannot be removed is logged and
    stays.
    """
    try:
        names = os.listdir(directory)  # noqa: PTH208 - two of the eight that there may be, for most pods
        if pod_init.NAMESPACE in names:
            end_pod_init(directory)
            leave_control_group(directory)
        for name in names:
            with contextlib.suppress(OSError):  # not mounted
                while name in _MOUNTED:
                    unmount(f"{directory}/{name}")
        remove_tree(directory)
    except FileNotFoundError:
        return
    except OSError as error:
        _log.error("the namespaces of a sandbox cannot be removed: %s: %s", directory, os.fsdecode(str(error)))
