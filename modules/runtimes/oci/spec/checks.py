"""Everything that is known to fail is refused when a sandbox or container is made, before anything runs."""

from pathlib import PurePosixPath
from typing import Final

from beehive.patterns import pattern
from modules.runtimes.engine.errors import BadRequestError
from modules.runtimes.oci.spec.apparmor import container_apparmor
from modules.runtimes.oci.spec.capabilities import check_capabilities
from modules.runtimes.oci.spec.cdi import check_cdi
from modules.runtimes.oci.spec.declared_volumes import declared_volumes
from modules.runtimes.oci.spec.devices import check_devices
from modules.runtimes.oci.spec.machine import Machine
from modules.runtimes.oci.spec.model import ImageDefaults
from modules.runtimes.oci.spec.mount_checks import check_mounts
from modules.runtimes.oci.spec.namespaces import check_namespaces
from modules.runtimes.oci.spec.paths import checked_path
from modules.runtimes.oci.spec.process import check_process
from modules.runtimes.oci.spec.resources import check_cgroup_parent, check_resources
from modules.runtimes.oci.spec.seccomp import check_seccomp
from modules.runtimes.oci.spec.selinux import check_selinux
from modules.runtimes.oci.spec.sysctls import check_sysctls
from modules.runtimes.oci.spec.users import check_user
from modules.runtimes.oci.spec.without_root import check_container_without_root
from protos.cri.v1 import api_pb2 as cri

_HOSTNAME: Final = pattern(r"[A-Za-z0-9_]([A-Za-z0-9_.-]{0,62}[A-Za-z0-9_])?")
_MOST: Final = 4096
"""Masked or read-only paths."""


def check_container(request: cri.CreateContainerRequest, image: ImageDefaults, machine: Machine) -> None:
    """Refuse a container that can never run.

    Raises:
        BadRequestError: the request is wrong.
        WrongStateError: this machine cannot do it.
        NotProvidedError: this runtime does not do it.
    """
    config = request.config
    attempt = attempt_of(config)
    _check_name(attempt, config.metadata.name)
    if config.log_path.startswith("/") or ".." in PurePosixPath(config.log_path).parts or "\0" in config.log_path:
        raise BadRequestError(attempt, f"the log path {config.log_path[:200]!r} leaves the log directory of the pod")
    check_process(attempt, config, image)
    check_mounts(attempt, config, machine)
    declared_volumes(attempt, config, image)
    check_devices(attempt, config)
    check_cdi(attempt, config, machine)
    check_resources(attempt, config.linux.resources, machine)
    check_cgroup_parent(attempt, request.sandbox_config.linux.cgroup_parent, machine)
    _check_security(attempt, request, machine)


def _check_security(attempt: str, request: cri.CreateContainerRequest, machine: Machine) -> None:
    security = request.config.linux.security_context
    if security.privileged and not request.sandbox_config.linux.security_context.privileged:
        raise BadRequestError(attempt, "no privileged container allowed in sandbox", "its sandbox must be privileged")
    check_namespaces(attempt, security.namespace_options, machine, of_sandbox=False)
    check_user(attempt, security)
    if machine.rootless:
        check_container_without_root(attempt, request.config, machine)
    check_capabilities(attempt, security.capabilities, machine)
    check_selinux(attempt, security.selinux_options)
    container_apparmor(attempt, security, machine)
    check_seccomp(attempt, security, machine)
    if max(len(security.masked_paths), len(security.readonly_paths)) > _MOST:
        raise BadRequestError(attempt, f"it has more than {_MOST} masked or read-only paths")
    for path in (*security.masked_paths, *security.readonly_paths):
        checked_path(attempt, path, "the masked or read-only path")


def check_sandbox(request: cri.RunPodSandboxRequest, machine: Machine) -> None:
    """Refuse a sandbox that cannot be made. Raises as `check_container`."""
    config = request.config
    attempt = f'run the sandbox of pod "{config.metadata.namespace[:100]}/{config.metadata.name[:100]}"'
    _check_name(attempt, config.metadata.name)
    security = config.linux.security_context
    check_namespaces(attempt, security.namespace_options, machine, of_sandbox=True)
    check_sysctls(attempt, config)
    check_cgroup_parent(attempt, config.linux.cgroup_parent, machine)
    check_selinux(attempt, security.selinux_options)
    if security.HasField("run_as_group") and not security.HasField("run_as_user"):
        raise BadRequestError(attempt, "runAsGroup without runAsUser", "give both")
    if config.hostname and not _HOSTNAME.fullmatch(config.hostname):
        raise BadRequestError(attempt, f"{config.hostname[:100]!r} is no hostname of at most 64 characters")
    if config.log_directory:
        checked_path(attempt, config.log_directory, "the log directory")


def attempt_of(config: cri.ContainerConfig) -> str:
    """Return the phrase that errors begin with."""
    return f'create container "{config.metadata.name[:100]}"'


def _check_name(attempt: str, name: str) -> None:
    if not name:
        raise BadRequestError(attempt, "it has no name in its metadata")
