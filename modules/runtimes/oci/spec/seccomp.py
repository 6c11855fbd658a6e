"""The system calls that a container may use: CRI's seccomp profiles as OCI's `linux.seccomp`.

A profile of the type Localhost is a file of the node, in OCI's form or in Docker's. Docker's form has conditions
(`includes`, `excludes`, `archMap`) that the container engine decides; the rest is OCI's form. The file is the
administrator's, but a container's author chooses its name.
"""

import errno
import os
import stat
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Final, Literal

import msgspec
from msgspec import Struct

from beehive.decoding import decode_json
from modules.runtimes.engine.errors import BadRequestError, WrongStateError
from modules.runtimes.oci.spec.capabilities import container_capabilities
from modules.runtimes.oci.spec.machine import Machine, kernel_version
from modules.runtimes.oci.spec.model import Json
from modules.runtimes.oci.spec.seccomp_calls import ALLOWED, ARCHITECTURES, BY_ARCHITECTURE, BY_CAPABILITY
from protos.cri.v1 import api_pb2 as cri

_ALLOW: Final = "SCMP_ACT_ALLOW"
_ENOSYS: Final = 38
_NEW_NAMESPACES: Final = 0x7E020000
"""The flags of clone that make namespaces: CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET."""
_PERSONALITIES: Final = (0x0, 0x8, 0x20000, 0x20008, 0xFFFFFFFF)
"""PER_LINUX and PER_LINUX32, each with UNAME26; the last only asks."""
_SAFE_PTRACE: Final = (4, 8)
"""Since this kernel a traced process cannot leave its filter."""

_LARGEST: Final = 1 << 20
"""Bytes of a profile; Docker's own has 15,000."""
_MOST_NAMES: Final = 20_000
"""System calls named in a profile, over all rules."""
_MOST_CONDITIONS: Final = 64
"""Most conditions of one rule."""
_LARGEST_ERRNO: Final = 4095
_FLAGS: Final = ("SECCOMP_FILTER_FLAG_TSYNC", "SECCOMP_FILTER_FLAG_LOG", "SECCOMP_FILTER_FLAG_SPEC_ALLOW")
_OTHERS: Final = "LOONGARCH64 MIPS MIPS64 MIPS64N32 MIPSEL MIPSEL64 MIPSEL64N32 PPC PPC64 PARISC PARISC64"
_DOCKER_NAMES: Final = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "armv6l": "arm"}


def check_seccomp(attempt: str, security: cri.LinuxContainerSecurityContext, machine: Machine) -> None:
    """Refuse a profile that this machine cannot apply.

    Raises:
        BadRequestError: the file of a Localhost profile is missing or wrong.
        WrongStateError: the kernel has no seccomp.
    """
    container_seccomp(attempt, security, machine)


def container_seccomp(attempt: str, security: cri.LinuxContainerSecurityContext, machine: Machine) -> Json | None:
    """Return the filter of a container, or None. A privileged container has no filter, whatever it asks for.

    Raises BadRequestError and WrongStateError as `check_seccomp`.
    """
    kind, path = asked_profile(attempt, security)
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


