"""Translates pods and containers into Docker's terms: the bodies of requests that create and change containers."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from beehive.decoding import decode_json
from beehive.files.reading import read_file
from modules.runtimes.docker.answers import ImageSettings
from modules.runtimes.docker.labels import container_labels, sandbox_labels
from modules.runtimes.docker.pause_image import NAME as PAUSE_IMAGE
from modules.runtimes.engine.errors import BadRequestError, NotProvidedError, WrongStateError
from modules.runtimes.oci.network.sysctls import interface_sysctls
from modules.runtimes.oci.spec import Machine, SandboxFiles, check_container, check_sandbox
from modules.runtimes.oci.spec.apparmor import container_apparmor
from modules.runtimes.oci.spec.cdi import cdi_names
from modules.runtimes.oci.spec.checks import attempt_of
from modules.runtimes.oci.spec.resources import container_resources, oom_score_adj
from modules.runtimes.oci.spec.seccomp import asked_profile
from protos.cri.v1 import api_pb2 as cri

Body = dict[str, Any]

RECURSIVE_READ_ONLY: Final = (1, 44)
"""The first version of Docker's API where a request chooses whether a read-only mount is recursive."""
_HOLDER_OOM_SCORE: Final = -998
_HOLDER_SHARES: Final = 2
_NOBODY: Final = "65534:65534"
_PROPAGATION: Final = {
    cri.PROPAGATION_PRIVATE: "rprivate",
    cri.PROPAGATION_HOST_TO_CONTAINER: "rslave",
    cri.PROPAGATION_BIDIRECTIONAL: "rshared",
}

_LARGEST_PROFILE: Final = 4 * 1024 * 1024
_ALL: Final = "ALL"
_YOUNG: Final = frozenset(("BPF", "PERFMON", "CHECKPOINT_RESTORE"))
"""Capabilities that Linux 5.8 and later split from SYS_ADMIN; Debian's Docker Engine 20.10 does not know their
names."""


class LogLimits(NamedTuple):
    """The output of a container that Docker keeps: a number of files, each of limited size."""

    size: int
    files: int


class Here(NamedTuple):
    """The values that differ between edgecores: the owner of containers, the machine, Docker's API and the limits of
    logs.
    """

    root: str
    machine: Machine
    version: tuple[int, int]
    logs: LogLimits


class DockerImageDefaults:
    """An image's defaults for its process (see `modules.runtimes.oci.spec.ImageDefaults`)."""

    def __init__(self, settings: ImageSettings | None) -> None:
        settings = settings or ImageSettings()
        self.entrypoint: Sequence[str] = settings.entrypoint or ()
        self.command: Sequence[str] = settings.cmd or ()
        self.environment: Sequence[str] = settings.env or ()
        self.user = settings.user
        self.working_directory = settings.working_dir
        self.stop_signal = settings.stop_signal
        self.volumes: Sequence[str] = tuple(settings.volumes or ())
        """Checked here, and made by Docker."""


def sandbox_body(config: cri.PodSandboxConfig, here: Here) -> Body:
    """Return the body for the container that holds the namespaces of a sandbox, without rights and with no network.

    Containers with SYS_PTRACE that share its processes can make it do what it may: it has Docker's seccomp profile.
    """
    security = config.linux.security_context
    is_own = security.namespace_options.network != cri.NODE
    skipped = interface_sysctls(config.linux.sysctls)
    host: Body = {
        **_common(config.linux.cgroup_parent, LogLimits(1024 * 1024, 1), here.machine),
        "NetworkMode": "none" if is_own else "host",
        "IpcMode": "host" if security.namespace_options.ipc == cri.NODE else "shareable",
        "CapDrop": ["ALL"],
        "ReadonlyRootfs": True,
        "SecurityOpt": ["no-new-privileges"],
        "OomScoreAdj": max(_HOLDER_OOM_SCORE, _least_score(here.machine)),
        "CpuShares": _HOLDER_SHARES,
        "Sysctls": {name: value for name, value in config.linux.sysctls.items() if name not in skipped},
    }
    if not is_own:
        host["UTSMode"] = "host"
    body: Body = {
        "Image": PAUSE_IMAGE,
        "User": _NOBODY,
        "Labels": sandbox_labels(here.root, config),
        "StopSignal": "SIGKILL",
        "HostConfig": host,
    }
    return body | ({"Hostname": config.hostname} if is_own and config.hostname else {})


