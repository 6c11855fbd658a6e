"""The volumes of a pod, from the first to the last: made or brought up to date, shown to containers, and taken away.

What is mounted is found again in the kernel's table, and what a driver has published in a file beside it, so that a pod
is taken apart as well by an agent that did not put it together.
"""

from collections.abc import Mapping
from pathlib import Path

from edged.api import Container, Nanoseconds, Pod, Volume, VolumeMount
from edged.errors import EdgedError
from edged.pods.downward import DownwardView
from edged.pods.model import PodUid
from edged.pods.paths import PodPaths
from edged.volumes.errors import VolumeError
from edged.volumes.mounting import Mounts, points_below
from edged.volumes.mounts import SubPaths
from edged.volumes.ownership import owner_of
from edged.volumes.payload import VolumeSources
from edged.volumes.plan import plan_volume
from edged.volumes.set_up import set_up
from edged.volumes.sub_path import bind_sub_path
from metamanager.client import CallError


class PodVolumes:
    """See the module's docstring. Used by several workers at once, by each for another pod.

    Args:
        paths: where pods have their files.
        mounts: of the node.
        memory: bytes that the node has for pods; 0 when it is not known.
    """

    def __init__(self, paths: PodPaths, mounts: Mounts, memory: int = 0) -> None:
        self._paths = paths
        self._mounts = mounts
        self._memory = memory

    def prepare(self, pod: Pod, sources: VolumeSources, now: Nanoseconds) -> dict[str, Path]:
        """Make the volumes, or bring them up to date; where each is on the node, by name.

        Raises VolumeError, which names the volume that the pod waits for, in kubelet's words.
        """
        return {volume.name: self._named(pod, volume, sources, now) for volume in pod.spec.volumes}

    def sub_paths(self, pod: Pod, container: Container, volumes: Mapping[str, Path]) -> SubPaths:
        """Binds paths within the pod's volumes for one of its containers (see `bind_sub_path`)."""
        uid = PodUid(pod.metadata.uid)

        def bind(index: int, mount: VolumeMount, sub_path: str) -> Path:
            place = self._paths.sub_path(uid, mount.name, container.name, index)
            return bind_sub_path(self._mounts, volumes[mount.name], sub_path, place)

        return bind

    def remove(self, uid: PodUid) -> None:
        """Unmount what was mounted for a pod, so that its directory can be removed. Again and again if need be.

        What else is mounted in the pod's directory is nobody's that we know, and stays. Raises VolumeError.
        """
        ours = [self._paths.sub_paths(uid), self._paths.volumes(uid)]
        for point in points_below(self._mounts, self._paths.pod(uid)):
            if any(point.is_relative_to(directory.resolve()) for directory in ours):
                self._mounts.unmount(point)

    def _named(self, pod: Pod, volume: Volume, sources: VolumeSources, now: Nanoseconds) -> Path:
        try:
            return self._set_up(pod, volume, sources, now)
        except (EdgedError, CallError, OSError) as error:
            retryable = not isinstance(error, EdgedError) or error.retryable
            attempt = f'MountVolume.SetUp failed for volume "{volume.name}"'
            raise VolumeError(attempt, str(error), retryable=retryable) from error

    def _set_up(self, pod: Pod, volume: Volume, sources: VolumeSources, now: Nanoseconds) -> Path:
        plan = plan_volume(pod, volume, self._paths, sources, DownwardView(), self._memory)
        owner = owner_of(pod)
        return set_up(plan, now, owner.group if owner is not None else None, self._mounts)
