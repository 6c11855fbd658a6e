"""Garbage collection of containers and images: pure decisions, and the collectors that carry them out.

The housekeeper calls it periodically, and the evictor when a disk is full, each on its own thread. Removing an object
twice is harmless: the CRI does not fail for an object that no longer exists.

**Containers** (kubelet's containerGC). A *unit* is a container's name in a pod. The newest dead containers of each unit
are kept, because their logs can be read and the pod's status has their exit. The oldest are removed first.

Unlike in a kubelet, a unit's newest container stays while the pod is active, whatever the limits: back-off and restart
count depend on it. A kubelet that is configured to keep none forgets both.

Unknown pods are left alone: they are orphans, or another agent's (`edged.sync.orphans`).

**Images** (kubelet's image GC manager). The runtime does not report when an image was used, so each listing is
remembered: an image is in use if a container (running or dead), or a pod of this node that has not ended, names it. The
image that was unused for longest is removed first, until the file system of the images is free enough. Pinned images
and the sandboxes' image are never removed.

Unlike in a kubelet, an image that a pod names is in use even without a container: an offline node could not pull it
again.

Times are monotonic seconds, so that a corrected wall clock ages no image.
"""

import logging
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from beehive import Clock
from beehive.decoding import decode_json
from edged.api import Nanoseconds, Pod, seconds
from edged.cri.contract import ContainerId, ContainerRuntime, SandboxId
from edged.cri.errors import CriError, DeadlineExceededError, UnavailableError
from edged.events import EventRecorder, EventType, Reason
from edged.images.names import listed_name
from edged.node.machine import FileSystem, MachineError, MachineInfo
from edged.pod_workers.pod_directories import PodDirectories
from edged.pods.labels import CONTAINER_NAME, ref_from_labels, ref_of
from edged.pods.model import PodUid
from edged.pods.restart import is_terminal
from edged.settings.gc import ContainerPolicy, ImagePolicy
from protos.cri.v1 import api_pb2 as cri

_log = logging.getLogger(__name__)

CONTAINER_PERIOD: Final = 60.0
"""Seconds between two collections of containers (kubelet's ContainerGCPeriod)."""
IMAGE_PERIOD: Final = 300.0
"""Seconds between two collections of images (kubelet's ImageGCPeriod)."""


class ImageRecord(Struct, frozen=True, gc=False):
    """The history of one image; times are monotonic seconds."""

    id: str
    size: int
    """Bytes."""
    pinned: bool
    first_seen: float
    last_used: float = float("-inf")


Records = Mapping[str, ImageRecord]


def updated_records(
    records: Records, images: Iterable[cri.Image], in_use: Container[str], pinned: Container[str], now: float
) -> dict[str, ImageRecord]:
    """Return the records after a listing.

    Args:
        records: the previous ones.
        images: the present images.
        in_use: names and ids of used images.
        pinned: names of images that must never be removed.
        now: time of the listing.
    """
    found = {}
    for image in images:
        known = records.get(image.id)
        names = (image.id, *image.repo_tags, *image.repo_digests)
        used = any(name in in_use for name in names)
        found[image.id] = ImageRecord(
            image.id,
            image.size,
            image.pinned or any(name in pinned for name in names),
            now if known is None else known.first_seen,
            now if used else float("-inf") if known is None else known.last_used,
        )
    return found


def names_in_use(containers: Iterable[cri.Container], pods: Iterable[Pod]) -> set[str]:
    """Return every name of a used image."""
    names = {name for c in containers for name in (c.image.image, c.image_ref, c.image_id)}
    for pod in pods:
        if not is_terminal(pod):
            names |= {listed_name(container.image) for container in pod.spec.all_containers}
    return names - {""}


