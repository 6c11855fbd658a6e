"""What a bundle and this machine must have in common before anything is unpacked."""

import platform
import re
import sys
from pathlib import Path
from typing import Final, NamedTuple

from modules.apimachinery.times import format_rfc3339
from modules.processes.edgecore.upgrade.bundle import BundleManifest
from modules.processes.edgecore.upgrade.versions import is_version, order_of

LEAST_MEMORY: Final = 128 * 1024 * 1024
"""Bytes of memory that must be available: the new version is tried while the old one runs."""

_AVAILABLE: Final = re.compile(r"^MemAvailable:\s+([0-9]{1,15}) kB$", re.MULTILINE)


class UpgradeHost(NamedTuple):
    """This machine, as far as it decides on a bundle."""

    machine: str
    """Architecture, as `uname -m` names it."""
    python: str
    """Version of Python, such as `3.11`."""
    memory: int | None
    """Bytes available; None where they are not known."""
    current: str
    """The version that is current; empty without one."""
    now: float = 0.0
    """Seconds since the Unix epoch."""

    @classmethod
    def of(cls, current: str, now: float) -> "UpgradeHost":
        """Return this machine."""
        found = _AVAILABLE.search(Path("/proc/meminfo").read_text())
        memory = int(found[1]) * 1024 if found else None
        return cls(platform.machine(), "{}.{}".format(*sys.version_info[:2]), memory, current, now)


def refusal_of(
    manifest: BundleManifest, host: UpgradeHost, *, allow_downgrade: bool, allow_expired: bool = False
) -> str:
    """Return why a machine does not take a bundle; empty if it does."""
    if host.machine not in manifest.machines:
        return f"it is for {', '.join(manifest.machines)[:200]}, and this machine is {host.machine}"
    if host.python not in manifest.pythons:
        return f"it is for Python {', '.join(manifest.pythons)[:200]}, and this is {host.python}"
    if host.memory is not None and host.memory < LEAST_MEMORY:
        return f"{host.memory >> 20} MiB of memory are available, and {LEAST_MEMORY >> 20} are needed"
    if 0 < manifest.expires < host.now and not allow_expired:
        day = format_rfc3339(manifest.expires)[:10]
        return f"its signature has expired on {day}: have it made again, or --allow-expired takes it nevertheless"
    if manifest.version == host.current:
        return "it is the current version"
    if not is_version(host.current) or order_of(manifest.version) >= order_of(host.current) or allow_downgrade:
        return ""
    return f"it is older than the current version {host.current}; --allow-downgrade takes it nevertheless"
