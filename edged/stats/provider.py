"""Makes kubelet's Summary."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from beehive import Clock
from edged.api import Nanoseconds, Pod
from edged.cgroups.names import CgroupNames
from edged.cri.contract import ContainerRuntime
from edged.pods.labels import ref_of
from edged.pods.paths import PodPaths
from edged.pods.qos import qos_class
from edged.settings.cgroups import CgroupSettings
from edged.stats.cgroup_usage import CgroupUsage
from edged.stats.model import ContainerStats, FsStats, NodeStats, PodStats, RuntimeStats, Summary
from edged.stats.pod_disks import PodDisks
from edged.stats.pod_stats import by_pod, pod_stats
from edged.stats.procfs_usage import ProcfsUsage, file_system, taken
from edged.stats.usage import CpuRates, ResourceUsage, cpu_stats, memory_stats
from protos.cri.v1 import api_pb2 as cri

FRESH = 2.0
"""Seconds that a summary is reused. Less would make the average of processor time jump."""
DISK_PERIOD = 60.0
"""Seconds that a count of files holds (kubelet's volumeStatsAggPeriod)."""


class StatsProvider:
    """Makes the Summary of the node and its pods on request. Thread-safe.

    Nothing is measured without a request, and a fresh summary is reused, so that several requesters (a polling page,
    evictions) cost no more than one. A measurement calls the container runtime three times, for any number of pods.

    Args:
        node_name: of this node.
        paths: of pods and logs.
        clock: for the times of measurements.
        pods: returns the pods of this node.
        cgroups: settings, for their names.
        hierarchies: usage of cgroups; None when pods have none of their own.
        machine: usage of the machine.
    """

    def __init__(
        self,
        node_name: str,
        paths: PodPaths,
        clock: Clock,
        pods: Callable[[], tuple[Pod, ...]],
        *,
        cgroups: CgroupSettings,
        hierarchies: CgroupUsage | None,
        machine: ProcfsUsage | None = None,
    ) -> None:
        self._node_name = node_name
        self._root = paths.root
        self._clock = clock
        self._pods = pods
        self._names = CgroupNames(cgroups.driver, cgroups.root)
        self._hierarchies = hierarchies
        self._machine = machine or ProcfsUsage()
        self._disks = PodDisks(paths, clock, DISK_PERIOD)
        self._rates = CpuRates()
        self._lock = threading.Lock()
        self._last: dict[bool, tuple[float, Summary]] = {}

    def summary(self, runtime: ContainerRuntime, *, disk: bool = True, anew: bool = False) -> Summary:
        """Return the current usage, at most `FRESH` seconds old. Raises CriError.

        Args:
            runtime: the container runtime.
            disk: whether to count files; without it there are CPU and memory only.
            anew: measure again, files too, even if there is a fresh summary.
        """
        with self._lock:
            now = self._clock.monotonic()
            for whole in {True, disk}:
                made, summary = self._last.get(whole, (float("-inf"), None))
                if summary is not None and not anew and 0 <= now - made < FRESH:
                    return summary
            if anew:
                self._disks.keep(set())
            summary = self._measure(runtime, disk=disk)
            self._last = {disk: (now, summary)}
            return summary

    def _measure(self, runtime: ContainerRuntime, *, disk: bool) -> Summary:
        at = Nanoseconds(self._clock.now_ns())
        running = cri.ContainerFilter(state=cri.ContainerStateValue(state=cri.CONTAINER_RUNNING))
        ids = {container.id for container in runtime.list_containers(running)}
        runs = by_pod(runtime.list_container_stats(), ids)
        pods = self._pods()
        node_fs = file_system(self._root, at) if disk else None
        found = []
        for pod in pods:
            ref = ref_of(pod)
            counted = self._disks.of(ref) if disk else None
            found.append(
                pod_stats(
                    pod, runs.get(ref.uid, []), self._of_pod(pod, at), counted, rates=self._rates, node_fs=node_fs,
                    at=at,
                )
            )  # fmt: skip
        self._disks.keep({ref_of(pod).uid for pod in pods})
        images = _image_fs(runtime.image_fs_info(), at) if disk else None
        summary = Summary(self._node(at, node_fs, images), tuple(sorted(found, key=_order)))
        self._rates.rotate()
        return summary

    def _of_pod(self, pod: Pod, at: Nanoseconds) -> ResourceUsage | None:
        if self._hierarchies is None:
            return None
        return self._hierarchies.read(self._names.of_pod(ref_of(pod).uid, qos_class(pod)), at)

    def _node(self, at: Nanoseconds, node_fs: FsStats | None, images: FsStats | None) -> NodeStats:
        usage, agent = self._machine.node(at), self._machine.agent(at)
        pods = self._hierarchies.read(self._names.pods, at) if self._hierarchies is not None else None
        system = [self._system("kubelet", agent)]
        if pods is not None:
            system.append(self._system("pods", pods))
        return NodeStats(
            node_name=self._node_name,
            system_containers=tuple(system),
            start_time=self._machine.boot_time(),
            cpu=cpu_stats(usage, self._rates.nano_cores("node", usage)),
            memory=memory_stats(usage),
            network=self._machine.network(at),
            fs=node_fs,
            runtime=RuntimeStats(images, images) if images is not None else None,
            rlimit=self._machine.rlimit(at),
        )

    def _system(self, name: str, usage: ResourceUsage) -> ContainerStats:
        rate = self._rates.nano_cores(f"system/{name}", usage)
        return ContainerStats(name=name, cpu=cpu_stats(usage, rate), memory=memory_stats(usage))


def _image_fs(answers: Sequence[cri.FilesystemUsage], at: Nanoseconds) -> FsStats | None:
    """Return the first file system of images, with the images' usage of it from the runtime."""
    if not answers:
        return None
    answer = answers[0]
    whole = file_system(Path(answer.fs_id.mountpoint), at)
    return taken(whole, int(answer.used_bytes.value), int(answer.inodes_used.value), at)


def _order(stats: PodStats) -> tuple[str, str]:
    return stats.pod_ref.namespace, stats.pod_ref.name
