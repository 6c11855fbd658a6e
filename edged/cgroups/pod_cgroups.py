"""The control groups of pods (kubelet's pod container manager)."""

import threading

from edged.cgroups.names import CgroupNames, CgroupPath
from edged.cgroups.resource_config import (
    ResourceConfig,
    milli_cpu_of_class,
    resource_config_for_class,
    resource_config_for_pod,
)
from edged.cgroups.tree import CgroupTree
from edged.pods.config.resources import HostResources
from edged.pods.labels import ref_of
from edged.pods.model import PodUid
from edged.settings.cgroups import CgroupSettings
from modules.apimachinery.pods.qos import QosClass, qos_class
from modules.apimachinery.types import Pod


class PodCgroups:
    """The manager of pods' cgroups. Several workers use it at the same time, each for another pod.

    A pod's cgroup is made before its sandbox and removed after its last container. The weight of a class is the sum of
    its pods, so each new, changed or removed pod may change it (kubelet's UpdateQOSCgroups).

    Only cgroups with the uid of a pod that has files here are removed. Cgroups of other agents below the same root are
    never touched, whereas kubelet's cleanupOrphanedPodCgroups removes unknown ones. An orphan has files (see
    `edged.sync.orphans`), and its cgroup is removed before them.

    Args:
        settings: of this node.
        tree: the machine's cgroups; None without cgroups for pods.
        machine: the facts that resources depend on.
    """

    def __init__(self, settings: CgroupSettings, tree: CgroupTree | None, machine: HostResources) -> None:
        self._settings = settings
        self._tree = tree
        self._machine = machine
        self._names = CgroupNames(settings.driver, settings.root)
        self._set: dict[PodUid, tuple[CgroupPath, ResourceConfig]] = {}
        self._removed: set[PodUid] = set()
        """Pods whose cgroups were removed, until they are gone: their resources are released more than once."""
        self._cpu_requests: dict[PodUid, int] = {}
        self._weight: ResourceConfig | None = None
        self._lock = threading.Lock()

    def parent(self, pod: Pod) -> str:
        """Return the parent cgroup of the pod's containers for the runtime; empty for the runtime's default."""
        return self._names.of_pod(ref_of(pod).uid, qos_class(pod)) if self._tree is not None else ""

    def apply(self, pod: Pod, *, anew: bool = False) -> None:
        """Make the pod's cgroup if it is missing, and set its limits. Raises CgroupError.

        An unchanged cgroup is skipped unless `anew` is set.
        """
        if self._tree is None:
            return
        uid, qos = ref_of(pod).uid, qos_class(pod)
        path, limits = self._names.of_pod(uid, qos), resource_config_for_pod(pod, self._machine, self._settings.pids)
        if not anew and self._set.get(uid) == (path, limits):
            return
        self._removed.discard(uid)
        self._set.pop(uid, None)  # until all has been set
        self._tree.make(path)
        self._tree.set(path, limits)
        self._request_cpu(uid, milli_cpu_of_class(pod, qos))
        self._set[uid] = (path, limits)

    def remove(self, uid: PodUid) -> None:
        """Remove the pod's cgroup in whichever class; nothing if that was done. Raises CgroupError, CgroupBusyError."""
        if self._tree is None or uid in self._removed:
            return
        for path in self._names.of_pod_anywhere(uid):
            self._tree.remove(path)
        self._set.pop(uid, None)
        self._request_cpu(uid, 0)
        self._removed.add(uid)

    def forget_pod(self, uid: PodUid) -> None:
        """Forget a pod that has left the node."""
        self._removed.discard(uid)

    def _request_cpu(self, uid: PodUid, milli_cpu: int) -> None:
        """Store the CPU request of a pod, and set the class to the sum if it changed."""
        with self._lock:
            if milli_cpu:
                self._cpu_requests[uid] = milli_cpu
            else:
                self._cpu_requests.pop(uid, None)
            weight = resource_config_for_class(QosClass.BURSTABLE, sum(self._cpu_requests.values()))
            if self._tree is not None and weight != self._weight:
                self._tree.set(self._names.of_class(QosClass.BURSTABLE), weight)
                self._weight = weight