def check(request: cri.CreateContainerRequest, image: DockerImageDefaults, here: Here) -> None:
    """Refuse a container that can never run, or that Docker cannot create as requested. Raises RequestRefusedError."""
    check_container(request, image, here.machine)
    config = request.config
    attempt, security = attempt_of(config), config.linux.security_context
    _check_user_namespace(attempt, security.namespace_options)
    if any(mount.image.image for mount in config.mounts):
        raise NotProvidedError(attempt, "an image as a volume: Docker has none", "use embedded://oci")
    if cdi_names(config):
        raise NotProvidedError(attempt, "devices by CDI are not given to Docker", "use embedded://oci")
    if security.supplemental_groups_policy == cri.Strict:
        raise NotProvidedError(attempt, "supplementalGroupsPolicy Strict: Docker adds the groups of the image")
    if config.linux.resources.unified:
        raise NotProvidedError(attempt, "`unified` limits: Docker sets none", "use embedded://oci")
    if any(mount.mount_options for mount in config.mounts):
        raise NotProvidedError(attempt, "options of a mount: Docker has none", "use embedded://oci")
    if here.version < RECURSIVE_READ_ONLY and any(mount.recursive_read_only for mount in config.mounts):
        raise NotProvidedError(attempt, "recursively read-only mounts need Docker Engine 25 (API 1.44)")


def check_pod(request: cri.RunPodSandboxRequest, here: Here) -> None:
    """Refuse a sandbox that cannot be created at all, or not by Docker. Raises RequestRefusedError."""
    check_sandbox(request, here.machine)
    attempt = f'run the sandbox of pod "{request.config.metadata.name[:100]}"'
    _check_user_namespace(attempt, request.config.linux.security_context.namespace_options)


def _check_user_namespace(attempt: str, options: cri.NamespaceOption) -> None:
    if options.HasField("userns_options") and options.userns_options.mode != cri.NODE:
        reason = "user namespaces: Docker has one for all containers or none"
        raise NotProvidedError(attempt, reason, "leave hostUsers: false out")


def container_body(request: cri.CreateContainerRequest, image: str, files: SandboxFiles, here: Here) -> Body:
    """Return the body for a container.

    Args:
        request: CRI's, checked.
        image: id of its image.
        files: of its sandbox; each is mounted unless the request has a mount at the same path.
        here: this edgecore.

    Raises:
        RequestRefusedError: a security profile cannot be used.
    """
    config = request.config
    host: Body = {
        **_common(request.sandbox_config.linux.cgroup_parent, here.logs, here.machine),
        **_namespaces(request),
        **limits(config.linux.resources, here.machine),
        "Mounts": [*_sandbox_mounts(config, files), *(_mount(each, here) for each in config.mounts)],
        "Devices": [
            {
                "PathOnHost": each.host_path,
                "PathInContainer": each.container_path,
                "CgroupPermissions": each.permissions,
            }
            for each in config.devices
        ],
        **rights(request, here.machine),
    }
    if (score := oom_score_adj(config, here.machine)) is not None:
        host["OomScoreAdj"] = score
    return {**_process(config), "Image": image, "Labels": container_labels(here.root, request), "HostConfig": host}


def limits(resources: cri.LinuxContainerResources, machine: Machine) -> Body:
    """Return limits in Docker's form; limits that CRI omits are omitted. The pod's cgroup limits huge pages."""
    asked = container_resources(resources, machine)
    memory, cpu = asked.get("memory", {}), asked.get("cpu", {})
    found = {
        "Memory": memory.get("limit"),
        "MemorySwap": memory.get("swap"),
        "CpuShares": cpu.get("shares"),
        "CpuQuota": cpu.get("quota"),
        "CpuPeriod": cpu.get("period"),
        "CpusetCpus": cpu.get("cpus"),
        "CpusetMems": cpu.get("mems"),
    }
    return {name: value for name, value in found.items() if value is not None}


