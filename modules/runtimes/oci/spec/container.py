"""From a CRI container to its config.json."""

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from modules.runtimes.engine.errors import BadRequestError
from modules.runtimes.oci.spec.apparmor import container_apparmor
from modules.runtimes.oci.spec.capabilities import container_capabilities
from modules.runtimes.oci.spec.cdi import with_cdi_devices
from modules.runtimes.oci.spec.checks import attempt_of
from modules.runtimes.oci.spec.devices import container_devices
from modules.runtimes.oci.spec.machine import Machine
from modules.runtimes.oci.spec.model import (
    ImageDefaults,
    ImageVolume,
    Json,
    LinuxUser,
    NamespacePaths,
    OciSpec,
    SandboxFiles,
)
from modules.runtimes.oci.spec.mounts import container_mounts, reported_mounts, rootfs_propagation
from modules.runtimes.oci.spec.namespaces import container_namespaces, namespace_options, sets_hostname
from modules.runtimes.oci.spec.process import command_line, environment, working_directory
from modules.runtimes.oci.spec.resources import cgroups_path, container_resources, oom_score_adj
from modules.runtimes.oci.spec.seccomp import container_seccomp
from modules.runtimes.oci.spec.selinux import selinux_labels
from modules.runtimes.oci.spec.users import may_have_entry, resolve_linux_user
from protos.cri.v1 import api_pb2 as cri

OCI_VERSION: Final = "1.0.2"
"""A version that all releases of crun and runc take; crun 1.8 refuses anything after 1.1.0."""

_NO_VOLUMES: Final[Mapping[str, ImageVolume]] = MappingProxyType({})
_NONE_DECLARED: Final[Mapping[str, Path]] = MappingProxyType({})


def container_spec(
    request: cri.CreateContainerRequest,
    image: ImageDefaults,
    rootfs: Path,
    namespaces: NamespacePaths,
    files: SandboxFiles,
    machine: Machine,
    *,
    container_id: str,
    volumes: Mapping[str, ImageVolume] = _NO_VOLUMES,
    declared: Mapping[str, Path] = _NONE_DECLARED,
) -> OciSpec:
    """Return the specification of a container that `check_container` has accepted.

    Args:
        request: CRI's.
        image: the image's settings for its process.
        rootfs: the container's root file system, mounted.
        namespaces: the sandbox's.
        files: the sandbox's.
        machine: this one.
        container_id: names the container's control group.
        volumes: image volumes by their reference in the request (`mount.image.image`).
        declared: directories for the volumes that the image declares, by their paths in the container.

    Host paths that are missing are made, as directories.

    Raises:
        BadRequestError: the image has no such user, is dangerous, or has no such path.
        WrongStateError: something has changed since the check.
    """
    config, attempt = request.config, attempt_of(request.config)
    options = namespace_options(request, namespaces)
    _check_rootfs(attempt, rootfs)
    user = resolve_linux_user(rootfs, config.linux.security_context, image.user)
    spec: Json = {
        "ociVersion": OCI_VERSION,
        "root": {"path": str(rootfs), "readonly": config.linux.security_context.readonly_rootfs},
        "process": _process(attempt, request, image, user, machine, has_entry=may_have_entry(config, user)),
        "mounts": container_mounts(
            attempt,
            config,
            rootfs,
            files,
            volumes,
            declared,
            has_host_ipc=options.ipc == cri.NODE,
            machine=machine,
        ),
        "linux": {
            "namespaces": container_namespaces(
                attempt, options, namespaces, machine, privileged=config.linux.security_context.privileged
            ),
            **_linux(attempt, request, machine, container_id),
        },
        "annotations": _annotations(request),
    }
    if sets_hostname(options, namespaces):
        spec["hostname"] = _hostname(request, machine)
    spec = with_cdi_devices(attempt, spec, config, machine)
    return OciSpec(config=spec, user=user, mounts=reported_mounts(config, volumes))


def _check_rootfs(attempt: str, rootfs: Path) -> None:
    """Refuse an image whose mount points are links: crun before 1.28 follows one at /dev out of the container."""
    for name in ("dev", "proc", "sys"):
        try:
            mode = os.lstat(f"{rootfs}/{name}").st_mode
        except FileNotFoundError:
            continue
        if not stat.S_ISDIR(mode):
            raise BadRequestError(attempt, f"/{name} of the image is no directory", "use another image")


def _process(
    attempt: str,
    request: cri.CreateContainerRequest,
    image: ImageDefaults,
    user: LinuxUser,
    machine: Machine,
    *,
    has_entry: bool,
) -> Json:
    config = request.config
    security = config.linux.security_context
    process: Json = {
        "terminal": config.tty,
        "user": {"uid": user.uid, "gid": user.gid, "additionalGids": list(user.groups)},
        "args": command_line(attempt, config, image),
        "env": environment(config, image, _hostname(request, machine), has_entry=has_entry),
        "cwd": working_directory(config, image),
        "capabilities": container_capabilities(security, machine),
        "noNewPrivileges": security.no_new_privs,
    }
    if profile := container_apparmor(attempt, security, machine):
        process["apparmorProfile"] = profile
    if label := selinux_labels(security, machine).process:
        process["selinuxLabel"] = label
    score = oom_score_adj(config, machine)
    if score is not None:
        process["oomScoreAdj"] = score
    return process


def _hostname(request: cri.CreateContainerRequest, machine: Machine) -> str:
    return request.sandbox_config.hostname or machine.hostname


def _linux(
    attempt: str,
    request: cri.CreateContainerRequest,
    machine: Machine,
    container_id: str,
) -> Json:
    config = request.config
    security = config.linux.security_context
    devices, rules = container_devices(attempt, config, machine)
    linux: Json = {
        "cgroupsPath": cgroups_path(attempt, request.sandbox_config.linux.cgroup_parent, container_id, machine),
        "resources": {"devices": rules, **container_resources(config.linux.resources, machine)},
        "devices": devices,
        "maskedPaths": [] if security.privileged else list(security.masked_paths),
        "readonlyPaths": [] if security.privileged else list(security.readonly_paths),
    }
    if seccomp := container_seccomp(attempt, security, machine):
        linux["seccomp"] = seccomp
    if label := selinux_labels(security, machine).files:
        linux["mountLabel"] = label
    if propagation := rootfs_propagation(config):
        linux["rootfsPropagation"] = propagation
    return linux


def _annotations(request: cri.CreateContainerRequest) -> dict[str, str]:
    """Return the annotations that hooks and debuggers look for, under containerd's names."""
    sandbox = request.sandbox_config.metadata
    named = {
        "container-type": "container",
        "sandbox-id": request.pod_sandbox_id,
        "container-name": request.config.metadata.name,
        "image-name": request.config.image.user_specified_image or request.config.image.image,
        "sandbox-name": sandbox.name,
        "sandbox-namespace": sandbox.namespace,
        "sandbox-uid": sandbox.uid,
    }
    return {f"io.kubernetes.cri.{key}": value for key, value in named.items()}