def asked_profile(
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


KNOWN_ARCHITECTURES: Final = tuple(f"SCMP_ARCH_{name}" for name in _OTHERS.split())
"""Beside the architectures of machines that edgecore runs on."""

_Action = Literal[
    "SCMP_ACT_KILL",
    "SCMP_ACT_KILL_PROCESS",
    "SCMP_ACT_KILL_THREAD",
    "SCMP_ACT_TRAP",
    "SCMP_ACT_ERRNO",
    "SCMP_ACT_TRACE",
    "SCMP_ACT_ALLOW",
    "SCMP_ACT_LOG",
]
_Operator = Literal[
    "SCMP_CMP_NE",
    "SCMP_CMP_LT",
    "SCMP_CMP_LE",
    "SCMP_CMP_EQ",
    "SCMP_CMP_GE",
    "SCMP_CMP_GT",
    "SCMP_CMP_MASKED_EQ",
]


class SeccompArgument(Struct, frozen=True, kw_only=True):
    """A condition on an argument of a system call."""

    index: int
    value: int
    value_two: int = msgspec.field(default=0, name="valueTwo")
    op: _Operator


class SeccompCondition(Struct, frozen=True):
    """Docker's condition of a rule: each of its fields must hold."""

    caps: list[str] | None = None
    arches: list[str] | None = None
    min_kernel: str | None = msgspec.field(default=None, name="minKernel")


class SeccompRule(Struct, frozen=True, kw_only=True):
    """One rule; `name` is the form of Docker's first profiles."""

    names: list[str] | None = None
    name: str | None = None
    action: _Action
    errno: int | None = msgspec.field(default=None, name="errnoRet")
    args: list[SeccompArgument] | None = None
    includes: SeccompCondition | None = None
    excludes: SeccompCondition | None = None


class SeccompArchitectures(Struct, frozen=True):
    """Docker's architectures: those below one are filtered with it."""

    architecture: str
    below: list[str] | None = msgspec.field(default=None, name="subArchitectures")


class SeccompFile(Struct, frozen=True, kw_only=True):
    """A profile as it is written."""

    default_action: _Action = msgspec.field(name="defaultAction")
    default_errno: int | None = msgspec.field(default=None, name="defaultErrnoRet")
    architectures: list[str] | None = None
    by_architecture: list[SeccompArchitectures] | None = msgspec.field(default=None, name="archMap")
    flags: list[str] | None = None
    syscalls: list[SeccompRule] | None = None


def read_profile(
    attempt: str, path: str, capabilities: frozenset[str], kernel: tuple[int, int], architecture: str
) -> Json:
    """Return the profile in the file at `path`, reduced to OCI's form for a container on this machine.

    Args:
        attempt: for the error.
        path: absolute.
        capabilities: the container's, without `CAP_`.
        kernel: first two numbers of its version.
        architecture: as `uname -m` says.

    Raises:
        BadRequestError: no such file, or no profile.
    """
    if not path.startswith("/") or ".." in PurePosixPath(path).parts or "\0" in path:
        raise BadRequestError(attempt, f'the seccomp profile "{path[:200]!r}" is no absolute path without ".."')
    try:
        profile = decode_json(_read(path), SeccompFile)
    except OSError as error:
        hint = "profiles are files below seccomp/ in edged's rootDirectory, on every node"
        raise BadRequestError(attempt, f'the seccomp profile "{path[:200]}": {error.strerror}', hint) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        reason = f'the seccomp profile "{path[:200]}" is wrong: {str(error)[:200]}'
        raise BadRequestError(
            attempt, reason, "it is JSON as in the OCI runtime specification, linux.seccomp"
        ) from error
    if problem := next(_problems(profile), None):
        raise BadRequestError(attempt, f'the seccomp profile "{path[:200]}" is wrong: {problem}')
    return _reduced(profile, capabilities, kernel, architecture)


def _read(path: str) -> bytes:
    """Open no device and no FIFO: the path names them, but to open one can do things or wait."""
    if not stat.S_ISREG(Path(path).stat().st_mode):
        raise OSError(errno.EINVAL, "it is no regular file", path)
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(handle, "rb") as file:  # noqa: PTH123 - a descriptor
        content = file.read(_LARGEST + 1)
    if len(content) > _LARGEST:
        raise OSError(errno.EFBIG, f"it has more than {_LARGEST} bytes", path)
    return content


def _problems(profile: SeccompFile) -> Iterator[str]:
    rules = profile.syscalls or []
    if sum(len(_names(rule)) for rule in rules) > _MOST_NAMES:
        yield f"more than {_MOST_NAMES} system calls"
    known = {*KNOWN_ARCHITECTURES, *(name for names in ARCHITECTURES.values() for name in names)}
    named = [*(profile.architectures or []), *_mapped(profile.by_architecture or [])]
    if wrong := next((name for name in named if name not in known), None):
        yield f'there is no architecture "{wrong[:60]}"'
    if wrong := next((flag for flag in profile.flags or [] if flag not in _FLAGS), None):
        yield f'there is no flag "{wrong[:60]}"'
    for rule in rules:
        yield from _rule_problems(rule)
    if not 0 <= (profile.default_errno or 0) <= _LARGEST_ERRNO:
        yield "defaultErrnoRet is no error number"


def _rule_problems(rule: SeccompRule) -> Iterator[str]:
    names = _names(rule)
    if not names:
        yield "a rule without names"
    if wrong := next((name for name in names if not (name.isascii() and name.replace("_", "").isalnum())), None):
        yield f"{wrong[:60]!r} is no name of a system call"
    if not 0 <= (rule.errno or 0) <= _LARGEST_ERRNO:
        yield "errnoRet is no error number"
    if len(rule.args or []) > _MOST_CONDITIONS:
        yield f"a rule with more than {_MOST_CONDITIONS} conditions"
    for argument in rule.args or []:
        if not 0 <= argument.index <= 5:
            yield f"a system call has no argument {argument.index}"
        if not (0 <= argument.value < 1 << 64 and 0 <= argument.value_two < 1 << 64):
            yield "a value has more than 64 bits"


def _mapped(maps: list[SeccompArchitectures]) -> Iterator[str]:
    for each in maps:
        yield each.architecture
        yield from each.below or []


def _names(rule: SeccompRule) -> list[str]:
    return [*([rule.name] if rule.name else []), *(rule.names or [])]


def _reduced(profile: SeccompFile, capabilities: frozenset[str], kernel: tuple[int, int], architecture: str) -> Json:
    native = ARCHITECTURES.get(architecture, ("",))[0]
    mapped = [name for each in profile.by_architecture or [] if each.architecture == native for name in _mapped([each])]
    kept = [
        rule
        for rule in profile.syscalls or []
        if _holds(rule.includes, capabilities, kernel, architecture, all)
        and not (rule.excludes is not None and _holds(rule.excludes, capabilities, kernel, architecture, any))
    ]
    reduced: Json = {
        "defaultAction": profile.default_action,
        "architectures": profile.architectures or mapped,
        "syscalls": [_oci_rule(rule) for rule in kept],
    }
    if profile.default_errno is not None:
        reduced["defaultErrnoRet"] = profile.default_errno
    if profile.flags:
        reduced["flags"] = profile.flags
    return reduced


def _holds(
    condition: SeccompCondition | None,
    capabilities: frozenset[str],
    kernel: tuple[int, int],
    architecture: str,
    combine: Callable[[Iterator[bool]], bool],
) -> bool:
    """Return whether all (includes) or any (excludes) parts of a condition hold."""
    if condition is None:
        return True
    parts: list[bool] = []
    if condition.caps:
        held = (name.upper().removeprefix("CAP_") in capabilities for name in condition.caps)
        parts.append(combine(held))
    if condition.arches:
        parts.append(_DOCKER_NAMES.get(architecture, architecture) in condition.arches)
    if condition.min_kernel:
        parts.append(kernel >= kernel_version(condition.min_kernel))
    return combine(iter(parts))


def _oci_rule(rule: SeccompRule) -> Json:
    reduced: Json = {"names": _names(rule), "action": rule.action}
    if rule.errno is not None:
        reduced["errnoRet"] = rule.errno
    if rule.args:
        reduced["args"] = [
            {"index": each.index, "value": each.value, "valueTwo": each.value_two, "op": each.op} for each in rule.args
        ]
    return reduced
