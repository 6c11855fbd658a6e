"""Names and paths of the cgroups of pods, for both drivers.

cgroupfs has plain directories, `/kubepods/burstable/pod<uid>`. systemd has slices, each named after its parents:
`/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<uid>.slice`, with `_` for the `-` of a uid (kubelet's
CgroupName, ToSystemd and ToCgroupfs). Guaranteed pods are beside the two classes, not in one.
"""

from typing import NewType

from edged.cgroups.errors import CgroupError
from edged.pods.model import PodUid
from edged.settings.cgroups import CgroupDriver
from modules.apimachinery.pods.qos import QosClass

CgroupPath = NewType("CgroupPath", str)
"""Path of a cgroup in each hierarchy, beginning with `/`."""

_PODS = "kubepods"
_CLASSES = {QosClass.GUARANTEED: (), QosClass.BURSTABLE: ("burstable",), QosClass.BEST_EFFORT: ("besteffort",)}


class CgroupNames:
    """The names of one node's cgroups.

    Args:
        driver: the cgroup driver.
        root: `/`, or the cgroup of all others.

    Raises CgroupError when `root` is not a plain path.
    """

    def __init__(self, driver: CgroupDriver, root: str = "/") -> None:
        self._driver = driver
        self._root = tuple(part for part in root.split("/") if part)
        for part in self._root:
            _check(part)

    @property
    def pods(self) -> CgroupPath:
        """The cgroup of all pods together."""
        return self._path(_PODS)

    def of_class(self, qos: QosClass) -> CgroupPath:
        """Return the cgroup of a class; Guaranteed has the cgroup of all pods."""
        return self._path(_PODS, *_CLASSES[qos])

    def of_pod(self, uid: PodUid, qos: QosClass) -> CgroupPath:
        """Return the cgroup of a pod: the `cgroup_parent` for the runtime. Raises CgroupError for an invalid uid."""
        _check(uid)
        return self._path(_PODS, *_CLASSES[qos], f"pod{uid}")

    def of_pod_anywhere(self, uid: PodUid) -> tuple[CgroupPath, ...]:
        """Return the pod's cgroups in all classes: its class changes with its resources."""
        return tuple(self.of_pod(uid, qos) for qos in QosClass)

    def external(self, name: str) -> CgroupPath:
        """Return the cgroup of others than pods, as configured (`kubeReservedCgroup`)."""
        parts = [part for part in name.split("/") if part]
        for part in parts:
            _check(part)
        return CgroupPath("/" + "/".join(parts))

    def _path(self, *parts: str) -> CgroupPath:
        names = self._root + parts
        if self._driver is CgroupDriver.SYSTEMD:
            return CgroupPath("/" + "/".join(_slices(names)))
        return CgroupPath("/" + "/".join(names))


def _slices(names: tuple[str, ...]) -> list[str]:
    """Return systemd's slices down to the last one, each with the names of its parents."""
    escaped = [name.replace("-", "_") for name in names]
    return ["-".join(escaped[: count + 1]) + ".slice" for count in range(len(escaped))]


def _check(part: str) -> None:
    if part in ("", ".", "..") or "/" in part or "\0" in part:
        raise CgroupError("cannot name a cgroup", repr(part), "each part must be a plain name")
