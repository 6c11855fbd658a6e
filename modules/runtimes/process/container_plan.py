"""Converts a CRI container configuration to the shim's ContainerSpec: makes all decisions before any action."""

import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import PurePosixPath

from modules.runtimes.engine.errors import BadRequestError, MountPlanError, NotProvidedError, WrongStateError
from modules.runtimes.process.model import ProcessContainer
from modules.runtimes.process.mount_plan import BindMount, HostView, PathKind, plan_mounts
from modules.runtimes.process.shim_spawner import MountAbility
from modules.runtimes.process.users import resolve_user
from modules.runtimes.shim.protocol import TERM, ContainerSpec, Namespacing, ProcessSpec, Step, UserSpec
from protos.cri.v1 import api_pb2 as cri

_HOSTS, _PODS_HOSTS = "/etc/hosts", "etc-hosts"
_TOKEN, _TOKEN_VOLUME = "/var/run/secrets/kubernetes.io/serviceaccount", "kube-api-access-"
"""Where the API server mounts a token in each container, and the beginning of that volume's name."""
_MESSAGE_PATH = "io.kubernetes.container.terminationMessagePath"
"""Annotation of a container, set by kubelet."""
_DEVICES = PurePosixPath("/dev")

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def check_request(request: cri.CreateContainerRequest) -> None:
    """Refuse a container that can never run. Raises BadRequestError or NotProvidedError."""
    config = request.config
    attempt = f'create container "{config.metadata.name}"'
    if not config.command:
        name = config.image.user_specified_image or config.image.image
        reason = f'it has no command, and the image "{name[:200]}" is only a name here: containers are plain processes'
        hint = "give `command:`, a program of this machine; for images `edgecore doctor` names what isolates containers"
        raise BadRequestError(attempt, reason, hint)
    texts = [*config.command, *config.args, config.working_dir, *(env.key for env in config.envs)]
    if any("\0" in text for text in texts) or any(b"\0" in env.value for env in config.envs):
        raise BadRequestError(attempt, "a NUL character in command, arguments, directory or environment")
    if any(not env.key or "=" in env.key for env in config.envs):
        raise BadRequestError(attempt, "an environment variable's name is empty or holds '='")
    if config.working_dir and not config.working_dir.startswith("/"):
        raise BadRequestError(attempt, f'the working directory "{config.working_dir}" is not absolute')
    _check_log_path(attempt, config.log_path)
    for mount in config.mounts:
        if not _is_optional(config, mount):
            _check_mount(attempt, mount)


def _check_log_path(attempt: str, path: str) -> None:
    if path.startswith("/") or ".." in PurePosixPath(path).parts:
        raise BadRequestError(attempt, f'the log path "{path}" leaves the log directory of the pod')


def _check_mount(attempt: str, mount: cri.Mount) -> None:
    paths = (PurePosixPath(mount.container_path), PurePosixPath(mount.host_path))
    if any(not path.is_absolute() or ".." in path.parts for path in paths):
        reason = f'the mount of "{mount.host_path}" at "{mount.container_path}" needs absolute paths without ".."'
        raise BadRequestError(attempt, reason)
    if mount.HasField("image") and mount.image.image:
        raise NotProvidedError(attempt, "image volumes: this runtime has no images")
    if mount.propagation == cri.PROPAGATION_BIDIRECTIONAL:
        raise NotProvidedError(attempt, "bidirectional mount propagation: containers have private mounts")
    if mount.recursive_read_only:
        raise NotProvidedError(attempt, "recursive read-only mounts")


def container_user(config: cri.ContainerConfig, namespacing: Namespacing) -> UserSpec | None:
    """Return the user that the container runs as; None for edgecore's own user."""
    return resolve_user(config.linux.security_context, os.geteuid(), namespacing)


def needs_mounts(config: cri.ContainerConfig, host: HostView) -> bool:
    """Return whether a container needs a private root: for volumes, renamed devices, a missing working directory."""
    return any(_volumes(config)) or any(_missing_directories(config, host))


def has_optional_mounts(config: cri.ContainerConfig) -> bool:
    """Return whether the container has an optional mount: the pod's /etc/hosts, or the termination message file.
    Without mounts it runs too.
    """
    return any(_is_optional(config, mount) for mount in config.mounts)


def missing_mount_point(config: cri.ContainerConfig, host: HostView) -> PurePosixPath | None:
    """Return the termination message file if it is in /dev and missing, usually /dev/termination-log. A mount point
    made in memory would hide from the container that devices come and go.
    """
    path = PurePosixPath(config.annotations.get(_MESSAGE_PATH, ""))
    is_missing = path.parent == _DEVICES and host.kind(path) is PathKind.MISSING
    return path if is_missing and has_optional_mounts(config) else None


