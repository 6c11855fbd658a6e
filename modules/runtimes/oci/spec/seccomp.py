"""The system calls that a container may use: CRI's seccomp profiles as OCI's `linux.seccomp`."""

from functools import lru_cache
from typing import Final

from modules.runtimes.engine.errors import BadRequestError, WrongStateError
from modules.runtimes.oci.spec.capabilities import container_capabilities
from modules.runtimes.oci.spec.machine import Machine
from modules.runtimes.oci.spec.model import Json
from modules.runtimes.oci.spec.seccomp_calls import ALLOWED, ARCHITECTURES, BY_ARCHITECTURE, BY_CAPABILITY
from modules.runtimes.oci.spec.seccomp_file import read_profile
from protos.cri.v1 import api_pb2 as cri

_ALLOW: Final = "SCMP_ACT_ALLOW"
_ENOSYS: Final = 38
_NEW_NAMESPACES: Final = 0x7E020000
"""The flags of clone that make namespaces: CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET."""
_PERSONALITIES: Final = (0x0, 0x8, 0x20000, 0x20008, 0xFFFFFFFF)
"""PER_LINUX and PER_LINUX32, each with UNAME26; the last only asks."""
_SAFE_PTRACE: Final = (4, 8)
"""Since this kernel a traced process cannot leave its filter."""


def check_seccomp(attempt: str, security: cri.LinuxContainerSecurityContext, machine: Machine) -> None:
    """Refuse a profile that this machine cannot apply.

    Raises:
        BadRequestError: the file of a Localhost profile is missing or wrong.
        WrongStateError: the kernel has no seccomp.
    """
    container_seccomp(attempt, security, machine)


def container_seccomp(attempt: str, security: cri.LinuxContainerSecurityContext, machine: Machine) -> Json | None:
    """Return the filter of a container; None for none. A privileged container has none, whatever it asks for.

    Raises BadRequestError and WrongStateError as `check_seccomp`.
    """
    kind, path = _asked(attempt, security)
    if security.privileged or kind == cri.SecurityProfile.Unconfined:
        return None
    if not machine.has_seccomp:
        raise WrongStateError(attempt, "this kernel has no seccomp", "use a kernel with CONFIG_SECCOMP_FILTER")
    granted = _capabilities_of(security, machine)
    if kind == cri.SecurityProfile.Localhost:
        return read_profile(attempt, path, granted, machine.kernel, machine.architecture)
    return runtime_default(granted, machine.architecture, machine.kernel)


@lru_cache(maxsize=64)
def runtime_default(capabilities: frozenset[str], architecture: str, kernel: tuple[int, int]) -> Json:
    """Return the profile RuntimeDefault. Containers with equal capabilities share one object.

    Args:
        capabilities: the container's, without `CAP_`.
        architecture: as `uname -m` says.
        kernel: first two numbers of its version.
    """
    return {
        "defaultAction": "SCMP_ACT_ERRNO",
        "architectures": list(ARCHITECTURES.get(architecture, ())),
        "syscalls": [
            _rule(*ALLOWED),
            *_sockets(),
            *(_rule("personality", arg=(0, kind, "SCMP_CMP_EQ")) for kind in _PERSONALITIES),
            *([_rule("ptrace", "process_vm_readv", "process_vm_writev")] if kernel >= _SAFE_PTRACE else []),
            *([_rule(*BY_ARCHITECTURE[architecture].split())] if architecture in BY_ARCHITECTURE else []),
            *(_rule(*calls.split()) for name, calls in BY_CAPABILITY.items() if name in capabilities),
            *([] if "SYS_ADMIN" in capabilities else _threads_only(architecture)),
        ],
    }


def _sockets() -> list[Json]:
    """Allow all socket families but AF_ALG (38) and AF_VSOCK (40). One condition a rule: runc makes two of one argument
    an alternative.
    """
    return [
        _rule("socket", arg=(0, 38, "SCMP_CMP_LT")),
        _rule("socket", arg=(0, 39, "SCMP_CMP_EQ")),
        _rule("socket", arg=(0, 40, "SCMP_CMP_GT")),
    ]


def _threads_only(architecture: str) -> list[Json]:
    """Allow clone without new namespaces. clone3 hides its flags in memory: it "does not exist", so that the C library
    takes clone.
    """
    index = 1 if architecture == "s390x" else 0
    return [
        {
            "names": ["clone"],
            "action": _ALLOW,
            "args": [{"index": index, "value": _NEW_NAMESPACES, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}],
        },
        {"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": _ENOSYS},
    ]


def _rule(*names: str, arg: tuple[int, int, str] | None = None) -> Json:
    rule: Json = {"names": list(names), "action": _ALLOW}
    if arg is not None:
        rule["args"] = [{"index": arg[0], "value": arg[1], "op": arg[2]}]
    return rule


def _capabilities_of(security: cri.LinuxContainerSecurityContext, machine: Machine) -> frozenset[str]:
    given = container_capabilities(security, machine)["bounding"]
    return frozenset(name.removeprefix("CAP_") for name in given)


def _asked(
    attempt: str, security: cri.LinuxContainerSecurityContext
) -> tuple[cri.SecurityProfile.ProfileType.ValueType, str]:
    """Return the profile's type and path; the old field `seccomp_profile_path` counts where the new one is unset."""
    if security.HasField("seccomp"):
        return security.seccomp.profile_type, security.seccomp.localhost_ref.removeprefix("localhost/")
    old = security.seccomp_profile_path
    if old in ("", "unconfined"):
        return cri.SecurityProfile.Unconfined, ""
    if old in ("runtime/default", "docker/default"):
        return cri.SecurityProfile.RuntimeDefault, ""
    if old.startswith("localhost/"):
        return cri.SecurityProfile.Localhost, old.removeprefix("localhost/")
    raise BadRequestError(attempt, f'there is no seccomp profile "{old[:60]}"', "localhost/PATH or runtime/default")
