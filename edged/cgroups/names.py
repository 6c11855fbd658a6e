"""Where a pod's control group is: names and paths, for both drivers.

cgroupfs has plain directories, `/kubepods/burstable/pod<uid>`. systemd has slices, whose names say the way to them:
`/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<uid>.slice`, with `_` for the `-` of a uid (kubelet's
CgroupName, ToSystemd and ToCgroupfs). Pods of class Guaranteed stand beside the two classes, not in one.
"""

from typing import NewType

from edged.cgroups.errors import CgroupError
from edged.cgroups.settings import Driver
from edged.pods.model import PodUid
from edged.pods.qos import QosClass

CgroupPath = NewType("CgroupPath", str)
"""Path of a cgroup in each hierarchy, beginning with `/`."""

_PODS = "kubepods"
_CLASSES = {QosClass.GUARANTEED: (), QosClass.BURSTABLE: ("burstable",), QosClass.BEST_EFFORT: ("besteffort",)}


class Names:
    """The names of one node's cgroups.

    Args:
        driver: who makes them.
        root: `/`, or the cgroup below which they are. Raises CgroupError when that is no plain path.
    """

    def __init__(self, driver: Driver, root: str = "/") -> None:
        self._driver = driver
        self._root = tuple(part for part in root.split("/") if part)
        for part in self._root:
            _check(part)

    @property
    def pods(self) -> CgroupPath:
        """Of all pods together."""
        return self._path(_PODS)

    def of_class(self, qos: QosClass) -> CgroupPath:
        """Of a class; that of Guaranteed is that of all pods."""
        return self._path(_PODS, *_CLASSES[qos])

    def of_pod(self, uid: PodUid, qos: QosClass) -> CgroupPath:
        """Of a pod: what the runtime is told as `cgroup_parent`. Raises CgroupError for a uid that is no name."""
        _check(uid)
        return self._path(_PODS, *_CLASSES[qos], f"pod{uid}")

    def of_pod_anywhere(self, uid: PodUid) -> tuple[CgroupPath, ...]:
        """Wherever the pod's may be: its class changes when its resources do."""
        return tuple(self.of_pod(uid, qos) for qos in QosClass)

    def external(self, name: str) -> CgroupPath:
        """Of others than pods, as the configuration names it (`kubeReservedCgroup`)."""
        parts = [part for part in name.split("/") if part]
        for part in parts:
            _check(part)
        return CgroupPath("/" + "/".join(parts))

    def _path(self, *parts: str) -> CgroupPath:
        names = self._root + parts
        if self._driver is Driver.SYSTEMD:
            return CgroupPath("/" + "/".join(_slices(names)))
        return CgroupPath("/" + "/".join(names))


def _slices(names: tuple[str, ...]) -> list[str]:
    """systemd's slices on the way to the last one: each is named after all before it."""
    escaped = [name.replace("-", "_") for name in names]
    return ["-".join(escaped[: count + 1]) + ".slice" for count in range(len(escaped))]


def _check(part: str) -> None:
    if part in ("", ".", "..") or "/" in part or "\0" in part:
        raise CgroupError("cannot name a cgroup", repr(part), "each part must be a plain name")
