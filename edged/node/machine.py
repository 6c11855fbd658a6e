"""What this machine is, read from the kernel's files; no library is loaded for it."""

from __future__ import annotations

import os
import platform
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from edged.errors import EdgedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from edged.cri.contract import ContainerRuntime
    from edged.eviction.consumption import PodUsage

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386"}


class MachineError(EdgedError):
    """The machine's own figures cannot be read."""


class Machine(msgspec.Struct, frozen=True):
    """Figures that do not change while the machine runs, except the addresses."""

    machine_id: str
    system_uuid: str
    boot_id: str
    kernel: str
    os_image: str
    architecture: str
    """As Go names it: amd64, arm64, arm."""
    cpus: int
    memory: int
    """Bytes."""
    storage: int
    """Bytes of the file system that holds the pods' directory."""
    addresses: tuple[str, ...]


class FileSystem(msgspec.Struct, frozen=True, gc=False):
    """What is left of a file system, and what it has: bytes and inodes. One without a fixed number of inodes has 0."""

    available: int
    capacity: int
    inodes_free: int
    inodes: int


class Usage(msgspec.Struct, frozen=True, gc=False):
    """What is left of the machine."""

    memory_available: int
    """Bytes that are free or hold inactive pages of files (kubelet's: capacity without the working set)."""
    memory: int
    """Bytes that there are."""
    node_fs: FileSystem
    """That of the pods' directory."""
    image_fs: FileSystem | None
    """That of the images, when it is another one and known."""
    pids_free: int
    """Processes and threads that may be made yet."""
    pids: int
    """That there may be."""

    @property
    def images(self) -> FileSystem:
        """The file system that holds the images."""
        return self.image_fs or self.node_fs


class Figures:
    """Where edged takes the machine's figures from: the kernel. A simulated node has its own.

    Args:
        consumption: measures what pods use; nobody knows unless given.
    """

    def __init__(self, consumption: Callable[[ContainerRuntime, bool], tuple[PodUsage, ...]] | None = None) -> None:
        self._consumption = consumption

    def machine(self, root: Path, node_ip: str = "") -> Machine:
        """See `read_machine`."""
        return read_machine(root, node_ip)

    def usage(self, root: Path, images: Path | None = None) -> Usage:
        """See `read_usage`."""
        return read_usage(root, images)

    def pods(self, runtime: ContainerRuntime, *, anew: bool = False) -> tuple[PodUsage, ...]:
        """What each pod uses; those that are missing are not known. `anew`: files are counted now, not only once a
        minute. Raises CriError.
        """
        return self._consumption(runtime, anew) if self._consumption is not None else ()


def read_machine(root: Path, node_ip: str = "") -> Machine:
    """The machine's figures.

    Args:
        root: any directory on the file system that holds the pods.
        node_ip: the address to report; otherwise that of the default route.

    Raises:
        MachineError: /proc or the directory cannot be read.
    """
    try:
        memory = _meminfo()["MemTotal"]
        disk = os.statvfs(root)
    except (OSError, KeyError) as error:
        raise MachineError(
            "read the machine's figures", str(error), "are /proc and the root directory there?"
        ) from error
    uname = platform.uname()
    machine_id = _text("/etc/machine-id")
    return Machine(
        machine_id=machine_id,
        system_uuid=_text("/sys/class/dmi/id/product_uuid") or machine_id,
        boot_id=_text("/proc/sys/kernel/random/boot_id"),
        kernel=uname.release,
        os_image=_pretty_name(_text("/etc/os-release")),
        architecture=_ARCHITECTURES.get(uname.machine, uname.machine),
        cpus=os.cpu_count() or 1,
        memory=memory,
        storage=disk.f_blocks * disk.f_frsize,
        addresses=(node_ip,) if node_ip else default_addresses(),
    )


def read_usage(root: Path, images: Path | None = None) -> Usage:
    """What is left now.

    Args:
        root: any directory on the file system that holds the pods.
        images: any on that of the images; None when it is not known.

    Raises:
        MachineError: /proc or a directory cannot be read.
    """
    try:
        memory = _meminfo()
        apart = images is not None and images.stat().st_dev != root.stat().st_dev
        most = int(_text("/proc/sys/kernel/pid_max"))
        threads = _text("/proc/sys/kernel/threads-max")
        most = min(most, int(threads)) if threads else most
        return Usage(
            memory_available=memory["MemFree"] + memory.get("Inactive(file)", 0),
            memory=memory["MemTotal"],
            node_fs=_file_system(root),
            image_fs=_file_system(images) if images is not None and apart else None,
            pids_free=most - int(_text("/proc/loadavg").split()[3].split("/")[1]),
            pids=most,
        )
    except (OSError, KeyError, ValueError, IndexError) as error:
        raise MachineError("read what is left", str(error), "are /proc and the root directory there?") from error


def _file_system(directory: Path) -> FileSystem:
    found = os.statvfs(directory)
    unit = found.f_frsize
    return FileSystem(found.f_bavail * unit, found.f_blocks * unit, found.f_favail, found.f_files)


def default_addresses() -> tuple[str, ...]:
    """The address from which the default route leaves, IPv4 before IPv6; loopback when there is no route.

    Connecting a datagram socket sends nothing: the kernel only chooses the source address.
    """
    found = (_source_address(socket.AF_INET, "192.0.2.1"), _source_address(socket.AF_INET6, "2001:db8::1"))
    return tuple(address for address in found if address) or ("127.0.0.1",)


def _source_address(family: socket.AddressFamily, target: str) -> str:
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((target, 9))
            address: str = probe.getsockname()[0]
            return address
    except OSError:
        return ""


def _meminfo() -> dict[str, int]:
    """Bytes by name."""
    figures: dict[str, int] = {}
    for line in Path("/proc/meminfo").read_text().splitlines():
        name, _, value = line.partition(":")
        figures[name] = int(value.split()[0]) * 1024
    return figures


def _pretty_name(os_release: str) -> str:
    for line in os_release.splitlines():
        if line.startswith("PRETTY_NAME="):
            return line.partition("=")[2].strip().strip('"')
    return "Linux"


def _text(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""
