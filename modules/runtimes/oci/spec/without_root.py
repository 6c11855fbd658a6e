"""What a node without root cannot give to a pod: it is refused with a reason, because it would be missed much later.

Limits of CPU and memory are the exception: nearly every pod has some, and a node where they do not count says it once.
"""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from beehive.node_namespaces import POD_IDS, POD_ROOT
from modules.runtimes.engine.errors import WrongStateError
from modules.runtimes.oci.spec.machine import SELINUX, Machine
from protos.cri.v1 import api_pb2 as cri

_LAST_ID: Final = POD_IDS - 1
_OF_THE_MACHINE: Final = (
    "AUDIT_CONTROL", "AUDIT_READ", "BLOCK_SUSPEND", "IPC_LOCK", "MAC_ADMIN", "MAC_OVERRIDE", "PERFMON", "SYSLOG",
    "SYS_BOOT", "SYS_MODULE", "SYS_NICE", "SYS_PACCT", "SYS_RAWIO", "SYS_TIME", "SYS_TTY_CONFIG", "WAKE_ALARM",
)  # fmt: skip
"""Capabilities that give no rights to a process in a user namespace: they act on the machine (user_namespaces(7))."""
_RIGHTS: Final = {"r": stat.S_IROTH, "w": stat.S_IWOTH}
_ACL: Final = "system.posix_acl_access"
_USERS: Final = Path("/proc/self/uid_map")


def check_sandbox_without_root(attempt: str, options: cri.NamespaceOption) -> None:
    """Refuse namespaces that a node without root has no rights to share, or to make. Raises WrongStateError."""
    for kind, name in (("pid", "hostPID"), ("ipc", "hostIPC")):
        if getattr(options, kind) == cri.NODE:
            raise WrongStateError(attempt, f"{name} needs root, and this node runs without", f"leave {name} out")
    if options.HasField("userns_options") and options.userns_options.mode == cri.POD:
        reason = "all pods of this node have users of their own already, the same ones"
        raise WrongStateError(attempt, reason, "leave hostUsers: false out")


def check_container_without_root(attempt: str, config: cri.ContainerConfig, machine: Machine) -> None:
    """Refuse users, capabilities, profiles, limits and devices that need root. Raises WrongStateError."""
    for reason, hint in _problems(config, machine):
        raise WrongStateError(attempt, reason, hint)


def _problems(config: cri.ContainerConfig, machine: Machine) -> Iterator[tuple[str, str]]:
    security = config.linux.security_context
    numbers = (security.run_as_user.value, security.run_as_group.value, *security.supplemental_groups)
    if max(numbers) > _LAST_ID:
        yield f"the user or group {max(numbers)} needs root: this node runs without, with those up to {_LAST_ID}", ""
    asked = security.capabilities
    for each in (*asked.add_capabilities, *asked.add_ambient_capabilities):
        name = each.upper().removeprefix("CAP_")
        if name in _OF_THE_MACHINE:
            yield f"the capability {name} acts on the machine, which this node has no rights over", "leave it out"
    if security.HasField("apparmor") and security.apparmor.profile_type != cri.SecurityProfile.Unconfined:
        yield "an AppArmor profile needs root, and this node runs without", "leave appArmorProfile out"
    if security.selinux_options.ByteSize() and SELINUX.exists():
        yield "SELinux labels need root, and this node runs without", "leave seLinuxOptions out"
    for name in config.linux.resources.unified:
        controller = name.partition(".")[0][:40]
        if not machine.can_limit(controller):
            yield f"`unified` limits need the controller {controller}, which this node has not", "leave them out"
    for device in config.devices:
        yield from _closed(device)


def _closed(device: cri.Device) -> Iterator[tuple[str, str]]:
    """Yield the problem of a device that is open to a user or a group of the machine alone, by mode or by ACL."""
    wanted = sum(_RIGHTS.get(letter, 0) for letter in set(device.permissions or "rw"))
    try:
        mode = os.stat(device.host_path).st_mode  # noqa: PTH116 - a text of any content
        if stat.S_ISDIR(mode) or mode & wanted == wanted or _ACL in os.listxattr(device.host_path):
            return
    except (OSError, ValueError):  # what is wrong with it is said elsewhere
        return
    yield (
        f'the device "{device.host_path[:200]}" is closed to the pod, whose root owns nothing on the machine',
        f"setfacl --modify u:{_pod_root_outside()}:rw {device.host_path[:200]}",
    )


def _pod_root_outside() -> str:
    """Return the machine's number of the user that is root in pods."""
    lines = [line.split() for line in _USERS.read_text().splitlines()]
    return next((outside for inside, outside, _ in lines if inside == str(POD_ROOT)), "SUBID")
