"""Collects the metrics of pods and their containers for ListPodSandboxMetrics."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from beehive.clock import Clock
from edged.cgroups.hierarchies import read_hierarchies, with_unified_controllers
from modules.runtimes.engine.model import Sandbox
from modules.runtimes.oci.images import RootFilesystems
from modules.runtimes.oci.metrics.control_groups import GroupMetrics, device_name
from modules.runtimes.oci.metrics.descriptors import Sample, metrics
from modules.runtimes.oci.model import OciContainer
from modules.runtimes.oci.network.kernel import in_network_namespace
from modules.runtimes.oci.network.namespaces import PodNamespaces
from modules.runtimes.oci.stats import control_group
from protos.cri.v1 import api_pb2 as cri

_MOUNTINFO: Final = Path("/proc/self/mountinfo")
_DEV: Final = Path("/proc/thread-self/net/dev")
"""`/proc/self` is the main thread, which stays in the machine's network."""
_SECOND: Final = 1_000_000_000
_RECEIVE: Final = ("bytes", "packets", "errors", "packets_dropped")
"""The first columns of /proc/net/dev; the other direction's are the same, eight further."""
_TRANSMIT_AT: Final = 8
_MOST_INTERFACES: Final = 256

_MOST_PROCESSES: Final = 4096
_MOST_LINKS: Final = 16_384
"""Descriptors of a container that are looked at for sockets; more are counted only."""
_OPEN_FILES: Final = "Max open files"


def process_samples(processes: Sequence[int]) -> Iterator[Sample]:
    """Yield the metrics of processes; a process that has ended meanwhile has no descriptors and sockets."""
    descriptors, sockets = _descriptors(processes[:_MOST_PROCESSES])
    yield Sample("container_processes", len(processes))
    yield Sample("container_file_descriptors", descriptors)
    yield Sample("container_sockets", sockets)


def limit_samples(process: int) -> Iterator[Sample]:
    """Yield the soft limits of a process; -1 (unlimited) counts as 0."""
    try:
        lines = Path(f"/proc/{process}/limits").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        if line.startswith(_OPEN_FILES):
            soft = line.removeprefix(_OPEN_FILES).split()[0]
            yield Sample("container_ulimits_soft", int(soft) if soft.isdecimal() else 0, ("max_open_files",))


def _descriptors(processes: Sequence[int]) -> tuple[int, int]:
    descriptors = sockets = 0
    for process in processes:
        directory = f"/proc/{process}/fd"
        try:
            names = os.listdir(directory)  # noqa: PTH208
        except OSError:
            continue
        looked_at = max(0, _MOST_LINKS - descriptors)
        sockets += sum(_is_socket(f"{directory}/{name}") for name in names[:looked_at])
        descriptors += len(names)
    return descriptors, sockets


def _is_socket(path: str) -> bool:
    try:
        return os.readlink(path).startswith("socket:")  # noqa: PTH115
    except OSError:
        return False


class MetricsCollector:
    """Measures pods.

    Args:
        roots: has the containers' writable layers.
        namespaces: has the pods' networks.
        clock: for the time of a measurement.
    """

    def __init__(self, roots: RootFilesystems, namespaces: PodNamespaces, clock: Clock) -> None:
        self._roots = roots
        self._namespaces = namespaces
        self._clock = clock
        self._groups = GroupMetrics(with_unified_controllers(read_hierarchies(_MOUNTINFO.read_text())))

    def of_pod(self, sandbox: Sandbox, containers: Sequence[OciContainer]) -> cri.PodSandboxMetrics:
        """Return the metrics of a pod: its network's and its running containers'."""
        now = self._clock.now_ns()
        metadata = sandbox.config.metadata
        pod = (metadata.namespace, metadata.name)
        labels = ("", sandbox.config.linux.cgroup_parent, "", sandbox.id, *pod)
        return cri.PodSandboxMetrics(
            pod_sandbox_id=sandbox.id,
            metrics=metrics(list(self._network(sandbox)), labels, now),
            container_metrics=[
                self._container(each, pod, now) for each in containers if each.state == cri.CONTAINER_RUNNING
            ],
        )

    def _container(self, container: OciContainer, pod: tuple[str, str], now: int) -> cri.ContainerMetrics:
        pid = container.run.pid if container.run else 0
        group = control_group(pid, container.id)
        config = container.config
        labels = (config.metadata.name, group, config.image.user_specified_image or config.image.image, container.id)
        samples = [*_asked(config.linux.resources), *_disk(container.directory, self._roots)]
        if group:
            samples += [*self._groups.read(group), *process_samples(self._groups.processes(group)), *limit_samples(pid)]
        samples.append(Sample("container_last_seen", now // _SECOND))
        samples.append(
            Sample("container_start_time_seconds", container.run.started_at // _SECOND if container.run else 0)
        )
        return cri.ContainerMetrics(container_id=container.id, metrics=metrics(samples, (*labels, *pod), now))

    def _network(self, sandbox: Sandbox) -> Iterator[Sample]:
        """Yield the counters of a pod's interfaces; nothing for a pod on the machine's network."""
        pinned = self._namespaces.pinned(sandbox.id)
        if pinned is None or pinned.network is None:
            return
        try:
            lines = in_network_namespace(pinned.network, _DEV.read_text).splitlines()
        except OSError:  # the pod is being stopped
            return
        for line in lines[2 : 2 + _MOST_INTERFACES]:
            yield from _interface(line)


def _interface(line: str) -> Iterator[Sample]:
    """Yield the figures of a line of /proc/net/dev."""
    name, _, rest = line.partition(":")
    columns, label = rest.split(), (name.strip(),)
    if label == ("lo",) or len(columns) < _TRANSMIT_AT + len(_RECEIVE):
        return
    for number, kind in enumerate(_RECEIVE):
        yield Sample(f"container_network_receive_{kind}_total", int(columns[number]), label)
        yield Sample(f"container_network_transmit_{kind}_total", int(columns[_TRANSMIT_AT + number]), label)


def _disk(directory: Path, roots: RootFilesystems) -> Iterator[Sample]:
    """Yield the use of the writable layer, and the file system that it is on."""
    try:
        whole, device = os.statvfs(directory), directory.stat().st_dev
    except OSError:  # it is being removed
        return
    label = (device_name(os.major(device), os.minor(device)),)
    yield Sample("container_fs_usage_bytes", roots.usage(directory).bytes, label)
    yield Sample("container_fs_limit_bytes", whole.f_blocks * whole.f_frsize, label)
    yield Sample("container_fs_inodes_total", whole.f_files, label)
    yield Sample("container_fs_inodes_free", whole.f_favail, label)


def _asked(resources: cri.LinuxContainerResources) -> Iterator[Sample]:
    """Yield the limits that a container asks for."""
    yield Sample("container_spec_cpu_period", resources.cpu_period)
    yield Sample("container_spec_cpu_shares", resources.cpu_shares)
    yield Sample("container_spec_memory_limit_bytes", resources.memory_limit_in_bytes)
    yield Sample("container_spec_memory_reservation_limit_bytes", 0)
    yield Sample("container_spec_memory_swap_limit_bytes", resources.memory_swap_limit_in_bytes)
    if resources.cpu_quota > 0:
        yield Sample("container_spec_cpu_quota", resources.cpu_quota)