def _common(cgroup_parent: str, logs: LogLimits, machine: Machine) -> Body:
    """Return the fields that all containers share. With systemd, Docker expects only the name of the parent slice."""
    kept = {"max-size": str(logs.size), "max-file": str(logs.files)} if logs.size else {}
    return {
        "CgroupParent": cgroup_parent.rpartition("/")[2] if machine.systemd_cgroups else cgroup_parent,
        "LogConfig": {"Type": "json-file", "Config": kept},
        "RestartPolicy": {"Name": "no"},
    }


def _process(config: cri.ContainerConfig) -> Body:
    security = config.linux.security_context
    body: Body = {
        "Env": [f"{each.key}={each.value.decode(errors='replace')}" for each in config.envs],
        "WorkingDir": config.working_dir,
        "User": _user(security),
        "Tty": config.tty,
        "OpenStdin": config.stdin,
        "StdinOnce": config.stdin_once,
        "Healthcheck": {"Test": ["NONE"]},
    }
    if config.command:
        body["Entrypoint"] = list(config.command)
    if config.args:
        body["Cmd"] = list(config.args)
    return body


def _user(security: cri.LinuxContainerSecurityContext) -> str:
    user = str(security.run_as_user.value) if security.HasField("run_as_user") else security.run_as_username
    return f"{user}:{security.run_as_group.value}" if user and security.HasField("run_as_group") else user


def _namespaces(request: cri.CreateContainerRequest) -> Body:
    """Return the namespaces. Network and IPC are the sandbox's, or the machine's if the pod requests that."""
    options, holder = request.config.linux.security_context.namespace_options, f"container:{request.pod_sandbox_id}"
    theirs = request.sandbox_config.linux.security_context.namespace_options
    modes: Body = {"NetworkMode": holder, "IpcMode": "host" if theirs.ipc == cri.NODE else holder}
    if theirs.network == cri.NODE:
        modes |= {"NetworkMode": "host", "UTSMode": "host"}
    if not request.config.linux.security_context.HasField("namespace_options"):
        return modes
    if options.pid == cri.POD:
        return modes | {"PidMode": holder}
    if options.pid == cri.TARGET:
        return modes | {"PidMode": f"container:{options.target_id}"}
    return modes | ({"PidMode": "host"} if options.pid == cri.NODE else {})


def _sandbox_mounts(config: cri.ContainerConfig, files: SandboxFiles) -> list[Body]:
    own = {each.container_path.rstrip("/") for each in config.mounts}
    paths = {"/etc/hostname": files.hostname, "/etc/hosts": files.hosts, "/etc/resolv.conf": files.resolv_conf}
    is_readonly = config.linux.security_context.readonly_rootfs
    return [_bind(source, target, readonly=is_readonly) for target, source in paths.items() if target not in own]


def _bind(source: Path, target: str, *, readonly: bool) -> Body:
    return {"Type": "bind", "Source": str(source), "Target": target, "ReadOnly": readonly}


def _mount(mount: cri.Mount, here: Here) -> Body:
    options: Mapping[str, Any] = {"Propagation": _PROPAGATION[mount.propagation]}
    if here.version >= RECURSIVE_READ_ONLY and mount.readonly:
        key = "ReadOnlyForceRecursive" if mount.recursive_read_only else "ReadOnlyNonRecursive"
        options = {**options, key: True}
    body = _bind(Path(mount.host_path), mount.container_path, readonly=mount.readonly)
    return body | {"BindOptions": options}


def _least_score(machine: Machine) -> int:
    return -1000 if "SYS_RESOURCE" in machine.capabilities else machine.oom_score_adj


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
    kind, path = asked_profile(attempt, security)
    if security.privileged or kind == cri.SecurityProfile.Unconfined:
        return [*options, "seccomp=unconfined"]
    if kind == cri.SecurityProfile.Localhost:
        return [*options, f"seccomp={_profile(attempt, Path(path))}"]
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
