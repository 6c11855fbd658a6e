"""SELinux labels of a container. Where the kernel has no SELinux they are left out, as containerd and CRI-O do."""

from typing import Final

import msgspec

from beehive.patterns import pattern
from modules.runtimes.engine.errors import BadRequestError
from modules.runtimes.oci.spec.machine import Machine
from protos.cri.v1 import api_pb2 as cri

_USER: Final = "system_u"
_ROLE: Final = "system_r"
_TYPE: Final = "container_t"
_LEVEL: Final = "s0"
_FILES: Final = "system_u:object_r:container_file_t"
"""User, role and type of a container's files (container-selinux's policy)."""
_PART: Final = pattern(r"[A-Za-z0-9_.-]{1,255}")
_RANGE: Final = pattern(r"[A-Za-z0-9_.:,-]{1,1024}")


class SelinuxLabels(msgspec.Struct, frozen=True):
    """Labels of a container; empty for the runtime's own."""

    process: str = ""
    files: str = ""
    """Label of its root file system and of file systems in memory; volumes keep their labels."""


def check_selinux(attempt: str, options: cri.SELinuxOption) -> None:
    """Refuse invalid labels, also where the kernel has no SELinux. Raises BadRequestError."""
    for name, value, form in (
        ("user", options.user, _PART),
        ("role", options.role, _PART),
        ("type", options.type, _PART),
        ("level", options.level, _RANGE),
    ):
        if value and not form.fullmatch(value):
            raise BadRequestError(attempt, f"{value[:60]!r} is no SELinux {name}")


def selinux_labels(security: cri.LinuxContainerSecurityContext, machine: Machine) -> SelinuxLabels:
    """Return the labels that a container asks for; parts that it leaves out are container-selinux's defaults."""
    options = security.selinux_options
    if not machine.selinux or not (options.user or options.role or options.type or options.level):
        return SelinuxLabels()
    level = options.level or _LEVEL
    process = f"{options.user or _USER}:{options.role or _ROLE}:{options.type or _TYPE}:{level}"
    return SelinuxLabels(process, f"{_FILES}:{level}")