def bytes_to_free(file_system: FileSystem, policy: ImagePolicy) -> int:
    """Return the bytes to free to reach the low threshold; 0 below the high one."""
    available = min(file_system.available, file_system.capacity)
    if policy.high >= 100 or not file_system.capacity or 100 - available * 100 // file_system.capacity < policy.high:
        return 0
    return max(0, file_system.capacity * (100 - policy.low) // 100 - available)


def unused(records: Records, now: float, minimum_age: float) -> list[ImageRecord]:
    """Return the removable images, the one unused for longest first; among equals the one known for longest."""
    free = [r for r in records.values() if not r.pinned and r.last_used < now and now - r.first_seen >= minimum_age]
    return sorted(free, key=lambda record: (record.last_used, record.first_seen, record.id))


def too_old(records: Records, now: float, policy: ImagePolicy, began: float) -> list[ImageRecord]:
    """Return the images that were unused for too long.

    Use before `began` is unknown, so no image is too old until the maximum age has passed since then (kubelet's
    freeOldImages).
    """
    if not policy.maximum_age or now - began <= policy.maximum_age:
        return []
    return [r for r in unused(records, now, policy.minimum_age) if now - r.last_used > policy.maximum_age]


ListPods = Callable[[], tuple[Pod, ...]]
"""Returns this node's pods, with the statuses that edged computed last; called on any thread."""


def _is_removed(name: str, remove: Callable[[], None]) -> bool:
    """Remove a container, sandbox or image. Return False, and log why, when the runtime refuses."""
    try:
        remove()
    except (UnavailableError, DeadlineExceededError):
        raise
    except CriError as error:
        _log.warning("%s is kept: %s", name, error)
        return False
    return True


class ContainerCollector:
    """Removes dead containers and sandboxes (kubelet's containerGC).

    Args:
        runtime: lists and removes them.
        policy: how many are kept.
        clock: for their age.
        pods: lists this node's pods.
        files: removes the directories of removed containers.
    """

    def __init__(
        self, runtime: ContainerRuntime, policy: ContainerPolicy, clock: Clock, pods: ListPods, files: PodDirectories
    ) -> None:
        self._runtime = runtime
        self._policy = policy
        self._clock = clock
        self._pods = pods
        self._files = files

    def collect(self, *, all_unused: bool = False) -> None:
        """Remove superfluous containers; with `all_unused` all of pods that have ended.

        A container that cannot be removed is left for the next time, with its sandbox. Raises CriError when nothing is
        listed, and when the runtime goes away or does not answer in time: each further call would wait as long.
        """
        pods = {ref_of(pod).uid: is_terminal(pod) for pod in self._pods()}
        if not pods:
            return
        containers = self._runtime.list_containers()
        sandboxes = self._runtime.list_pod_sandboxes()
        now = Nanoseconds(self._clock.now_ns())
        found = garbage(containers, sandboxes, pods, self._policy, now, all_unused=all_unused)
        kept = [container for container in found.containers if not self._remove(container)]
        in_use = {container.pod_sandbox_id for container in kept}
        gone = [sandbox for sandbox in found.sandboxes if sandbox.id not in in_use and self._remove_sandbox(sandbox.id)]
        if found.containers or found.sandboxes:
            _log.info("removed %d containers and %d sandboxes", len(found.containers) - len(kept), len(gone))

    def _remove_sandbox(self, name: str) -> bool:
        return _is_removed(name, partial(self._runtime.remove_pod_sandbox, SandboxId(name)))

    def _remove(self, container: cri.Container) -> bool:
        """Remove a container and its files. Return whether it is gone; otherwise it is left for the next time."""
        if not _is_removed(container.id, partial(self._runtime.remove_container, ContainerId(container.id))):
            return False
        try:
            self._remove_files(container)
        except OSError as error:
            _log.warning("files of container %s are kept: %s", container.id, error)
        return True

    def _remove_files(self, container: cri.Container) -> None:
        ref = ref_from_labels(container.labels)
        name = container.labels.get(CONTAINER_NAME, "")
        if ref is not None and name:
            self._files.remove_container(ref, name, container.metadata.attempt)


class ImageCollector:
    """Removes unused images (kubelet's image GC manager).

    The housekeeper's and the evictor's threads use it at the same time. Each decides by its own listing: the images in
    use of another one, a moment earlier, would count as unused since then.

    Args:
        runtime: lists and removes them.
        policy: thresholds and ages.
        clock: for their age.
        pods: lists this node's pods.
        machine_info: measures the file system of the images.
        root: a path on the file system that counts when the runtime names none.
        recorder: records events of the node.
    """

    def __init__(
        self,
        runtime: ContainerRuntime,
        policy: ImagePolicy,
        clock: Clock,
        pods: ListPods,
        *,
        machine_info: MachineInfo,
        root: Path,
        recorder: EventRecorder,
    ) -> None:
        self._runtime = runtime
        self._policy = policy
        self._clock = clock
        self._pods = pods
        self._machine_info = machine_info
        self._root = root
        self._recorder = recorder
        self._began = clock.monotonic()
        self._records: dict[str, ImageRecord] = {}

    def collect(self) -> None:
        """Remove images that were unused for too long, and more when the file system is too full.

        Raises:
            CriError: the runtime does not answer.
            MachineError: the file system cannot be measured.
        """
        records, now = self._update_records()
        self._remove(too_old(records, now, self._policy, self._began))
        file_system = self._machine_info.usage(self._root, images_directory(self._runtime)).images
        if not file_system.capacity:
            message = "invalid capacity 0 on image filesystem"
            self._recorder.record_node(EventType.WARNING, Reason.INVALID_DISK_CAPACITY, message)
            return
        needed = bytes_to_free(file_system, self._policy)
        if not needed:
            return
        left = [each for each in unused(records, now, self._policy.minimum_age) if each.id in self._records]
        freed = self._free(left, needed)
        if freed < needed:
            message = (
                f"Failed to garbage collect required amount of images. Attempted to free {needed} bytes, but only found"
                f" {freed} bytes eligible to free."
            )
            _log.warning("%s", message)
            self._recorder.record_node(EventType.WARNING, Reason.FREE_DISK_SPACE_FAILED, message)

    def remove_unused(self) -> int:
        """Remove every unused image (DeleteUnusedImages). Return the freed bytes. Raises CriError."""
        records, now = self._update_records()
        return self._remove(unused(records, now, self._policy.minimum_age))

    def _update_records(self) -> tuple[Records, float]:
        """Return the records after a listing, and its time."""
        now = self._clock.monotonic()
        pinned = sandbox_images(self._runtime)
        in_use = names_in_use(self._runtime.list_containers(), self._pods())
        self._records = records = updated_records(self._records, self._runtime.list_images(), in_use, pinned, now)
        return records, now

    def _free(self, images: Iterable[ImageRecord], needed: int) -> int:
        """Remove images until so many bytes are free. Return the freed bytes."""
        freed = 0
        for record in images:
            if freed >= needed:
                break
            freed += self._remove([record])
        return freed

    def _remove(self, records: Iterable[ImageRecord]) -> int:
        """Remove images and return the freed bytes. An image that cannot be removed is left for the next time.

        Raises CriError when the runtime goes away or does not answer in time.
        """
        freed = 0
        for record in records:
            if not _is_removed(record.id, partial(self._runtime.remove_image, cri.ImageSpec(image=record.id))):
                continue
            _log.info("image %s of %d bytes was removed: nobody used it", record.id, record.size)
            self._records = {key: kept for key, kept in self._records.items() if key != record.id}
            freed += record.size
        return freed


def collect_images(collector: ImageCollector, recorder: EventRecorder) -> None:
    """Collect images, and record a failure as an event (kubelet's StartGarbageCollection). Raises as `collect`."""
    try:
        collector.collect()
    except (CriError, MachineError) as error:
        recorder.record_node(EventType.WARNING, Reason.IMAGE_GC_FAILED, str(error))
        raise


def images_directory(runtime: ContainerRuntime) -> Path | None:
    """Return the runtime's directory of images; None when it names none. Raises CriError."""
    answers = runtime.image_fs_info()
    mountpoint = answers[0].fs_id.mountpoint if answers else ""
    return Path(mountpoint) if mountpoint.startswith("/") else None


def sandbox_images(runtime: ContainerRuntime) -> frozenset[str]:
    """Return the image of the runtime's sandboxes, which older runtimes do not pin.

    Without it no pod starts, and an offline node could not pull it again. containerd and CRI-O name it in their verbose
    status. Raises CriError.
    """
    found = set()
    for text in runtime.status(verbose=True).info.values():
        try:
            config = decode_json(text)
        except msgspec.DecodeError:
            continue
        if isinstance(config, dict):
            found |= {str(config.get(key) or "") for key in ("sandboxImage", "pauseImage", "pause_image")}
    return frozenset(found - {""})


Unit = tuple[PodUid, str]
Units = dict[Unit, list[cri.Container]]
"""The dead containers of each unit that may be removed, newest first."""


class Garbage(msgspec.Struct, frozen=True):
    """Objects to remove, in this order."""

    containers: list[cri.Container]
    sandboxes: list[cri.PodSandbox]


def garbage(
    containers: Sequence[cri.Container],
    sandboxes: Sequence[cri.PodSandbox],
    pods: Mapping[PodUid, bool],
    policy: ContainerPolicy,
    now: Nanoseconds,
    *,
    all_unused: bool = False,
) -> Garbage:
    """Return the containers and sandboxes to remove now.

    Args:
        containers: all of the runtime.
        sandboxes: all of the runtime.
        pods: this node's pods, and whether each has ended for good.
        policy: how many are kept.
        now: wall clock.
        all_unused: the disk is full: keep nothing of pods that have ended (DeleteAllUnusedContainers).
    """
    units, needed = _units(containers, pods, Nanoseconds(now - seconds(policy.minimum_age)))
    removed: list[cri.Container] = []
    if all_unused:
        for unit in [unit for unit in units if pods[unit[0]]]:
            removed += units.pop(unit)
    if policy.per_pod >= 0:
        removed += _beyond(units, policy.per_pod, needed)
    removed += _beyond_total(units, policy.total, needed)
    removed.sort(key=_created)
    return Garbage(removed, _empty(sandboxes, containers, {c.id for c in removed}, pods, all_unused=all_unused))


def _units(
    containers: Iterable[cri.Container], pods: Mapping[PodUid, bool], before: Nanoseconds
) -> tuple[Units, set[str]]:
    """Return the removable containers, and the ids that active pods still need."""
    instances_of: Units = {}
    for container in containers:
        ref = ref_from_labels(container.labels)
        if ref is not None and ref.uid in pods:
            instances_of.setdefault((ref.uid, container.labels.get(CONTAINER_NAME, "")), []).append(container)
    found: Units = {}
    needed: set[str] = set()
    for unit, instances in sorted(instances_of.items()):
        instances.sort(key=_attempt, reverse=True)
        dead = [c for c in instances if c.state == cri.CONTAINER_EXITED and c.created_at <= before]
        if dead:
            found[unit] = dead
        if not pods[unit[0]]:
            needed.add(instances[0].id)
    return found, needed


def _beyond(units: Units, kept: int, needed: set[str]) -> list[cri.Container]:
    """Take the containers beyond the number to keep from each unit."""
    removed = []
    for unit, dead in units.items():
        beyond = [container for container in dead[kept:] if container.id not in needed]
        units[unit] = [container for container in dead if container not in beyond]
        removed += beyond
    return removed


def _beyond_total(units: Units, total: int, needed: set[str]) -> list[cri.Container]:
    """Leave each unit the same share, at least one; if that is still too much, take the oldest of all."""
    if total < 0 or _count(units) <= total:
        return []
    removed = _beyond(units, max(total // len(units), 1), needed)
    too_many = max(0, _count(units) - total)
    rest = sorted((c for dead in units.values() for c in dead if c.id not in needed), key=_created)
    return removed + rest[:too_many]


def _empty(
    sandboxes: Iterable[cri.PodSandbox],
    containers: Iterable[cri.Container],
    removed: set[str],
    pods: Mapping[PodUid, bool],
    *,
    all_unused: bool,
) -> list[cri.PodSandbox]:
    """Return dead sandboxes without containers. A pod keeps its newest one, unless it has ended and `all_unused` is
    set.
    """
    occupied = {container.pod_sandbox_id for container in containers if container.id not in removed}
    of_pods: dict[PodUid, list[cri.PodSandbox]] = {}
    for sandbox in sandboxes:
        ref = ref_from_labels(sandbox.labels)
        if ref is not None and ref.uid in pods:
            of_pods.setdefault(ref.uid, []).append(sandbox)
    found = []
    for uid, known in sorted(of_pods.items()):
        known.sort(key=lambda sandbox: (sandbox.metadata.attempt, sandbox.created_at), reverse=True)
        kept = 0 if all_unused and pods[uid] else 1
        found += [s for s in known[kept:] if s.state != cri.SANDBOX_READY and s.id not in occupied]
    return found


def _count(units: Units) -> int:
    return sum(len(dead) for dead in units.values())


def _attempt(container: cri.Container) -> tuple[int, int]:
    """Sort key of one name's containers: the attempt, because creation times come from a wall clock that may go back at
    a boot.
    """
    return container.metadata.attempt, container.created_at


def _created(container: cri.Container) -> tuple[int, int]:
    return container.created_at, container.metadata.attempt
