"""The AppArmor profile of a container."""

from pathlib import Path
from typing import Final

from beehive.patterns import pattern
from modules.runtimes.engine.errors import BadRequestError, WrongStateError
from modules.runtimes.oci.spec.machine import Machine
from protos.cri.v1 import api_pb2 as cri

DEFAULT_PROFILES: Final = ("edgecore-default", "cri-containerd.apparmor.d", "docker-default")
"""Profiles for RuntimeDefault: the first loaded one."""
_LARGEST: Final = 4 << 20
_NAME: Final = pattern(r"[^\s\0]{1,255}")


def container_apparmor(attempt: str, security: cri.LinuxContainerSecurityContext, machine: Machine) -> str:
    """Return the name of the profile, or "". A privileged container gets only its own.

    Raises:
        BadRequestError: a wrong name.
        WrongStateError: the profile is not loaded in the kernel, or the kernel has no AppArmor.
    """
    kind, name = _asked(attempt, security)
    if kind == cri.SecurityProfile.Unconfined or (kind == cri.SecurityProfile.RuntimeDefault and security.privileged):
        return ""
    loaded = _loaded(attempt, machine)
    if kind == cri.SecurityProfile.RuntimeDefault:
        usual = next((profile for profile in DEFAULT_PROFILES if loaded and profile in loaded), "")
        if loaded is not None and not usual and name == _EXPLICIT:
            hint = f"load one that is called {DEFAULT_PROFILES[0]} with apparmor_parser"
            raise WrongStateError(attempt, "no default AppArmor profile for containers is loaded", hint)
        return usual
    if not _NAME.fullmatch(name):
        raise BadRequestError(attempt, f"{name[:60]!r} is no name of an AppArmor profile")
    if loaded is None:
        raise WrongStateError(attempt, f'the AppArmor profile "{name}" is wanted, and AppArmor is off in this kernel')
    if name not in loaded:
        hint = "load it with apparmor_parser; `cat /sys/kernel/security/apparmor/profiles` lists those that are"
        raise WrongStateError(attempt, f'the AppArmor profile "{name}" is not loaded', hint)
    return name


_EXPLICIT: Final = "explicit"
"""Mark of a RuntimeDefault that is asked for by name: where nothing is asked, its absence is no error."""


def _asked(
    attempt: str, security: cri.LinuxContainerSecurityContext
) -> tuple[cri.SecurityProfile.ProfileType.ValueType, str]:
    """Return type and name of the profile: the structured field counts before the old text."""
    if security.HasField("apparmor"):
        if security.apparmor.profile_type == cri.SecurityProfile.RuntimeDefault:
            return cri.SecurityProfile.RuntimeDefault, _EXPLICIT
        return security.apparmor.profile_type, security.apparmor.localhost_ref.removeprefix("localhost/")
    old = security.apparmor_profile
    if old == "unconfined":
        return cri.SecurityProfile.Unconfined, ""
    if old in ("", "runtime/default"):
        return cri.SecurityProfile.RuntimeDefault, _EXPLICIT if old else ""
    if old.startswith("localhost/"):
        return cri.SecurityProfile.Localhost, old.removeprefix("localhost/")
    raise BadRequestError(attempt, f'there is no AppArmor profile "{old[:60]}"', "localhost/NAME or runtime/default")


def loaded_profiles(file: Path) -> frozenset[str]:
    """Return the names in the kernel's list of profiles, lines such as `docker-default (enforce)`. Raises OSError."""
    with file.open(errors="replace") as opened:
        return frozenset(line.rpartition(" (")[0] for line in opened.read(_LARGEST).splitlines())


def _loaded(attempt: str, machine: Machine) -> frozenset[str] | None:
    """Return the names of the loaded profiles; None without AppArmor."""
    if machine.apparmor_profiles is None:
        return None
    try:
        return loaded_profiles(machine.apparmor_profiles)
    except OSError as error:
        raise WrongStateError(attempt, f"the loaded AppArmor profiles cannot be read: {error.strerror}") from error
