"""Capabilities of a container's process, from CRI's lists of additions and removals."""

from collections.abc import Iterable, Iterator
from typing import Final

from modules.runtimes.engine.errors import BadRequestError, WrongStateError
from modules.runtimes.oci.spec.capability_names import NAMES
from modules.runtimes.oci.spec.machine import Machine
from protos.cri.v1 import api_pb2 as cri

_USUAL: Final = (
    "CHOWN DAC_OVERRIDE FSETID FOWNER MKNOD NET_RAW SETGID SETUID SETFCAP SETPCAP NET_BIND_SERVICE SYS_CHROOT KILL "
    "AUDIT_WRITE"
)
DEFAULT: Final = frozenset(_USUAL.split())
"""The capabilities of containers by default: Docker's and containerd's set."""

_ALL: Final = "ALL"


def check_capabilities(attempt: str, asked: cri.Capability, machine: Machine) -> None:
    """Refuse names that the runtimes would drop silently, and capabilities that cannot be given.

    Raises:
        BadRequestError: an unknown name.
        WrongStateError: the kernel, or edgecore itself, does not have it.
    """
    for name in (*asked.add_capabilities, *asked.drop_capabilities, *asked.add_ambient_capabilities):
        if _plain(name) not in (_ALL, *NAMES):
            raise BadRequestError(attempt, f'there is no capability "{name[:60]}"', "names are as NET_ADMIN, or ALL")
    for name in _plainly((*asked.add_capabilities, *asked.add_ambient_capabilities)):
        if name != _ALL and name not in machine.capabilities:
            whose = "edgecore itself" if name in machine.known_capabilities else "this kernel"
            raise WrongStateError(attempt, f"{whose} does not have the capability {name}")


def container_capabilities(security: cri.LinuxContainerSecurityContext, machine: Machine) -> dict[str, list[str]]:
    """Return OCI's `process.capabilities`: additions before removals, ALL first among each.

    Ambient ones are inheritable too, as the kernel demands; all others are neither.
    """
    granted, ambient = _granted(security, machine), list[str]()
    if security.capabilities.add_ambient_capabilities:
        wanted = set(_plainly(security.capabilities.add_ambient_capabilities))
        chosen = machine.capabilities if _ALL in wanted else wanted & machine.capabilities
        granted |= chosen
        ambient = _spelt(chosen)
    given = _spelt(granted)
    return {"bounding": given, "permitted": given, "effective": given, "inheritable": ambient, "ambient": ambient}


def _granted(security: cri.LinuxContainerSecurityContext, machine: Machine) -> frozenset[str]:
    if security.privileged:
        return machine.capabilities
    added = frozenset(_plainly(security.capabilities.add_capabilities))
    dropped = frozenset(_plainly(security.capabilities.drop_capabilities))
    start = machine.capabilities if _ALL in added else DEFAULT & machine.capabilities
    if _ALL in dropped:
        start = frozenset()
    return (start | (added - {_ALL}) & machine.capabilities) - dropped


def _spelt(names: Iterable[str]) -> list[str]:
    return [f"CAP_{name}" for name in sorted(names)]


def _plainly(names: Iterable[str]) -> Iterator[str]:
    return (_plain(name) for name in names)


def _plain(name: str) -> str:
    return name.upper().removeprefix("CAP_")
