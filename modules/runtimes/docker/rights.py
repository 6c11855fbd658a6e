"""The rights of a container in Docker's terms: capabilities, security profiles, and the rights of privileged
containers.
"""

from pathlib import Path
from typing import Any, Final

from beehive.decoding import decode_json
from beehive.files.reading import read_file
from modules.runtimes.engine.errors import BadRequestError, WrongStateError
from modules.runtimes.oci.spec import Machine
from modules.runtimes.oci.spec.apparmor import container_apparmor
from modules.runtimes.oci.spec.checks import attempt_of
from protos.cri.v1 import api_pb2 as cri

_LARGEST_PROFILE: Final = 4 * 1024 * 1024
_ALL: Final = "ALL"
_YOUNG: Final = frozenset(("BPF", "PERFMON", "CHECKPOINT_RESTORE"))
"""Capabilities that Linux 5.8 and later split from SYS_ADMIN; Debian's Docker Engine 20.10 does not know their
names."""


def rights(request: cri.CreateContainerRequest, machine: Machine) -> dict[str, Any]:
    """Return the fields of HostConfig. Raises RequestRefusedError when a security profile cannot be used."""
    security = request.config.linux.security_context
    asked = security.capabilities
    fields = {
        "Privileged": security.privileged,
        "ReadonlyRootfs": security.readonly_rootfs,
        "CapAdd": _added(asked, machine),
        "CapDrop": list(asked.drop_capabilities),
        "GroupAdd": [str(group) for group in security.supplemental_groups],
        "SecurityOpt": _security_options(request, machine),
    }
    if not security.privileged:
        return fields | {"MaskedPaths": list(security.masked_paths), "ReadonlyPaths": list(security.readonly_paths)}
    return fields if _has_all(machine) else fields | _nearly_privileged(machine)


def _has_all(machine: Machine) -> bool:
    return machine.capabilities == machine.known_capabilities


def _own(machine: Machine) -> list[str]:
    """Return the capabilities that this machine can grant; Docker's ALL means the kernel's."""
    return sorted(machine.capabilities - _YOUNG)


def _added(asked: cri.Capability, machine: Machine) -> list[str]:
    names = list(asked.add_capabilities)
    return _own(machine) if _ALL in names and not _has_all(machine) else names


def _nearly_privileged(machine: Machine) -> dict[str, Any]:
    """Return the rights of a privileged container on a machine that lacks capabilities, where Docker cannot start one.

    They are all rights except a writable /sys.
    """
    return {
        "Privileged": False,
        "CapAdd": _own(machine),
        "CapDrop": [],
        "MaskedPaths": [],
        "ReadonlyPaths": [],
        "Devices": [{"PathOnHost": "/dev", "PathInContainer": "/dev", "CgroupPermissions": "rwm"}],
        "DeviceCgroupRules": ["a *:* rwm"],
    }


def _security_options(request: cri.CreateContainerRequest, machine: Machine) -> list[str]:
    attempt, security = attempt_of(request.config), request.config.linux.security_context
    options = ["no-new-privileges"] if security.no_new_privs else []
    label = security.selinux_options
    parts = {"user": label.user, "role": label.role, "type": label.type, "level": label.level}
    options += [f"label={name}:{value}" for name, value in parts.items() if value]
    if name := container_apparmor(attempt, security, machine):
        options.append(f"apparmor={name}")
    elif machine.apparmor_profiles is not None:
        options.append("apparmor=unconfined")
    kind = security.seccomp.profile_type
    if not security.HasField("seccomp") or security.privileged or kind == cri.SecurityProfile.Unconfined:
        return [*options, "seccomp=unconfined"]
    if kind == cri.SecurityProfile.Localhost:
        return [*options, f"seccomp={_profile(attempt, Path(security.seccomp.localhost_ref))}"]
    return options


def _profile(attempt: str, path: Path) -> str:
    """Return the text of a seccomp profile. Raises BadRequestError, WrongStateError."""
    try:
        text = read_file(path, _LARGEST_PROFILE)
        decode_json(text, dict)
        return text.decode()
    except OSError as error:
        raise WrongStateError(attempt, f"the seccomp profile cannot be read: {error}") from error
    except ValueError as error:  # msgspec's errors are some
        raise BadRequestError(attempt, f'the seccomp profile "{path}" is no JSON: {error}') from error
