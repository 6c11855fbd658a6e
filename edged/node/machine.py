"""What this machine is, read from the kernel's files; no library is loaded for it."""

import os
import platform
import socket
from pathlib import Path

import msgspec

from edged.errors import EdgedError

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


class Usage(msgspec.Struct, frozen=True, gc=False):
    """What is left, for the pressure conditions."""

    memory_available: int
    """Bytes."""
    storage_available: float
    """Fraction of the file system of the pods' directory, 0 to 1."""
    inodes_available: float
    """Fraction, 0 to 1; 1 where the file system has no fixed number."""
    pids_available: float
    """Fraction, 0 to 1."""


class Figures:
    """Where edged takes the machine's figures from: the kernel. A simulated node has its own."""

    def machine(self, root: Path, node_ip: str = "") -> Machine:
        """See `read_machine`."""
        return read_machine(root, node_ip)

    def usage(self, root: Path) -> Usage:
        """See `read_usage`."""
        return read_usage(root)


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


def read_usage(root: Path) -> Usage:
    """What is left now. Raises MachineError."""
    try:
        memory = _meminfo()["MemAvailable"]
        disk = os.statvfs(root)
        running, limit = int(_text("/proc/loadavg").split()[3].split("/")[1]), int(_text("/proc/sys/kernel/pid_max"))
    except (OSError, KeyError, ValueError, IndexError) as error:
        raise MachineError("read what is left", str(error), "are /proc and the root directory there?") from error
    return Usage(
        memory_available=memory,
        storage_available=disk.f_bavail / disk.f_blocks if disk.f_blocks else 1.0,
        inodes_available=disk.f_favail / disk.f_files if disk.f_files else 1.0,
        pids_available=1 - running / limit,
    )


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
