"""The features of this machine for containers: kernel, capabilities, control groups, security modules."""

import os
import re
import socket
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Final

from msgspec import Struct

from beehive.node_namespaces import GROUPS, delegated_controllers
from modules.runtimes.oci.spec.capability_names import names_in

_APPARMOR: Final = Path("/sys/kernel/security/apparmor/profiles")
SELINUX: Final = Path("/sys/fs/selinux/enforce")
"""Exists where the kernel has SELinux with a policy."""
_SECCOMP: Final = Path("/proc/sys/kernel/seccomp/actions_avail")
_MOST_USER_NAMESPACES: Final = Path("/proc/sys/user/max_user_namespaces")
_ID_MAPPED_OVERLAYS: Final = (5, 19)
"""The kernel since which layers of an overlay may be id-mapped."""


class CgroupLayout(StrEnum):
    """The mounted versions of control groups. In hybrid, containers use version 1 alone."""

    UNIFIED = "unified"
    LEGACY = "legacy"
    HYBRID = "hybrid"


class Machine(Struct, frozen=True, kw_only=True):
    """Facts about this machine, read once. A fact that may change later is given as the file that has it."""

    capabilities: frozenset[str]
    """Capabilities that edgecore can give to containers (its bounding set), without the prefix `CAP_`."""
    known_capabilities: frozenset[str]
    """All capabilities that the kernel knows."""
    cgroup_layout: CgroupLayout
    cgroup_controllers: frozenset[str]
    """Controllers that containers can use: in hybrid mode version 1's."""
    swap_accounting: bool
    """Whether swap can be limited."""
    kernel: tuple[int, int]
    architecture: str
    """Name in `uname -m`: x86_64, aarch64, …"""
    hostname: str
    oom_score_adj: int
    """edgecore's own: without CAP_SYS_RESOURCE no container can have a lower one."""
    has_seccomp: bool
    systemd_cgroups: bool = False
    """Whether systemd makes the control groups of containers (edged's `cgroupDriver: systemd`)."""
    selinux: bool = False
    """Whether the kernel has SELinux with a policy."""
    user_namespaces: bool = False
    """Whether pods can have users of their own: id-mapped mounts below overlays, and crun."""
    apparmor_profiles: Path | None = None
    """The kernel's list of loaded AppArmor profiles; None where AppArmor is off."""
    rootless: bool = False
    """Whether edgecore is in the namespaces of an ordinary user, who may change delegated control groups alone."""
    mountinfo: Path = Path("/proc/self/mountinfo")
    devices: Path = Path("/dev")
    cdi_directories: tuple[Path, ...] = (Path("/etc/cdi"), Path("/var/run/cdi"))
    """Directories of vendors' descriptions of devices (CDI); for a device in both, the last counts."""

    @property
    def has_groups(self) -> bool:
        """Whether containers have control groups of their own."""
        return bool(self.cgroup_controllers) or not self.rootless

    def can_limit(self, controller: str) -> bool:
        """Return whether limits of a controller can be set; root's limits are not checked before crun sets them."""
        return controller in self.cgroup_controllers or not self.rootless

    @classmethod
    def read(cls, *, systemd_cgroups: bool = False, has_crun: bool = True, rootless: bool = False) -> "Machine":
        """Read this machine. Raises OSError where /proc is not mounted."""
        layout, uname = _layout(), os.uname()
        return cls(
            capabilities=frozenset(names_in(int(_own_status("CapBnd"), 16))),
            known_capabilities=frozenset(names_in((2 << int(Path("/proc/sys/kernel/cap_last_cap").read_text())) - 1)),
            cgroup_layout=layout,
            cgroup_controllers=delegated_controllers() if rootless else frozenset(_controllers(layout)),
            swap_accounting=_has_swap_accounting(layout),
            kernel=kernel_version(uname.release),
            architecture=uname.machine,
            hostname=socket.gethostname(),
            oom_score_adj=int(Path("/proc/self/oom_score_adj").read_text()),
            has_seccomp=_SECCOMP.exists(),
            systemd_cgroups=systemd_cgroups,
            selinux=SELINUX.exists() and not rootless,
            user_namespaces=has_crun and not rootless and _has_user_namespaces(uname.release),
            apparmor_profiles=_APPARMOR if _APPARMOR.exists() and not rootless else None,
            rootless=rootless,
        )


def kernel_version(release: str) -> tuple[int, int]:
    """Return the first two numbers of a kernel's release, or (0, 0)."""
    found = re.match(r"(\d{1,9})\.(\d{1,9})", release)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _own_status(field: str) -> str:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(line.partition(":")[2].strip() for line in lines if line.startswith(f"{field}:"))


def _layout() -> CgroupLayout:
    if (GROUPS / "cgroup.controllers").exists():
        return CgroupLayout.UNIFIED
    return CgroupLayout.HYBRID if (GROUPS / "unified/cgroup.controllers").exists() else CgroupLayout.LEGACY


def _controllers(layout: CgroupLayout) -> Iterator[str]:
    if layout is CgroupLayout.UNIFIED:
        yield from (GROUPS / "cgroup.controllers").read_text().split()
        return
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        number, _, rest = line.partition(":")
        names = rest.partition(":")[0]
        if number != "0" and not names.startswith("name="):
            yield from names.split(",")


def _has_user_namespaces(release: str) -> bool:
    try:
        allowed = int(_MOST_USER_NAMESPACES.read_text()) > 0
    except (OSError, ValueError):
        return False
    return allowed and kernel_version(release) >= _ID_MAPPED_OVERLAYS


def _has_swap_accounting(layout: CgroupLayout) -> bool:
    """Look at the mounted group, the own one, or any below the root: the root of version 2 has no files of limits."""
    if layout is not CgroupLayout.UNIFIED:
        return (GROUPS / "memory/memory.memsw.limit_in_bytes").exists()
    own = Path("/proc/self/cgroup").read_text().rpartition("::/")[2].strip()
    below = (GROUPS, GROUPS / own, *GROUPS.glob("*.slice"), *GROUPS.glob("kubepods"))
    return any((group / "memory.swap.max").exists() for group in below)
