"""All volumes of a pod: set up or updated, mounted into containers, and removed."""

import logging
import os
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Protocol

from beehive.files.durable import make_directories
from edged.errors import VolumeError
from edged.pods.config.downward import DownwardView
from edged.pods.labels import ref_of
from edged.pods.model import PodUid
from edged.pods.paths import PodPaths
from edged.volumes.atomic_writer import DATA
from edged.volumes.claims import (
    ClaimSources,
    LocalVolume,
    NodeIdentity,
    PersistentPlan,
    PodClaim,
    claim_of,
    inline_volume,
    persistent_plan,
    resolve,
)
from edged.volumes.csi.drivers import CsiDrivers
from edged.volumes.csi.model import CSI, CsiVolume
from edged.volumes.csi.mounter import CsiMounter, CsiSources
from edged.volumes.mounting import KernelMounts, Mounts, is_mounted
from edged.volumes.mounts import SubPaths
from edged.volumes.ownership import VolumeOwner, owner_of, set_volume_ownership
from edged.volumes.payload import VolumeSources
from edged.volumes.plan import HostPath, kind_of_files, plan_volume
from edged.volumes.set_up import set_up
from edged.volumes.sub_path import bind_sub_path
from metamanager.client import CallError
from modules.apimachinery.attempts import AttemptError
from modules.apimachinery.types import Container, Nanoseconds, Pod, Volume, VolumeMount

_log = logging.getLogger(__name__)


class PodVolumeSources(VolumeSources, ClaimSources, CsiSources, Protocol):
    """The sources of all kinds of volumes of a pod."""


