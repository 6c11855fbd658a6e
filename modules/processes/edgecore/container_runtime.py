"""The container runtime inside edgecore that a configuration selects."""

import os
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from beehive import Clock
from edged.errors import EdgedError
from edged.settings.cgroups import CgroupDriver
from modules.processes.edgecore.config import EdgeCoreConfig
from modules.processes.edgecore.rootless import is_rootless, leave_no_namespaces
from modules.processes.edgecore.runtime_kinds import RuntimeKind, of_kind, other_kinds

if TYPE_CHECKING:
    from modules.runtimes.cri_server.runtime_server import CriServer
    from modules.runtimes.docker.driver import DockerSettings
    from modules.runtimes.engine.driver import RuntimeSettings
    from modules.runtimes.oci.driver import OciSettings
    from modules.runtimes.oci.network.pod_network import PodNetwork

_REGISTRIES: Final = Path("/etc/containerd/certs.d")
"""The directory where containerd's users describe mirrors and certificates of registries."""


_OWNER_DIGITS: Final = 16
"""Length of the digest of a state directory, which distinguishes the pods of two agents."""


def start_container_runtime(
    config: EdgeCoreConfig, clock: Clock, stack: ExitStack, socket: Path | None = None
) -> "CriServer":
    """Start the runtime, which the stack stops, at another socket than the configured one if there is one.

    Raises EdgedError.
    """
    from modules.runtimes.engine.errors import ContainerRuntimeError  # noqa: PLC0415

    try:
        runtime = container_runtime(config, clock, socket)
        runtime.start()
    except ContainerRuntimeError as error:
        raise EdgedError(error.attempt, error.reason, error.hint) from error
    stack.callback(runtime.stop)
    return runtime


def container_runtime(config: EdgeCoreConfig, clock: Clock, socket: Path | None = None) -> "CriServer":
    """Return the runtime, not started. Only the chosen kind is imported.

    Raises:
        ContainerRuntimeError: the machine lacks a program.
    """
    from modules.runtimes.cri_server.runtime_server import CriServer  # noqa: PLC0415

    address = socket or config.container_runtime_socket
    return CriServer(config.container_runtime_root, address, clock, runtime_settings(config, clock))


def purge_kind(config: EdgeCoreConfig, kind: RuntimeKind, clock: Clock) -> None:
    """End and remove everything that one kind has made, and nothing of another; it must not run. Raises EdgedError."""
    from modules.runtimes.engine.errors import ContainerRuntimeError  # noqa: PLC0415

    try:
        purge_container_runtime(of_kind(config, kind), clock)
    except ContainerRuntimeError as error:
        raise EdgedError(error.attempt, error.reason, error.hint) from error


def purge_container_runtime(config: EdgeCoreConfig, clock: Clock) -> None:
    """Kill and remove everything that the runtime has made; it must not run. Raises ContainerRuntimeError."""
    from modules.runtimes.engine.engine import purge  # noqa: PLC0415

    purge(config.container_runtime_root, clock, runtime_settings(config, clock))
    if is_rootless(config):
        leave_no_namespaces(config)
    elif config.uses_oci_runtime or config.uses_docker_runtime:
        _remove_default_network(config, clock)


def runtime_settings(config: EdgeCoreConfig, clock: Clock) -> "RuntimeSettings[Any]":
    """Return the settings of the chosen kind. Raises ContainerRuntimeError."""
    if config.uses_docker_runtime:
        return docker_settings(config, clock)
    if config.uses_oci_runtime:
        return oci_settings(config, clock)
    from modules.runtimes.process.driver import ProcessSettings  # noqa: PLC0415

    return ProcessSettings()


def _remove_default_network(config: EdgeCoreConfig, clock: Clock) -> None:
    """Remove the pod network of edgecore's own and its firewall rules, unless pods of another kind, or of another agent
    on this machine, may need them.
    """
    from modules.runtimes.oci.network.default_network import DefaultNetwork  # noqa: PLC0415
    from modules.runtimes.oci.network.loopback_firewall import LoopbackFirewall  # noqa: PLC0415

    network = DefaultNetwork(clock)
    if all(each.kind is RuntimeKind.PROCESSES for each in other_kinds(config)) and not network.is_used():
        network.remove()
        LoopbackFirewall(clock).remove()


def oci_settings(config: EdgeCoreConfig, clock: Clock) -> "OciSettings":
    """Return the settings of the OCI runtime. Raises ContainerRuntimeError."""
    from modules.runtimes.oci.driver import OciSettings  # noqa: PLC0415
    from modules.runtimes.oci.programs import find_programs  # noqa: PLC0415

    edged = config.modules.edged
    driver = edged.tailored_kubelet_config.cgroup_driver
    keep_blobs = not edged.discard_unpacked_layers
    if is_rootless(config):
        from modules.runtimes.oci.rootless.settings import rootless_settings  # noqa: PLC0415

        ranges = edged.tailored_kubelet_config.pod_cidr
        archives = config.image_archives
        return rootless_settings(find_programs(), clock, ranges, _REGISTRIES, archives, keep_blobs=keep_blobs)
    return OciSettings(
        programs=find_programs(),
        network=_network(config, clock),
        registries=_REGISTRIES,
        archives=config.image_archives,
        systemd_cgroups=driver is CgroupDriver.SYSTEMD,
        keep_blobs=keep_blobs,
    )


def docker_settings(config: EdgeCoreConfig, clock: Clock) -> "DockerSettings":
    """Return the settings of Docker Engine as runtime. Docker keeps as much of a log as edged rotates at, twice."""
    from modules.runtimes.docker.driver import DockerSettings  # noqa: PLC0415
    from modules.runtimes.docker.specs import LogLimits  # noqa: PLC0415

    edged = config.modules.edged
    limits = LogLimits(edged.tailored_kubelet_config.container_log_max_size, 2)
    return DockerSettings(_network(config, clock), Path(edged.docker_address.removeprefix("unix://")), limits)


def _network(config: EdgeCoreConfig, clock: Clock) -> "PodNetwork":
    from modules.runtimes.oci.network.default_network import DefaultNetwork  # noqa: PLC0415
    from modules.runtimes.oci.network.pod_network import BINARY_DIRECTORIES, PodNetwork  # noqa: PLC0415

    edged = config.modules.edged
    ranges = edged.tailored_kubelet_config.pod_cidr
    default = DefaultNetwork(clock, ranges, routed=config.modules.edge_mesh.routed_pod_cidrs)
    owner = sha256(os.fsencode(config.container_runtime_root.absolute())).hexdigest()[:_OWNER_DIGITS]
    return PodNetwork(edged.cni_conf_dir, BINARY_DIRECTORIES, clock, default=default, ranges=ranges, owner=owner)
