"""The pods' control groups as workers use them: where a pod's is, what it is set to, and its end.

A pod's cgroup is made before its sandbox and removed after its last container. What a class is set to follows from the
pods in it, so every pod that comes, changes or goes may move the weight of its class (kubelet's UpdateQOSCgroups).

Ours is only what carries the uid of a pod that has files here: cgroups of other agents below the same root are never
touched, unlike a kubelet's cleanupOrphanedPodCgroups, which removes what it does not know. An orphan of ours has files
(see `edged.orphans`), and its cgroup goes before them.
"""

import threading

from edged.api import Pod
from edged.cgroups.limits import Limits, limits_of_class, limits_of_pod, milli_cpu_of_class
from edged.cgroups.names import CgroupPath, Names
from edged.cgroups.settings import CgroupSettings
from edged.cgroups.tree import Tree
from edged.pods.labels import ref_of
from edged.pods.model import PodUid
from edged.pods.qos import QosClass, qos_class
from edged.pods.resources import Machine


class PodCgroups:
    """See the module's docstring. Used by several workers at once, by each for another pod.

    Args:
        settings: of this node.
        tree: where they are made; None when this node has none for pods.
        machine: what resources depend on.
    """

    def __init__(self, settings: CgroupSettings, tree: Tree | None, machine: Machine) -> None:
        self._settings = settings
        self._tree = tree
        self._machine = machine
        self._names = Names(settings.driver, settings.root)
        self._set: dict[PodUid, tuple[CgroupPath, Limits]] = {}
        self._asked: dict[PodUid, int] = {}
        self._weight: Limits | None = None
        self._lock = threading.Lock()

    def parent(self, pod: Pod) -> str:
        """The cgroup in which the runtime is to make the pod's containers; empty: where it wants."""
        return self._names.of_pod(ref_of(pod).uid, qos_class(pod)) if self._tree is not None else ""

    def apply(self, pod: Pod, *, anew: bool = False) -> None:
        """Make the pod's cgroup when it is not there, and set it to what the pod is limited to. Raises CgroupError.

        What has been done already is not done again, unless `anew`.
        """
        if self._tree is None:
            return
        uid, qos = ref_of(pod).uid, qos_class(pod)
        path, limits = self._names.of_pod(uid, qos), limits_of_pod(pod, self._machine, self._settings.pids)
        if not anew and self._set.get(uid) == (path, limits):
            return
        self._tree.make(path)
        self._tree.set(path, limits)
        self._set[uid] = (path, limits)
        self._ask(uid, milli_cpu_of_class(pod, qos))

    def remove(self, uid: PodUid) -> None:
        """Remove the pod's cgroup, wherever it is. Raises CgroupError, CgroupBusyError."""
        if self._tree is None:
            return
        for path in self._names.of_pod_anywhere(uid):
            self._tree.remove(path)
        self._set.pop(uid, None)
        self._ask(uid, 0)

    def _ask(self, uid: PodUid, milli_cpu: int) -> None:
        """Note what a pod adds to its class, and set the class to the sum when that is another one."""
        with self._lock:
            if milli_cpu:
                self._asked[uid] = milli_cpu
            else:
                self._asked.pop(uid, None)
            weight = limits_of_class(QosClass.BURSTABLE, sum(self._asked.values()))
            if self._tree is not None and weight != self._weight:
                self._tree.set(self._names.of_class(QosClass.BURSTABLE), weight)
                self._weight = weight