def require_mounts(config: cri.ContainerConfig, ability: MountAbility) -> None:
    """Raise WrongStateError when this machine does not let containers have mounts."""
    if ability.namespacing:
        return
    raise WrongStateError(
        f'create container "{config.metadata.name}"',
        f"it has volumes, and this machine does not permit private mounts: {ability.reason}",
        "allow user namespaces (sysctl user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns), "
        "run edgecore as root, or use containerd",
    )


def plan_container(container: ProcessContainer, ability: MountAbility, host: HostView) -> ContainerSpec:
    """Return the specification for the shim. Raises MountPlanError when a volume cannot be placed."""
    config = container.config
    namespacing, steps = _private_root(container, ability, host)
    resources = config.linux.resources
    return ContainerSpec(
        directory=str(container.directory),
        log=container.log_path,
        namespacing=namespacing,
        steps=steps,
        process=_plan_process(container, namespacing),
        terminal=config.tty,
        stdin=config.stdin,
        stdin_once=config.stdin_once,
        oom_score_adj=resources.oom_score_adj if config.linux.HasField("resources") else None,
    )


def _private_root(container: ProcessContainer, ability: MountAbility, host: HostView) -> tuple[Namespacing, list[Step]]:
    """Return the kind of namespace and the steps that build the private root. Both are empty without volumes, unless
    root can mount the optional files: a user namespace has a price, set-user-id programs have no effect in it.
    """
    config = container.config
    volumes, directories = list(_volumes(config)), list(_missing_directories(config, host))
    is_needed = bool(volumes or directories)
    root = PurePosixPath(container.root)
    if ability.namespacing == "mount" or (ability.namespacing and is_needed):
        optional = list(_optional_volumes(config, host))
        with suppress(MountPlanError):
            if optional or is_needed:
                return ability.namespacing, plan_mounts([*volumes, *optional], directories, host, root)
    if not is_needed:
        return "", []
    return ability.namespacing, plan_mounts(volumes, directories, host, root)


def _plan_process(container: ProcessContainer, namespacing: Namespacing) -> ProcessSpec:
    config = container.config
    return ProcessSpec(
        argv=[*config.command, *config.args],
        env=_environment(container),
        cwd=config.working_dir or str(container.work),
        user=container_user(config, namespacing),
        no_new_privileges=config.linux.security_context.no_new_privs,
    )


def _environment(container: ProcessContainer) -> dict[str, str]:
    """Return the configured variables, over PATH, HOSTNAME and HOME, which hardly any process can do without."""
    hostname = container.request.sandbox_config.hostname or socket.gethostname()
    given = {env.key: os.fsdecode(env.value) for env in container.config.envs}
    terminal = {"TERM": TERM} if container.config.tty else {}
    return {"PATH": DEFAULT_PATH, "HOSTNAME": hostname, "HOME": str(container.work), **terminal, **given}


def _volumes(config: cri.ContainerConfig) -> Iterator[BindMount]:
    for mount in config.mounts:
        if not _is_optional(config, mount):
            yield _volume(mount)
    for device in config.devices:
        if device.container_path != device.host_path:
            yield BindMount(PurePosixPath(device.container_path), PurePosixPath(device.host_path), readonly=False)


def _optional_volumes(config: cri.ContainerConfig, host: HostView) -> Iterator[BindMount]:
    """Yield the optional mounts that have a mount point, and the files that one may be made for in memory. For a token
    none is made: all of /run would be replaced for that.
    """
    for mount in config.mounts:
        path = PurePosixPath(mount.container_path)
        is_plain = path.is_absolute() and ".." not in path.parts
        needs_point = _DEVICES in path.parents or mount.container_path == _TOKEN
        has_point = is_plain and (not needs_point or host.kind(path) is not PathKind.MISSING)
        if _is_optional(config, mount) and has_point:
            yield _volume(mount)


def _is_optional(config: cri.ContainerConfig, mount: cri.Mount) -> bool:
    """Return whether edged or the API server gives this to every container. If the pod mounts a volume there instead,
    the source has another name.
    """
    source = PurePosixPath(mount.host_path).name
    is_hosts = mount.container_path == _HOSTS and source == _PODS_HOSTS
    is_token = mount.container_path == _TOKEN and source.startswith(_TOKEN_VOLUME)
    return is_hosts or is_token or mount.container_path == config.annotations.get(_MESSAGE_PATH)


def _volume(mount: cri.Mount) -> BindMount:
    return BindMount(PurePosixPath(mount.container_path), PurePosixPath(mount.host_path), mount.readonly)


def _missing_directories(config: cri.ContainerConfig, host: HostView) -> Iterator[PurePosixPath]:
    path = PurePosixPath(config.working_dir)
    if config.working_dir and host.kind(path) is PathKind.MISSING:
        yield path
