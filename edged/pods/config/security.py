"""Security contexts of containers and sandboxes, from the settings of the pod and the container."""

from collections.abc import Sequence
from pathlib import PurePosixPath

from msgspec import Struct

from edged.errors import ConfigError, RunAsRootError
from edged.pods.labels import ref_of
from modules.apimachinery.types import (
    AppArmorProfile,
    Container,
    Pod,
    PodSecurityContext,
    SeccompProfile,
    SecurityContext,
)
from modules.apimachinery.types import SELinuxOptions as Label
from protos.cri.v1 import api_pb2 as cri

_APPARMOR_ANNOTATION = "container.apparmor.security.beta.kubernetes.io/"
_NOTED = {"RuntimeDefault": "runtime/default", "Unconfined": "unconfined"}
"""Texts of the annotation for profiles without a name of their own."""
_LOCALHOST = "localhost/"
_UNMASKED = "Unmasked"
_MASKED_PATHS = (
    "/proc/asound",
    "/proc/acpi",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
    "/sys/devices/virtual/powercap",
)
_READONLY_PATHS = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")
_PROFILES = {
    "RuntimeDefault": cri.SecurityProfile.RuntimeDefault,
    "Unconfined": cri.SecurityProfile.Unconfined,
    "Localhost": cri.SecurityProfile.Localhost,
}


class ImageUser(Struct, frozen=True, gc=False):
    """The user that an image names for its process; root when both fields are empty."""

    uid: int | None = None
    name: str = ""


def check_not_root(pod: Pod, container: Container, image_user: ImageUser) -> None:
    """Raise RunAsRootError if the container would run as root against `runAsNonRoot` (kubelet's verifyRunAsNonRoot)."""
    own, shared = _contexts(pod, container)
    forbidden = own.run_as_non_root if own.run_as_non_root is not None else shared.run_as_non_root
    if not forbidden:
        return
    where = f"{container.name} of {ref_of(pod).with_uid}"
    user = _user(own, shared)
    if user is not None:
        if user == 0:
            raise RunAsRootError("container's runAsUser breaks non-root policy", where)
    elif image_user.uid is None and image_user.name:
        raise RunAsRootError(
            "container has runAsNonRoot and image has non-numeric user", where, "set runAsUser to a number"
        )
    elif not image_user.uid:
        raise RunAsRootError(
            "container has runAsNonRoot and image will run as root", where, "set runAsUser to a number other than 0"
        )


def container_security(
    pod: Pod,
    container: Container,
    image_user: ImageUser,
    seccomp_root: PurePosixPath,
    *,
    seccomp_default: bool = False,
    masked: Sequence[str] = (),
    users: cri.UserNamespace | None = None,
) -> cri.LinuxContainerSecurityContext:
    """Return the security context of a container (kubelet's determineEffectiveSecurityContext).

    `masked` are paths of this machine that containers may not read, beside every machine's; `users` are the
    pod's own, if it has any.
    """
    own, shared = _contexts(pod, container)
    security = cri.LinuxContainerSecurityContext(
        privileged=bool(own.privileged),
        namespace_options=namespaces(pod, users),
        readonly_rootfs=bool(own.read_only_root_filesystem),
        supplemental_groups=_groups(shared),
        supplemental_groups_policy=_groups_policy(shared),
        no_new_privs=own.allow_privilege_escalation is False,
        seccomp=_seccomp(_seccomp_profile(own, shared, default=seccomp_default), seccomp_root),
    )
    if own.capabilities is not None:
        security.capabilities.add_capabilities.extend(own.capabilities.add)
        security.capabilities.drop_capabilities.extend(own.capabilities.drop)
    if own.proc_mount != _UNMASKED:
        security.masked_paths.extend((*_MASKED_PATHS, *masked))
        security.readonly_paths.extend(_READONLY_PATHS)
    _set_user(security, own, shared, image_user)
    _set_label(security, own.se_linux_options or shared.se_linux_options)
    _set_apparmor(security, container.name, own.app_armor_profile or _noted(pod, container) or shared.app_armor_profile)
    return security


def sandbox_security(pod: Pod, users: cri.UserNamespace | None = None) -> cri.LinuxSandboxSecurityContext:
    """Return the security context of the sandbox, whose own process always has the runtime's seccomp filter."""
    shared = pod.spec.security_context or PodSecurityContext()
    security = cri.LinuxSandboxSecurityContext(
        namespace_options=namespaces(pod, users),
        privileged=any(_is_privileged(c) for c in pod.spec.init_containers + pod.spec.containers),
        supplemental_groups=_groups(shared),
        supplemental_groups_policy=_groups_policy(shared),
        seccomp=cri.SecurityProfile(profile_type=cri.SecurityProfile.RuntimeDefault),
    )
    if shared.run_as_user is not None:
        security.run_as_user.value = shared.run_as_user
    if shared.run_as_group is not None:
        security.run_as_group.value = shared.run_as_group
    _set_label(security, shared.se_linux_options)
    return security


