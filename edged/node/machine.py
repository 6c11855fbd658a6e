"""Facts and usage of the machine, read from the kernel's files without a library."""

from __future__ import annotations

import os
import platform
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from beehive.goarch import goarch
from beehive.whole_numbers import whole_number
from edged.errors import EdgedError
from modules.apimachinery.types.quantity import format_binary_quantity

if TYPE_CHECKING:
    from collections.abc import Callable

    from edged.cri.contract import ContainerRuntime
    from edged.eviction_api.usage import PodUsage


class MachineError(EdgedError):
    """The facts of the machine cannot be read."""


class MachineFacts(msgspec.Struct, frozen=True):
    """Facts of the machine. Only its addresses change while it runs."""

    machine_id: str
    system_uuid: str
    boot_id: str
    kernel: str
    os_image: str
    architecture: str
    """In Go's terms: amd64, arm64, arm."""
    cpus: int
    memory: int
    """Bytes."""
    storage: int
    """Bytes of the file system that holds the pods' directory."""
    addresses: tuple[str, ...]
    has_apparmor: bool = True
    """Whether the kernel confines processes by AppArmor; recorded traces of before do not say it."""
    huge_pages: dict[str, int] = {}
    """Bytes of the reserved huge pages by resource (`hugepages-2Mi`), of sizes that have any."""


class FileSystem(msgspec.Struct, frozen=True, gc=False):
    """Available and total bytes and inodes of a file system; 0 inodes if their number is not fixed."""

    available: int
    capacity: int
    inodes_free: int
    inodes: int


class MachineUsage(msgspec.Struct, frozen=True, gc=False):
    """Available resources of the machine."""

    memory_available: int
    """Bytes that are free or hold inactive pages of files (kubelet: capacity less the working set)."""
    memory: int
    """Total bytes."""
    node_fs: FileSystem
    """File system of the pods' directory."""
    image_fs: FileSystem | None
    """File system of the images, if it is another one and known."""
    pids_free: int
    """Processes and threads that can still be started."""
    pids: int
    """Total limit of processes and threads."""

    @property
    def images(self) -> FileSystem:
        """File system that holds the images."""
        return self.image_fs or self.node_fs


class MachineInfo:
    """The reader of facts and usage of the machine from the kernel. A simulated node has its own.

    Args:
        consumption: measures the usage of pods; it is unknown unless given.
    """

    def __init__(self, consumption: Callable[[ContainerRuntime, bool], tuple[PodUsage, ...]] | None = None) -> None:
        self._consumption = consumption

    def machine(self, root: Path, node_ip: str = "") -> MachineFacts:
        """See `read_machine`."""
        return read_machine(root, node_ip)

    def usage(self, root: Path, images: Path | None = None) -> MachineUsage:
        """See `read_usage`."""
        return read_usage(root, images)

    def pods(self, runtime: ContainerRuntime, *, anew: bool = False) -> tuple[PodUsage, ...]:
        """Return the pods' usage, as far as it is known. Raises CriError.

        Args:
            runtime: the container runtime.
            anew: whether files are counted now, and not only once a minute.
        """
        return self._consumption(runtime, anew) if self._consumption is not None else ()


def read_machine(root: Path, node_ip: str = "") -> MachineFacts:
    """Return the facts of the machine.

    Args:
        root: any directory on the file system that holds the pods.
        node_ip: the address to report; by default the default route's.

    Raises:
        MachineError: /proc or the directory cannot be read.
    """
    try:
        memory = _meminfo()["MemTotal"]
        disk = os.statvfs(root)
    except (OSError, KeyError) as error:
        raise MachineError(
            "read the machine's figures", str(error), "do /proc and the root directory exist?"
        ) from error
    uname = platform.uname()
    machine_id = _text("/etc/machine-id")
    return MachineFacts(
        machine_id=machine_id,
        system_uuid=_text("/sys/class/dmi/id/product_uuid") or machine_id,
        boot_id=_text("/proc/sys/kernel/random/boot_id"),
        kernel=uname.release,
        os_image=_pretty_name(_text("/etc/os-release")),
        architecture=goarch(uname.machine),
        cpus=os.cpu_count() or 1,
        memory=memory,
        storage=disk.f_blocks * disk.f_frsize,
        addresses=(node_ip,) if node_ip else default_addresses(),
        has_apparmor=_text("/sys/module/apparmor/parameters/enabled") == "Y",
        huge_pages=read_huge_pages(),
    )


def read_huge_pages(root: Path = Path("/sys/kernel/mm/hugepages")) -> dict[str, int]:
    """Return the bytes of the machine's huge pages by resource, without sizes that have none."""
    found: dict[str, int] = {}
    for each in sorted(root.glob("hugepages-*kB")):
        size = (whole_number(each.name.removeprefix("hugepages-").removesuffix("kB")) or 0) * 1024
        amount = size * (whole_number(_text(f"{each}/nr_hugepages")) or 0)
        if amount:
            found[f"hugepages-{format_binary_quantity(size)}"] = amount
    return found


def read_usage(root: Path, images: Path | None = None) -> MachineUsage:
    """Return the available resources of the machine.

    Args:
        root: any directory on the file system that holds the pods.
        images: any directory on the file system of the images; None when it is not known.

    Raises:
        MachineError: /proc or a directory cannot be read.
    """
    try:
        memory = _meminfo()
        apart = images is not None and images.stat().st_dev != root.stat().st_dev
        most = int(_text("/proc/sys/kernel/pid_max"))
        threads = _text("/proc/sys/kernel/threads-max")
        most = min(most, int(threads)) if threads else most
        return MachineUsage(
            memory_available=memory["MemFree"] + memory.get("Inactive(file)", 0),
            memory=memory["MemTotal"],
            node_fs=_file_system(root),
            image_fs=_file_system(images) if images is not None and apart else None,
            pids_free=most - int(_text("/proc/loadavg").split()[3].split("/")[1]),
            pids=most,
        )
    except (OSError, KeyError, ValueError, IndexError) as error:
        raise MachineError("read the free resources", str(error), "do /proc and the root directory exist?") from error


def _file_system(directory: Path) -> FileSystem:
    found = os.statvfs(directory)
    unit = found.f_frsize
    return FileSystem(found.f_bavail * unit, found.f_blocks * unit, found.f_favail, found.f_files)


def default_addresses() -> tuple[str, ...]:
    """Return the source addresses of the default route, IPv4 before IPv6; loopback when there is no route.

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
    """Return the fields of /proc/meminfo in bytes."""
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
