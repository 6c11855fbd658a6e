"""Ends the pods of a node, through its container runtime, and removes their remains from the machine."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

from beehive import RealClock
from edged.cgroups.names import CgroupNames
from edged.cgroups.opening import machine_hierarchies
from edged.cri.client import CriClient
from edged.cri.contract import ContainerId, SandboxId
from edged.pods.labels import POD_NAME, POD_NAMESPACE, POD_UID
from edged.pods.model import PodUid
from edged.settings.cgroups import CgroupSettings
from edged.volumes import KernelMounts, points_below
from modules.apimachinery.pods.qos import QosClass
from modules.processes.edgecore.config import EdgeCoreConfig
from modules.processes.edgecore.settings import edged_settings

GRACE_SECONDS: Final = 5
"""Seconds between SIGTERM and SIGKILL for each container."""

_REQUEST_SECONDS: Final = 60.0

Say = Callable[[str], None]


def end_pods(config: EdgeCoreConfig, uids: frozenset[str], say: Say) -> None:
    """End and remove the node's pods in the container runtime.

    Args:
        config: the node's.
        uids: pods that the node has had; others on a shared runtime stay. One inside edgecore has the node's only.
        say: called with each pod.

    Raises:
        EdgedError: the runtime does not answer.
    """
    with _runtime(config) as runtime:
        for sandbox in runtime.list_pod_sandboxes():
            uid = sandbox.labels.get(POD_UID, "")
            if not (config.runs_container_runtime or (uid and uid in uids)):
                continue
            say(f"end pod {sandbox.labels.get(POD_NAMESPACE, '?')}/{sandbox.labels.get(POD_NAME, sandbox.id)}")
            for container in runtime.list_containers():
                if container.pod_sandbox_id == sandbox.id:
                    runtime.stop_container(ContainerId(container.id), GRACE_SECONDS)
                    runtime.remove_container(ContainerId(container.id))
            runtime.stop_pod_sandbox(SandboxId(sandbox.id))
            runtime.remove_pod_sandbox(SandboxId(sandbox.id))


def unmount_below(root: Path, say: Say) -> None:
    """Unmount the pods' volumes.

    Raises:
        VolumeError: one is in use.
    """
    mounts = KernelMounts()
    for point in points_below(mounts, root):
        say(f"unmount {point}")
        mounts.unmount(point)


def remove_cgroups(config: EdgeCoreConfig, uids: frozenset[str], say: Say) -> None:
    """Remove the pods' cgroups, and the cgroups of the classes and of all pods if no other pod is in them."""
    settings: CgroupSettings = edged_settings(config).cgroups
    if not settings.per_qos:
        return
    names = CgroupNames(settings.driver, settings.root)
    paths = [path for uid in sorted(uids) for path in names.of_pod_anywhere(PodUid(uid))]
    paths += [names.of_class(QosClass.BURSTABLE), names.of_class(QosClass.BEST_EFFORT), names.pods]
    for hierarchy in machine_hierarchies():
        for path in paths:
            directory = hierarchy.mount / path.lstrip("/")
            with suppress(OSError):  # it is in use, or missing
                directory.rmdir()
                say(f"remove cgroup {directory}")


@contextmanager
def _runtime(config: EdgeCoreConfig) -> Iterator[CriClient]:
    """Connect to the node's runtime; one inside edgecore is started for the time. Raises EdgedError."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    if not config.runs_container_runtime:
        client = CriClient(config.runtime_endpoint, config.image_endpoint, request_timeout=_REQUEST_SECONDS)
        try:
            yield client
        finally:
            client.close()
        return
    from modules.processes.edgecore.container_runtime import start_container_runtime  # noqa: PLC0415 - containerd

    clock = RealClock()
    with ExitStack() as stack:
        stack.callback(clock.close)
        start_container_runtime(config, clock, stack)
        client = CriClient(config.runtime_endpoint, config.image_endpoint, request_timeout=_REQUEST_SECONDS)
        try:
            yield client
        finally:
            client.close()
