"""The rules of security contexts."""

import re
from collections.abc import Mapping
from typing import Any, Final

from modules.apimachinery.validation.causes import Causes, duplicate, invalid, required, too_long
from modules.apimachinery.validation.names import faults_of_subdomain
from modules.apimachinery.validation.rules import (
    Each,
    Fields,
    Rule,
    between,
    named,
    needed,
    on_nodes,
    one_of,
    pointer,
    relative_path,
)

identity = between(0, 2**31 - 1)
"""A user's or group's number."""
_TYPES: Final = ("Localhost", "RuntimeDefault", "Unconfined")
_LONGEST_PROFILE: Final = 4095
_SYSCTL: Final = r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_READ_SYSCTL: Final = re.compile(_SYSCTL)
_LONGEST_SYSCTL: Final = 253
_OF_IPC: Final = ("kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue.")


def _profile(what: str) -> Rule:
    """Return the rule for what belongs to a profile's type."""

    def rule(value: Mapping[str, Any], path: str, found: Causes) -> None:
        kind, name, where = value.get("type") or "", value.get("localhostProfile"), f"{path}.localhostProfile"
        if kind == "Localhost" and name is None:
            found.append(required(where, f"must be set when {what} type is Localhost"))
        elif kind in _TYPES and kind != "Localhost" and name is not None:
            found.append(invalid(where, name, f"can only be set when {what} type is Localhost"))
        elif kind == "Localhost" and what == "seccomp":
            relative_path(name, where, found)
        elif kind == "Localhost":
            _app_armor_profile(str(name), where, found)

    return rule


def _app_armor_profile(name: str, path: str, found: Causes) -> None:
    if name != name.strip():
        found.append(invalid(path, name, "must not be padded with whitespace"))
    elif not name:
        found.append(required(path, "must be set when AppArmor type is Localhost"))
    if len(name) > _LONGEST_PROFILE:
        found.append(too_long(path, _LONGEST_PROFILE))


_SECCOMP: Final = Fields(
    {"type": needed(one_of(*_TYPES), "type is required when seccompProfile is set")}, _profile("seccomp")
)
_APP_ARMOR: Final = Fields(
    {"type": needed(one_of(*_TYPES), "type is required when appArmorProfile is set")}, _profile("AppArmor")
)
_WINDOWS: Final = Fields({"gmsaCredentialSpecName": pointer(named(faults_of_subdomain))})


def _escalation(value: Mapping[str, Any], path: str, found: Causes) -> None:
    if value.get("allowPrivilegeEscalation") is not False:
        return
    if value.get("privileged"):
        why = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
        found.append(invalid(path, value, why))
    if "CAP_SYS_ADMIN" in ((value.get("capabilities") or {}).get("add") or ()):
        why = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
        found.append(invalid(path, value, why))


security_context = Fields(
    {
        "runAsUser": on_nodes(pointer(identity)),
        "runAsGroup": on_nodes(pointer(identity)),
        "procMount": on_nodes(pointer(one_of("Default", "Unmasked"))),
        "seccompProfile": _SECCOMP,
        "windowsOptions": _WINDOWS,
        "appArmorProfile": _APP_ARMOR,
    },
    _escalation,
)


def _sysctls(value: Any, path: str, found: Causes) -> None:
    seen = set[str]()
    for index, each in enumerate(value):
        name, where = each.get("name") or "", f"{path}[{index}].name"
        if not name:
            found.append(required(where))
        elif len(name) > _LONGEST_SYSCTL or _READ_SYSCTL.fullmatch(name) is None:
            why = f"must have at most {_LONGEST_SYSCTL} characters and match regex ^{_SYSCTL}$"
            found.append(invalid(where, name, why))
        elif name in seen:
            found.append(duplicate(where, name))
        seen.add(name)


pod_security_context = Fields(
    {
        "fsGroup": on_nodes(pointer(identity)),
        "runAsUser": on_nodes(pointer(identity)),
        "runAsGroup": on_nodes(pointer(identity)),
        "supplementalGroups": on_nodes(Each(identity)),
        "sysctls": _sysctls,
        "fsGroupChangePolicy": pointer(one_of("Always", "OnRootMismatch")),
        "seccompProfile": _SECCOMP,
        "windowsOptions": _WINDOWS,
        "appArmorProfile": _APP_ARMOR,
        "supplementalGroupsPolicy": pointer(one_of("Merge", "Strict")),
        "seLinuxChangePolicy": pointer(one_of("MountOption", "Recursive")),
    }
)


def namespaces_of_node(spec: Mapping[str, Any], path: str, found: Causes) -> None:
    """Check the settings that are forbidden in the node's namespaces, and in a user namespace."""
    context = spec.get("securityContext") or {}
    for index, sysctl in enumerate(context.get("sysctls") or ()):
        name, where = str(sysctl.get("name") or ""), f"{path}.securityContext.sysctls[{index}].name"
        dotted = name.replace("/", ".")
        if spec.get("hostNetwork") and dotted.startswith("net."):
            found.append(invalid(where, name, "may not be specified when 'hostNetwork' is true"))
        elif spec.get("hostIPC") and dotted.startswith(_OF_IPC):
            found.append(invalid(where, name, "may not be specified when 'hostIPC' is true"))
    if (shares := spec.get("shareProcessNamespace")) and spec.get("hostPID"):
        why = "ShareProcessNamespace and HostPID cannot both be enabled"
        found.append(invalid(f"{path}.securityContext.shareProcessNamespace", shares, why))
