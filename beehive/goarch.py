"""The architecture of this machine as Go names it, in `kubernetes.io/arch` and in the platforms of images."""

import os
import struct
from typing import Final

_GOARCH: Final = {
    "x86_64": "amd64",
    "aarch64": "arm64",
    "armv8l": "arm",
    "armv7l": "arm",
    "armv6l": "arm",
    "armv5tel": "arm",
    "loongarch64": "loong64",
    **dict.fromkeys(("i386", "i486", "i586", "i686"), "386"),
}
"""By `uname -m`; other architectures have one name."""
OF_32_BITS: Final = {"amd64": "386", "arm64": "arm"}
"""By 64-bit architecture, its 32-bit one."""


def goarch(machine: str = "", pointer_bytes: int = struct.calcsize("P")) -> str:
    """Return the architecture of this process: below a kernel of 64 bits, such as Raspberry Pi OS has, programs of a
    32-bit system are of the 32-bit one.

    Args:
        machine: as `uname -m` prints it; empty: this machine's.
        pointer_bytes: of the process.
    """
    machine = machine or os.uname().machine
    found = _GOARCH.get(machine, machine)
    return OF_32_BITS.get(found, found) if pointer_bytes == 4 else found
