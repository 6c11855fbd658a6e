"""The platform of this machine, and which entry of an index fits it.

As in containerd, a machine of 64 bits takes an image of its 32-bit architecture where there is no other.

/proc does not say everywhere whether the machine runs programs of that architecture, and kernels may be built or
started without it. So a program of two or three instructions is executed, which does nothing but end.
"""

import errno
import os
import struct
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from beehive.files.descriptors import OwnedFd
from beehive.goarch import OF_32_BITS, goarch
from beehive.whole_numbers import whole_number
from modules.runtimes.oci.images.worker.documents import Descriptor

_ARM: Final = {"armv8l": 7, "armv7l": 7, "armv6l": 6, "armv5tel": 5}
_WITHOUT_VARIANT: Final = {"arm": 7, "arm64": 8, "amd64": 1}
"""The variant of an image that names none, as in containerd."""
_AMD64_LEVELS: Final = {
    2: {"cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3"},
    3: {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"},
    4: {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"},
}
_CPUINFO: Final = Path("/proc/cpuinfo")
_LONGEST: Final = 1024 * 1024

_LESS: Final = 1000
"""How much less any other architecture fits than the machine's own."""

_EXIT_CODE: Final = 77
_SECONDS: Final = 10.0
_MFD_EXEC: Final = 0x10
"""Linux 6.3: the file may be executed."""
_LOADED_AT: Final = 0x10000


class Platform(NamedTuple):
    """An architecture by Go's name, and the highest variant of it that this machine runs (0: no variants).

    `others` are architectures that it runs too, in order of preference.
    """

    architecture: str
    variant: int = 0
    others: "tuple[Platform, ...]" = ()


def own_platform() -> Platform:
    """Return the platform of this process. That of its kernel comes second where it has another one."""
    machine = os.uname().machine
    own, kernel = goarch(machine), goarch(machine, 8)
    if own != kernel:
        return Platform(own, _variant(own, machine), (Platform(kernel, _variant(kernel, machine)),))
    other = OF_32_BITS.get(own)
    others = (Platform(other, _variant(other, machine)),) if other is not None and runs(other) else ()
    return Platform(own, _variant(own, machine), others)


def _variant(architecture: str, machine: str) -> int:
    if architecture == "amd64":
        return amd64_level(_cpu_flags())
    return _ARM.get(machine, 8) if architecture in ("arm", "arm64") else 0


def amd64_level(flags: set[str]) -> int:
    """Return the x86-64 microarchitecture level, 1 to 4, of a processor with these flags of /proc/cpuinfo."""
    level = 1
    for higher, wanted in _AMD64_LEVELS.items():
        if not wanted <= flags:
            break
        level = higher
    return level


def fitting(entries: Sequence[Descriptor], own: Platform) -> tuple[Descriptor, ...]:
    """Return the entries that this machine runs, the best first; entries without a platform come last."""
    ranked = [(rank, each) for each in entries if (rank := rank_of(each.platform, own)) is not None]
    found = [each for _, each in sorted(ranked, key=lambda one: -one[0])]
    return (*found, *(each for each in entries if not each.platform))


def rank_of(wanted: Mapping[str, Any], own: Platform) -> int | None:
    """Return how well an image's platform fits: more for the machine's own architecture, and for a higher variant of
    it; None if it does not.
    """
    ranks = (
        _rank(wanted, each, -number * _LESS)
        for number, each in enumerate((own, *own.others))
        if wanted.get("os") == "linux" and wanted.get("architecture") == each.architecture
    )
    return next(ranks, None)


def _rank(wanted: Mapping[str, Any], own: Platform, least: int) -> int | None:
    text = str(wanted.get("variant") or "").removeprefix("v")
    if not text:
        variant = _WITHOUT_VARIANT.get(own.architecture, 0)
    else:
        number = whole_number(text, 2)
        variant = own.variant + 1 if number is None else number
    return least + variant if variant <= own.variant else None


def _cpu_flags() -> set[str]:
    try:
        with _CPUINFO.open() as file:
            text = file.read(_LONGEST)
    except OSError:
        return set()
    line = next((each for each in text.splitlines() if each.startswith("flags")), "")
    return set(line.partition(":")[2].split())


_HEAD, _PART = 52, 32


class _Code(NamedTuple):
    """`exit(77)`: the machine's number in ELF, ELF's flags, and the instructions.

    They put the call's number (1) and the code into registers, and call the kernel: int 128, svc 0.
    """

    machine: int
    flags: int
    instructions: bytes


_CODES: Final = {
    "386": _Code(3, 0, bytes.fromhex("31c0 40 31db b34d cd80")),
    "arm": _Code(40, 0x0500_0000, bytes.fromhex("4d00a0e3 0170a0e3 000000ef")),
}


@cache
def runs(architecture: str) -> bool:
    """Return whether programs of an architecture run here: `386` or `arm`."""
    try:
        with OwnedFd(_executable_memory()) as descriptor:
            os.write(descriptor, program(architecture))
            path = f"/proc/self/fd/{descriptor}"
            done = subprocess.run(
                [path], pass_fds=[descriptor], stdin=subprocess.DEVNULL, timeout=_SECONDS, check=False, env={}
            )
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == _EXIT_CODE


def program(architecture: str) -> bytes:
    """Return an ELF file that ends with the exit code 77."""
    code = _CODES[architecture]
    start = _HEAD + _PART
    size = start + len(code.instructions)
    ident = b"\x7fELF\x01\x01\x01" + bytes(9)
    entry = _LOADED_AT + start
    head = struct.pack("<HHIIIIIHHHHHH", 2, code.machine, 1, entry, _HEAD, 0, code.flags, _HEAD, _PART, 1, 0, 0, 0)
    part = struct.pack("<IIIIIIII", 1, 0, _LOADED_AT, _LOADED_AT, size, size, 5, 0x1000)
    return ident + head + part + code.instructions


def _executable_memory() -> int:
    """Return a file in memory. Raises OSError."""
    try:
        return os.memfd_create("program", os.MFD_CLOEXEC | _MFD_EXEC)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a kernel before 6.3
            raise
        return os.memfd_create("program")
