"""Requests, images and machines for the tests."""

from pathlib import Path

from msgspec import Struct, structs

from modules.runtimes.oci.spec import CgroupLayout, Json, Machine, NamespacePaths, OciSpec, SandboxFiles, container_spec
from modules.runtimes.oci.spec.capability_names import NAMES
from protos.cri.v1 import api_pb2 as cri


class SampleImage(Struct, frozen=True):
    """What an image says of its process."""

    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ("/bin/sh",)
    environment: tuple[str, ...] = ()
    user: str = ""
    working_directory: str = ""
    stop_signal: str = ""
    volumes: tuple[str, ...] = ()


IMAGE = SampleImage()

UNIFIED = Machine(
    capabilities=frozenset(NAMES),
    known_capabilities=frozenset(NAMES),
    cgroup_layout=CgroupLayout.UNIFIED,
    cgroup_controllers=frozenset(("cpu", "cpuset", "io", "memory", "pids", "hugetlb")),
    swap_accounting=True,
    kernel=(6, 1),
    architecture="x86_64",
    hostname="edge-1",
    oom_score_adj=0,
    has_seccomp=True,
)
"""A machine of today with root's full capabilities."""
ROOTLESS = structs.replace(UNIFIED, cgroup_layout=CgroupLayout.LEGACY, cgroup_controllers=frozenset(), rootless=True)
"""The same for an ordinary user."""
DELEGATED = structs.replace(UNIFIED, cgroup_controllers=frozenset(("cpu", "memory", "pids")), rootless=True)
"""The same with the controllers that systemd delegates to users."""

FILES = SandboxFiles(Path("/sb/hostname"), Path("/sb/hosts"), Path("/sb/resolv.conf"), Path("/sb/shm"))
PATHS = NamespacePaths(network=Path("/ns/net"), ipc=Path("/ns/ipc"), uts=Path("/ns/uts"), pid=Path("/proc/7/ns/pid"))
ID = "c" * 64


def request(config: cri.ContainerConfig | None = None, *, privileged: bool = False) -> cri.CreateContainerRequest:
    """Return a request for a container, with a name, in a sandbox of a pod."""
    made = cri.CreateContainerRequest(
        pod_sandbox_id="5" * 64,
        config=config or cri.ContainerConfig(),
        sandbox_config=cri.PodSandboxConfig(
            metadata=cri.PodSandboxMetadata(name="web", namespace="shop", uid="u-1"),
            hostname="web-host",
            linux=cri.LinuxPodSandboxConfig(
                cgroup_parent="/kubepods/podu-1",
                security_context=cri.LinuxSandboxSecurityContext(privileged=privileged),
            ),
        ),
    )
    if not made.config.metadata.name:
        made.config.metadata.name = "main"
    return made


def linux(
    security: cri.LinuxContainerSecurityContext | None = None,
    resources: cri.LinuxContainerResources | None = None,
    **fields: object,
) -> cri.ContainerConfig:
    """Return a container's configuration with these settings for Linux."""
    config = cri.ContainerConfig(**fields)  # type: ignore[arg-type]
    config.linux.security_context.CopyFrom(security or cri.LinuxContainerSecurityContext())
    if resources is not None:
        config.linux.resources.CopyFrom(resources)
    return config


def translated(
    config: cri.ContainerConfig,
    rootfs: Path,
    image: SampleImage = IMAGE,
    machine: Machine = UNIFIED,
    *,
    privileged: bool = False,
) -> OciSpec:
    """Return the specification of a container."""
    asked = request(config, privileged=privileged)
    return container_spec(asked, image, rootfs, PATHS, FILES, machine, container_id=ID)


def mount_at(config: Json, destination: str) -> Json:
    """Return the one mount at a path."""
    (found,) = [mount for mount in config["mounts"] if mount["destination"] == destination]
    return dict(found)
