"""Sandboxes, containers and their usage as CRI messages, and the filters of the listings."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from modules.runtimes.engine.errors import BadRequestError
from modules.runtimes.engine.model import POD_UID, RuntimeContainer, Sandbox
from protos.cri.v1 import api_pb2 as cri


def sandbox_status(sandbox: Sandbox) -> cri.PodSandboxStatus:
    """Return the full status of a sandbox."""
    config = sandbox.config
    status = cri.PodSandboxStatus(
        id=sandbox.id,
        metadata=config.metadata,
        state=sandbox.state,
        created_at=sandbox.record.created_at,
        network=cri.PodSandboxNetworkStatus(
            ip=sandbox.record.ip, additional_ips=[cri.PodIP(ip=ip) for ip in sandbox.record.additional_ips]
        ),
        linux=cri.LinuxPodSandboxStatus(
            namespaces=cri.Namespace(options=config.linux.security_context.namespace_options)
        ),
        runtime_handler=sandbox.request.runtime_handler,
    )
    _describe(status, config)
    return status


def sandbox_listing(sandbox: Sandbox) -> cri.PodSandbox:
    """Return the sandbox's item in ListPodSandbox."""
    config = sandbox.config
    item = cri.PodSandbox(
        id=sandbox.id,
        metadata=config.metadata,
        state=sandbox.state,
        created_at=sandbox.record.created_at,
        runtime_handler=sandbox.request.runtime_handler,
    )
    _describe(item, config)
    return item


def container_status(container: RuntimeContainer) -> cri.ContainerStatus:
    """Return the full status of a container."""
    config, run, exit_ = container.config, container.run, container.exit
    status = cri.ContainerStatus(
        id=container.id,
        metadata=config.metadata,
        state=container.state,
        created_at=container.record.created_at,
        started_at=run.started_at if run else 0,
        finished_at=exit_.finished_at if exit_ else 0,
        exit_code=exit_.exit_code if exit_ else 0,
        reason=exit_.reason if exit_ else "",
        message=exit_.message if exit_ else "",
        image=cri.ImageSpec(image=_image_name(config)),
        image_ref=container.image_ref,
        image_id=container.image_id,
        mounts=container.mounts,
        log_path=container.log_path,
        resources=cri.ContainerResources(linux=config.linux.resources),
        stop_signal=config.stop_signal,
        user=container.user,
    )
    _describe(status, config)
    return status


def container_listing(container: RuntimeContainer) -> cri.Container:
    """Return the container's item in ListContainers."""
    config = container.config
    item = cri.Container(
        id=container.id,
        pod_sandbox_id=container.sandbox_id,
        metadata=config.metadata,
        image=config.image,
        image_ref=container.image_ref,
        image_id=container.image_id,
        state=container.state,
        created_at=container.record.created_at,
    )
    _describe(item, config)
    return item


def _describe(
    message: cri.PodSandboxStatus | cri.PodSandbox | cri.ContainerStatus | cri.Container,
    config: cri.PodSandboxConfig | cri.ContainerConfig,
) -> None:
    """Copy labels and annotations, each in a loop: `update` and `MergeFrom` of protobuf's maps are Python's."""
    for copied, given in (message.labels, config.labels), (message.annotations, config.annotations):
        for key in given:
            copied[key] = given[key]


def pod_in(selector: Mapping[str, str]) -> str | None:
    """Return the uid of the pod that a selector asks for; None for the objects of all pods."""
    return selector.get(POD_UID)


def has_labels(labels: Mapping[str, str], selector: Mapping[str, str]) -> bool:
    """Return whether `labels` has all labels of the selector with the same values.

    Each list of one pod's objects asks this of all objects. A loop over protobuf's map takes a third of the time of a
    generator over its items.
    """
    for key in selector:  # noqa: SIM110 - see above
        if labels.get(key) != selector[key]:
            return False
    return True


def sandbox_matches(sandbox: Sandbox, wanted: cri.PodSandboxFilter) -> bool:
    """Return whether the ListPodSandbox filter accepts the sandbox; an empty field accepts all."""
    return (
        wanted.id in ("", sandbox.id)
        and (not wanted.HasField("state") or wanted.state.state == sandbox.state)
        and has_labels(sandbox.config.labels, wanted.label_selector)
    )


def container_matches(container: RuntimeContainer, wanted: cri.ContainerFilter) -> bool:
    """Return whether the ListContainers filter accepts the container."""
    return (
        wanted.id in ("", container.id)
        and wanted.pod_sandbox_id in ("", container.sandbox_id)
        and (not wanted.HasField("state") or wanted.state.state == container.state)
        and has_labels(container.config.labels, wanted.label_selector)
    )


def container_stats(
    container: RuntimeContainer,
    cpu: cri.CpuUsage,
    memory: cri.MemoryUsage,
    writable_layer: cri.FilesystemUsage | None = None,
) -> cri.ContainerStats:
    """Return the usage of a container."""
    return cri.ContainerStats(
        attributes=cri.ContainerAttributes(
            id=container.id,
            metadata=container.config.metadata,
            labels=container.config.labels,
            annotations=container.config.annotations,
        ),
        cpu=cpu,
        memory=memory,
        writable_layer=writable_layer,
    )


def sandbox_stats(
    sandbox: Sandbox,
    cpu: cri.CpuUsage,
    memory: cri.MemoryUsage,
    processes: int | None,
    containers: Iterable[cri.ContainerStats],
) -> cri.PodSandboxStats:
    """Return the usage of a pod, and of each of its containers."""
    return cri.PodSandboxStats(
        attributes=cri.PodSandboxAttributes(
            id=sandbox.id,
            metadata=sandbox.config.metadata,
            labels=sandbox.config.labels,
            annotations=sandbox.config.annotations,
        ),
        linux=cri.LinuxPodSandboxStats(
            cpu=cpu,
            memory=memory,
            process=cri.ProcessUsage(timestamp=cpu.timestamp, process_count=value_of(processes)),
            containers=containers,
        ),
    )


def cpu_usage(at: int, nanoseconds: int | None) -> cri.CpuUsage:
    """Return the processor time since the start; `at` in nanoseconds since the epoch."""
    return cri.CpuUsage(timestamp=at, usage_core_nano_seconds=value_of(nanoseconds))


def value_of(number: int | None) -> cri.UInt64Value:
    """Return a number as CRI's; 0 for an unknown one."""
    return cri.UInt64Value(value=number or 0)


def _image_name(config: cri.ContainerConfig) -> str:
    return config.image.user_specified_image or config.image.image


def whole_file_system(root: Path, now: int) -> cri.ImageFsInfoResponse:
    """Return the usage of the file system of a directory, which images and containers share. Raises OSError."""
    found = os.statvfs(root)
    usage = cri.FilesystemUsage(
        timestamp=now,
        fs_id=cri.FilesystemIdentifier(mountpoint=str(root)),
        used_bytes=cri.UInt64Value(value=(found.f_blocks - found.f_bfree) * found.f_frsize),
        inodes_used=cri.UInt64Value(value=found.f_files - found.f_ffree),
    )
    return cri.ImageFsInfoResponse(image_filesystems=[usage], container_filesystems=[usage])


def required_name(image: cri.ImageSpec) -> str:
    """Return the name of the image in a request. Raises BadRequestError without one."""
    if not image.image:
        raise BadRequestError("find an image", "the request names none")
    return image.image
