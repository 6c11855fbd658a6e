"""The volumes of a pod, from the first to the last: made or brought up to date, shown to containers, and taken away.

What is mounted is found again in the kernel's table, and what a driver has published in a file beside it, so that a pod
is taken apart as well by an agent that did not put it together.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from edged.api import Container, Nanoseconds, PersistentVolumeClaimVolumeSource, Pod, Volume, VolumeMount
from edged.errors import EdgedError
from edged.pods.downward import DownwardView
from edged.pods.model import PodUid
from edged.pods.paths import PodPaths
from edged.volumes.claims import ClaimSources, Here, Local, PersistentPlan, inline_volume, persistent_plan, resolve
from edged.volumes.csi.drivers import CsiDrivers
from edged.volumes.csi.model import CsiVolume
from edged.volumes.csi.mounter import CsiMounter, CsiSources
from edged.volumes.errors import VolumeError
from edged.volumes.mounting import KernelMounts, Mounts, is_mounted, points_below
from edged.volumes.mounts import SubPaths
from edged.volumes.ownership import Owner, give_away, owner_of
from edged.volumes.payload import VolumeSources
from edged.volumes.plan import HostPath, plan_volume
from edged.volumes.set_up import set_up
from edged.volumes.sub_path import bind_sub_path
from metamanager.client import CallError


class PodSources(VolumeSources, ClaimSources, CsiSources, Protocol):
    """Everything that volumes of a pod are made of."""


class PodVolumes:
    """See the module's docstring. Used by several workers at once, by each for another pod.

    Args:
        paths: where pods have their files.
        mounts: of the node; the kernel's unless given.
        memory: bytes that the node has for pods; 0 when it is not known.
        csi: has storage drivers; without it there are none.
        here: the node as it is now.
    """

    def __init__(
        self,
        paths: PodPaths,
        mounts: Mounts | None = None,
        memory: int = 0,
        *,
        csi: CsiMounter | None = None,
        here: Callable[[], Here] = lambda: Here("", {}),
    ) -> None:
        self._paths = paths
        self.mounts = mounts or KernelMounts()
        self._memory = memory
        self._csi = csi or CsiMounter(paths, CsiDrivers(lambda: None), self.mounts, "")
        self._here = here
        self._plans: dict[tuple[PodUid, str], PersistentPlan] = {}
        """Of claimed volumes: what a claim was given does not change while a pod has it."""

    def prepare(self, pod: Pod, sources: PodSources, now: Nanoseconds) -> dict[str, Path]:
        """Make the volumes, or bring them up to date; where each is on the node, by name.

        Raises VolumeError, which names the volume that the pod waits for, in kubelet's words.
        """
        return {volume.name: self._named(pod, volume, sources, now) for volume in pod.spec.volumes}

    def sub_paths(self, pod: Pod, container: Container, volumes: Mapping[str, Path]) -> SubPaths:
        """Binds paths within the pod's volumes for one of its containers (see `bind_sub_path`)."""
        uid = PodUid(pod.metadata.uid)

        def bind(index: int, mount: VolumeMount, sub_path: str) -> Path:
            place = self._paths.sub_path(uid, mount.name, container.name, index)
            return bind_sub_path(self.mounts, volumes[mount.name], sub_path, place)

        return bind

    def remove(self, uid: PodUid) -> None:
        """Unmount what was mounted for a pod, so that its directory can be removed. Again and again if need be.

        What else is mounted in the pod's directory is nobody's that we know: it stays. Raises VolumeError, PluginError.
        """
        self._csi.tear_down(uid)
        for key in [key for key in list(self._plans) if key[0] == uid]:
            self._plans.pop(key, None)
        ours = [self._paths.sub_paths(uid), self._paths.volumes(uid)]
        for point in points_below(self.mounts, self._paths.pod(uid)):
            if any(point.is_relative_to(directory.resolve()) for directory in ours):
                self.mounts.unmount(point)

    def _named(self, pod: Pod, volume: Volume, sources: PodSources, now: Nanoseconds) -> Path:
        try:
            return self._set_up(pod, volume, sources, now)
        except (EdgedError, CallError, OSError) as error:
            retryable = not isinstance(error, EdgedError) or error.retryable
            attempt = f'MountVolume.SetUp failed for volume "{volume.name}"'
            raise VolumeError(attempt, str(error), retryable=retryable) from error

    def _set_up(self, pod: Pod, volume: Volume, sources: PodSources, now: Nanoseconds) -> Path:
        if (claim := volume.persistent_volume_claim) is not None:
            return self._mount(pod, self._claimed(pod, volume.name, claim, sources), sources, now)
        if volume.csi is not None:
            return self._mount(pod, inline_volume(pod, volume.name, volume.csi), sources, now)
        plan = plan_volume(pod, volume, self._paths, sources, DownwardView(), self._memory)
        owner = owner_of(pod)
        return set_up(plan, now, owner.group if owner is not None else None, self.mounts)

    def _mount(self, pod: Pod, plan: PersistentPlan, sources: PodSources, now: Nanoseconds) -> Path:
        match plan:
            case CsiVolume():
                return self._csi.publish(pod, plan, sources, owner_of(pod))
            case Local():
                return self._show(plan, owner_of(pod))
            case HostPath():
                return set_up(plan, now)

    def _claimed(
        self, pod: Pod, name: str, claim: PersistentVolumeClaimVolumeSource, sources: PodSources
    ) -> PersistentPlan:
        """What is behind a claim; asked for once in the life of a pod and an agent."""
        key = (PodUid(pod.metadata.uid), name)
        if key not in self._plans:
            found = resolve(pod.metadata.namespace, claim.claim_name, sources, self._here())
            self._plans[key] = persistent_plan(pod, found, self._paths, read_only=claim.read_only)
        return self._plans[key]

    def _show(self, plan: Local, owner: Owner | None) -> Path:
        """A directory of the node that no container is given by its own path. Bound once."""
        if is_mounted(self.mounts, plan.path):
            return plan.path
        if not plan.source.is_dir():
            raise VolumeError("cannot use the local volume", str(plan.source), "a directory is wanted", retryable=True)
        plan.path.mkdir(mode=0o750, parents=True, exist_ok=True)
        if owner is not None:
            give_away(plan.source, owner)
        self.mounts.bind(plan.source, plan.path)
        return plan.path
