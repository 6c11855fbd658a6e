"""Ends the pods of a node, through its container runtime, and removes their remains from the machine."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Final

from beehive import RealClock
from edged.cgroups.names import CgroupNames
from edged.cgroups.opening import machine_hierarchies
from edged.cri.client import CriClient
from edged.cri.contract import ContainerId, SandboxId
from edged.errors import EdgedError
from edged.pods.labels import POD_NAME, POD_NAMESPACE, POD_UID, TERMINATION_GRACE
from edged.pods.model import PodUid
from edged.settings.cgroups import CgroupSettings
from edged.volumes import KernelMounts, points_below
from modules.apimachinery.pods.qos import QosClass
from modules.processes.edgecore.config import EdgeCoreConfig
from modules.processes.edgecore.settings import edged_settings
from protos.cri.v1 import api_pb2 as pb

GRACE_SECONDS: Final = 5
"""Seconds between SIGTERM and SIGKILL for each container, or less where its pod says so."""

_REQUEST_SECONDS: Final = 60.0
_AT_ONCE: Final = 16
"""Pods that end at the same time."""
_MOST_DIGITS: Final = 10

Say = Callable[[str], None]


def end_pods(config: EdgeCoreConfig, uids: frozenset[str], say: Say) -> None:
    """End and remove the node's pods in the container runtime.

    Args:
        config: the node's.
        uids: pods that the node has had; others on a shared runtime stay. One inside edgecore has the node's only.
        say: called with each pod.

    Raises:
        EdgedError: the runtime does not answer, or cannot remove a pod; the others are removed.
    """
    with _runtime(config) as runtime:
        sandboxes: dict[str, list[pb.Container]] = {}
        for sandbox in runtime.list_pod_sandboxes():
            uid = sandbox.labels.get(POD_UID, "")
            if config.runs_container_runtime or (uid and uid in uids):
                say(f"end pod {sandbox.labels.get(POD_NAMESPACE, '?')}/{sandbox.labels.get(POD_NAME, sandbox.id)}")
                sandboxes[sandbox.id] = []
        for container in runtime.list_containers():
            if container.pod_sandbox_id in sandboxes:
                sandboxes[container.pod_sandbox_id].append(container)
        containers = [container for found in sandboxes.values() for container in found]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            _wait([pool.submit(_end_container, runtime, container) for container in containers])
            _wait([pool.submit(_remove_pod, runtime, sandbox, found) for sandbox, found in sandboxes.items()])


def _end_container(runtime: CriClient, container: pb.Container) -> None:
    """End a container within its pod's grace period, GRACE_SECONDS at most."""
    declared = container.annotations.get(TERMINATION_GRACE, "")
    own = int(declared) if declared.isdecimal() and len(declared) < _MOST_DIGITS else GRACE_SECONDS
    with suppress(EdgedError):  # it ends when it is removed
        runtime.stop_container(ContainerId(container.id), min(own, GRACE_SECONDS))


def _remove_pod(runtime: CriClient, sandbox: str, containers: Sequence[pb.Container]) -> None:
    """Remove a pod's containers and its sandbox. Raises EdgedError."""
    for container in containers:
        runtime.remove_container(ContainerId(container.id))
    runtime.stop_pod_sandbox(SandboxId(sandbox))
    runtime.remove_pod_sandbox(SandboxId(sandbox))


def _wait(calls: Sequence[Future[None]]) -> None:
    """Wait for all of the calls. Raises the error of the first that failed."""
    wait(calls)
    for call in calls:
        call.result()


def unmount_below(root: Path, say: Say) -> None:
    """Unmount the pods' volumes.

    Raises:
        VolumeError: one is in use.
    """
    mounts = KernelMounts()
    points = points_below(mounts, root)
    for point in points:
        say(f"unmount {point}")
    mounts.unmount(*points)


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
    with ExitStack() as stack:
        if config.runs_container_runtime:
            from modules.processes.edgecore.container_runtime import start_container_runtime  # noqa: PLC0415

            start_container_runtime(config, stack.enter_context(closing(RealClock())), stack)
        client = CriClient(config.runtime_endpoint, config.image_endpoint, request_timeout=_REQUEST_SECONDS)
        yield stack.enter_context(closing(client))