def namespaces(pod: Pod, users: cri.UserNamespace | None = None) -> cri.NamespaceOption:
    """Return which namespaces are the host's, the pod's, or each container's own; `users` are the pod's own.

    Raises ConfigError for a pod that wants its own users and has no range of them.
    """
    spec = pod.spec
    if spec.host_users is False and users is None:
        raise ConfigError("cannot use user namespaces", ref_of(pod).with_uid, "hostUsers: false is not supported")
    pid = cri.POD if spec.share_process_namespace else cri.CONTAINER
    return cri.NamespaceOption(
        network=cri.NODE if spec.host_network else cri.POD,
        ipc=cri.NODE if spec.host_ipc else cri.POD,
        pid=cri.NODE if spec.host_pid else pid,
        userns_options=users,
    )


def _contexts(pod: Pod, container: Container) -> tuple[SecurityContext, PodSecurityContext]:
    return (
        container.security_context or SecurityContext(),
        pod.spec.security_context or PodSecurityContext(),
    )


def _is_privileged(container: Container) -> bool:
    return container.security_context is not None and bool(container.security_context.privileged)


def _user(own: SecurityContext, shared: PodSecurityContext) -> int | None:
    return own.run_as_user if own.run_as_user is not None else shared.run_as_user


def _set_user(
    security: cri.LinuxContainerSecurityContext,
    own: SecurityContext,
    shared: PodSecurityContext,
    image_user: ImageUser,
) -> None:
    user = _user(own, shared)
    if user is None:
        user = image_user.uid
        security.run_as_username = "" if user is not None else image_user.name
    if user is not None:
        security.run_as_user.value = user
    group = own.run_as_group if own.run_as_group is not None else shared.run_as_group
    if group is not None:
        security.run_as_group.value = group


def _groups(shared: PodSecurityContext) -> list[int]:
    extra = () if shared.fs_group is None else (shared.fs_group,)
    return list(dict.fromkeys(shared.supplemental_groups + extra))


def _groups_policy(shared: PodSecurityContext) -> cri.SupplementalGroupsPolicy.ValueType:
    return cri.Strict if shared.supplemental_groups_policy == "Strict" else cri.Merge


def _set_label(
    security: cri.LinuxContainerSecurityContext | cri.LinuxSandboxSecurityContext, label: Label | None
) -> None:
    if label is not None:
        security.selinux_options.CopyFrom(
            cri.SELinuxOption(user=label.user, role=label.role, type=label.type, level=label.level)
        )


def _seccomp_profile(own: SecurityContext, shared: PodSecurityContext, *, default: bool) -> SeccompProfile | None:
    """Return the container's profile, the pod's, or the node's default (kubelet's SeccompDefault)."""
    return own.seccomp_profile or shared.seccomp_profile or (SeccompProfile(type="RuntimeDefault") if default else None)


def _seccomp(profile: SeccompProfile | None, root: PurePosixPath) -> cri.SecurityProfile:
    """Convert a seccomp profile. None becomes unconfined, as in Kubernetes without SeccompDefault."""
    if profile is None:
        return cri.SecurityProfile(profile_type=cri.SecurityProfile.Unconfined)
    localhost = ""
    if profile.type == "Localhost":
        relative = PurePosixPath(profile.localhost_profile or "")
        if relative.is_absolute() or ".." in relative.parts or not relative.parts:
            raise ConfigError("cannot use the seccomp profile", str(relative), f"a file below {root} is wanted")
        localhost = str(root / relative)
    return cri.SecurityProfile(profile_type=_profile_type("seccomp", profile.type), localhost_ref=localhost)


def _noted(pod: Pod, container: Container) -> AppArmorProfile | None:
    """Return the profile in the annotation for a container, which precedes the pod's: static pods still have it."""
    text = pod.metadata.annotations.get(_APPARMOR_ANNOTATION + container.name, "")
    if text.startswith(_LOCALHOST):
        return AppArmorProfile(type="Localhost", localhost_profile=text.removeprefix(_LOCALHOST))
    return next((AppArmorProfile(type=kind) for kind, noted in _NOTED.items() if noted == text), None)


def _set_apparmor(security: cri.LinuxContainerSecurityContext, container: str, profile: AppArmorProfile | None) -> None:
    if profile is None:
        return
    security.apparmor.profile_type = _profile_type("AppArmor", profile.type)
    if profile.type == "Localhost" and not profile.localhost_profile:
        raise ConfigError("cannot use the AppArmor profile", container, "localhostProfile names none")
    security.apparmor.localhost_ref = profile.localhost_profile or ""
    security.apparmor_profile = _NOTED.get(profile.type, f"{_LOCALHOST}{profile.localhost_profile}")


def requires_apparmor(pod: Pod) -> bool:
    """Return whether a profile confines the pod or one of its containers (kubelet's isRequired)."""
    shared = pod.spec.security_context
    profiles = [c.security_context.app_armor_profile for c in pod.spec.all_containers if c.security_context is not None]
    profiles += [shared.app_armor_profile] if shared is not None else []
    notes = (text for key, text in pod.metadata.annotations.items() if key.startswith(_APPARMOR_ANNOTATION))
    return any(each is not None and each.type != "Unconfined" for each in profiles) or any(
        text != "unconfined" for text in notes
    )


def _profile_type(kind: str, name: str) -> cri.SecurityProfile.ProfileType.ValueType:
    if name not in _PROFILES:
        raise ConfigError(f"cannot use the {kind} profile of type", repr(name), f"supported: {', '.join(_PROFILES)}")
    return _PROFILES[name]
