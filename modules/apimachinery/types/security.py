"""Users, privileges and kernel restrictions of a pod and its containers."""

from msgspec import field

from modules.apimachinery.types.base import KubeStruct


class Capabilities(KubeStruct, frozen=True):
    """Linux capabilities to add and to drop, without the CAP_ prefix."""

    add: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()


class SELinuxOptions(KubeStruct, frozen=True):
    """The SELinux label of a process."""

    user: str = ""
    role: str = ""
    type: str = ""
    level: str = ""


class SeccompProfile(KubeStruct, frozen=True):
    """A filter of system calls: RuntimeDefault, Unconfined or Localhost."""

    type: str = field(default_factory=str)
    localhost_profile: str | None = None


class AppArmorProfile(KubeStruct, frozen=True):
    """An AppArmor profile: RuntimeDefault, Unconfined or Localhost."""

    type: str = field(default_factory=str)
    localhost_profile: str | None = None


class SecurityContext(KubeStruct, frozen=True):
    """Security of one container; unset fields fall back to the pod's."""

    capabilities: Capabilities | None = None
    privileged: bool | None = None
    se_linux_options: SELinuxOptions | None = None
    run_as_user: int | None = None
    run_as_group: int | None = None
    run_as_non_root: bool | None = None
    read_only_root_filesystem: bool | None = None
    allow_privilege_escalation: bool | None = None
    proc_mount: str | None = None
    seccomp_profile: SeccompProfile | None = None
    app_armor_profile: AppArmorProfile | None = None


class Sysctl(KubeStruct, frozen=True):
    """A kernel parameter of the pod's namespaces."""

    name: str = field(default_factory=str)
    value: str = field(default_factory=str)


class PodSecurityContext(KubeStruct, frozen=True):
    """Security that all containers of a pod share."""

    se_linux_options: SELinuxOptions | None = None
    run_as_user: int | None = None
    run_as_group: int | None = None
    run_as_non_root: bool | None = None
    supplemental_groups: tuple[int, ...] = ()
    supplemental_groups_policy: str | None = None
    fs_group: int | None = None
    sysctls: tuple[Sysctl, ...] = ()
    fs_group_change_policy: str | None = None
    seccomp_profile: SeccompProfile | None = None
    app_armor_profile: AppArmorProfile | None = None
