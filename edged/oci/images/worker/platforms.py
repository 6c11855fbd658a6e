"""The platform of this machine, and which entry of an index fits it."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from edged.oci.images.worker.documents import Descriptor

_ARCHITECTURES: Final = {
    "x86_64": "amd64",
    "aarch64": "arm64",
    "armv8l": "arm",
    "armv7l": "arm",
    "armv6l": "arm",
    "armv5tel": "arm",
    "i686": "386",
    "i386": "386",
}
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


class Platform(NamedTuple):
    """An architecture by Go's name, and the highest variant of it that this machine runs (0: it has none)."""

    architecture: str
    variant: int = 0


def own_platform() -> Platform:
    """Return the platform of this machine."""
    machine = os.uname().machine
    architecture = _ARCHITECTURES.get(machine, machine)
    if architecture == "amd64":
        return Platform(architecture, amd64_level(_cpu_flags()))
    return Platform(architecture, _ARM.get(machine, 8 if architecture == "arm64" else 0))


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
    """Return how well an image's platform fits: the variant that it is made for; None if it does not."""
    if wanted.get("os") != "linux" or wanted.get("architecture") != own.architecture:
        return None
    text = str(wanted.get("variant") or "").removeprefix("v")
    if not text:
        variant = _WITHOUT_VARIANT.get(own.architecture, 0)
    else:
        variant = int(text) if text.isdigit() and len(text) < 3 else own.variant + 1
    return variant if variant <= own.variant else None


def _cpu_flags() -> set[str]:
    try:
        with _CPUINFO.open() as file:
            text = file.read(_LONGEST)
    except OSError:
        return set()
    line = next((each for each in text.splitlines() if each.startswith("flags")), "")
    return set(line.partition(":")[2].split())