class PodVolumes:
    """The volumes of pods, set up and removed here. Several workers use it at the same time, each for another pod.

    Mounts are found in the kernel's table, and a driver's published volumes in records beside them, so that an agent
    can remove the volumes of a pod that an earlier one has set up.

    Args:
        paths: of pods.
        mounts: of the node; the kernel's by default.
        memory: bytes that the node has for pods; 0 when unknown.
        csi: mounts the volumes of storage drivers; None: no such volumes.
        node: returns the node as it is now.
    """

    def __init__(
        self,
        paths: PodPaths,
        mounts: Mounts | None = None,
        memory: int = 0,
        *,
        csi: CsiMounter | None = None,
        node: Callable[[], NodeIdentity] = lambda: NodeIdentity("", {}),
    ) -> None:
        self._paths = paths
        self.mounts = mounts or KernelMounts()
        self._memory = memory
        self._csi = csi or CsiMounter(paths, CsiDrivers(), self.mounts, "")
        self._node = node
        self._plans: dict[tuple[PodUid, str], PersistentPlan] = {}
        """Plans of claimed volumes: a claim's volume does not change while a pod uses it."""

    def prepare(
        self, pod: Pod, sources: PodVolumeSources, now: Nanoseconds, *, starts: bool = False
    ) -> dict[str, Path]:
        """Set up the volumes, or update them; return the path of each on the node, by name.

        A volume that cannot be updated, as its configmap was deleted, keeps its files: the others are updated, and
        containers that are to be started (`starts`) do not wait for it.

        Raises VolumeError in kubelet's words, with the name of the first volume that the pod waits for.
        """
        paths, problem = {}, None
        for volume in pod.spec.volumes:
            try:
                paths[volume.name] = self._set_up(pod, volume, sources, now)
            except (AttemptError, CallError, OSError) as error:
                retryable = not isinstance(error, AttemptError) or error.retryable
                attempt = f'MountVolume.SetUp failed for volume "{volume.name}"'
                failure = VolumeError(attempt, str(error), retryable=retryable)
                failure.__cause__ = error
                kept = self._kept(pod, volume)
                if kept is None:
                    raise failure from error
                paths[volume.name], problem = kept, problem or failure
        if problem is not None:
            if not starts:
                raise problem
            _log.warning("pod %s: containers start with the files of before: %s", ref_of(pod), problem)
        return paths

    def _kept(self, pod: Pod, volume: Volume) -> Path | None:
        """Return the directory of a volume that has its files; None of one that has none, or is of another kind."""
        kind = kind_of_files(volume)
        if kind is None:
            return None
        directory = self._paths.volume(PodUid(pod.metadata.uid), kind, volume.name)
        return directory if os.path.lexists(directory / DATA) else None

    def sub_paths(self, pod: Pod, container: Container, volumes: Mapping[str, Path]) -> SubPaths:
        """Return a function that binds paths within the pod's volumes for one of its containers (see
        `bind_sub_path`).
        """
        uid = PodUid(pod.metadata.uid)

        def bind(index: int, mount: VolumeMount, sub_path: str) -> Path:
            place = self._paths.sub_path(uid, mount.name, container.name, index)
            return bind_sub_path(self.mounts, volumes[mount.name], sub_path, place)

        return bind

    def local_volumes(self) -> dict[Path, str]:
        """Return the names of pods' local volumes by their directories, which have those of persistent volumes. On any
        thread.
        """
        plans = list(self._plans.items())
        return {plan.path: name for (_, name), plan in plans if isinstance(plan, LocalVolume)}

    def remove(self, uid: PodUid) -> None:
        """Unmount a pod's volumes, so that its directory can be removed; may be repeated.

        Other mounts in the pod's directory stay, because they are unknown. A pod without volumes costs no reading of
        the kernel's table. Raises the first PluginError or VolumeError when all were tried.
        """
        for key in [key for key in list(self._plans) if key[0] == uid]:
            self._plans.pop(key, None)
        volumes, sub_paths = self._paths.volumes(uid), self._paths.sub_paths(uid)
        if not (volumes.exists() or sub_paths.exists()):
            return
        pod = self._pods / self._paths.pod(uid).name
        volumes, sub_paths = pod / volumes.name, pod / sub_paths.name
        # sub paths first (CleanSubPaths): while one shows a volume, its disk is in use, and a driver would detach it
        problem = self._unmount(self.mounts.below(sub_paths)[::-1]) if sub_paths.exists() else None
        try:
            if problem is None:
                self._csi.tear_down(uid)
        except AttemptError as error:  # a driver may be away for days: memory must not wait for that
            problem = error
        ours = self.mounts.below(volumes)[::-1]
        if problem is not None:
            of_drivers = volumes / self._paths.volume_kind(uid, CSI).name
            ours = [point for point in ours if not point.is_relative_to(of_drivers)]
        for failure in (problem, self._unmount(ours)):
            if failure is not None:
                raise failure

    @cached_property
    def _pods(self) -> Path:
        """The directory of all pods, as the kernel's table has it: without links."""
        return self._paths.pods.resolve()

    def _unmount(self, points: list[Path]) -> AttemptError | None:
        """Unmount the points; return the first error."""
        try:
            self.mounts.unmount(*points)
        except VolumeError as error:
            return error
        return None

    def _set_up(self, pod: Pod, volume: Volume, sources: PodVolumeSources, now: Nanoseconds) -> Path:
        if (claim := claim_of(pod, volume)) is not None:
            return self._mount(pod, self._claimed(pod, volume.name, claim, sources), sources, now)
        if volume.csi is not None:
            return self._mount(pod, inline_volume(pod, volume.name, volume.csi), sources, now)
        view = DownwardView(allocatable=self._node().allocatable if _names_resources(volume) else None)
        plan = plan_volume(pod, volume, self._paths, sources, view, self._memory)
        owner = owner_of(pod)
        return set_up(plan, now, owner.group if owner is not None else None, self.mounts)

    def _mount(self, pod: Pod, plan: PersistentPlan, sources: PodVolumeSources, now: Nanoseconds) -> Path:
        match plan:
            case CsiVolume():
                return self._csi.publish(pod, plan, sources, owner_of(pod))
            case LocalVolume():
                return self._show(plan, owner_of(pod))
            case HostPath():
                return set_up(plan, now)

    def _claimed(self, pod: Pod, name: str, claim: PodClaim, sources: PodVolumeSources) -> PersistentPlan:
        """Return the plan behind a claim; resolved once for each pod and agent."""
        key = (PodUid(pod.metadata.uid), name)
        if key not in self._plans:
            found = resolve(pod.metadata.namespace, claim, sources, self._node())
            self._plans[key] = persistent_plan(pod, found, self._paths, read_only=claim.read_only)
        return self._plans[key]

    def _show(self, plan: LocalVolume, owner: VolumeOwner | None) -> Path:
        """Bind a directory of the node into the pod's own, because containers get none by its own path. Bound once. The
        path may be a link, as administrators name disks by links.
        """
        if is_mounted(self.mounts, plan.path):
            return plan.path
        if plan.source.is_block_device():
            hint = "it is a block device, which a kubelet would format: mount it, and name the directory in the volume"
            raise VolumeError("cannot use the local volume", str(plan.source), hint)
        if not plan.source.is_dir():
            raise VolumeError("cannot use the local volume", str(plan.source), "a directory is wanted", retryable=True)
        make_directories(plan.path, 0o750)
        source = plan.source.resolve()
        if owner is not None and not plan.read_only:
            set_volume_ownership(source, owner)
        self.mounts.bind(source, plan.path)
        return plan.path


def _names_resources(volume: Volume) -> bool:
    """Return whether a file of the volume has a container's resources, which may be the node's."""
    sources = volume.projected.sources if volume.projected is not None else ()
    parts = (volume.downward_api, *(source.downward_api for source in sources))
    return any(item.resource_field_ref is not None for part in parts if part is not None for item in part.items)
