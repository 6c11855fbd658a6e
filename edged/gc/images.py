"""Garbage collection of images (kubelet's image GC manager): pure decisions, and the collector that carries them out.

The runtime does not report when an image was used, so each listing is remembered: an image is in use if a container
(running or dead), or a pod of this node that has not ended, names it. The image that was unused for longest is removed
first, until the file system of the images is free enough. Pinned images and the sandboxes' image are never removed.

Unlike in a kubelet, an image that a pod names is in use even without a container: an offline node could not pull it
again.

Times are monotonic seconds, so that a corrected wall clock ages no image.
"""

import logging
from collections.abc import Container, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from beehive import Clock
from beehive.decoding import decode_json
from edged.cri.contract import ContainerRuntime
from edged.cri.errors import CriError
from edged.events import EventRecorder, EventType, Reason
from edged.gc.removal import ListPods, Removals
from edged.node.machine import FileSystem, MachineError, MachineInfo
from edged.pods.restart import is_terminal
from edged.settings.gc import ImagePolicy
from modules.apimachinery.image_names import listed_name
from modules.apimachinery.types import Pod
from protos.cri.v1 import api_pb2 as cri

_log = logging.getLogger(__name__)

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


def too_old(records: Records, now: float, policy: ImagePolicy) -> list[ImageRecord]:
    """Return the images that were unused for too long, at least since they were first seen.

    A kubelet's freeOldImages takes an image that it has not seen in use for one unused since ever: one that was pulled
    for later would go after minutes.
    """
    if not policy.maximum_age:
        return []
    old = now - policy.maximum_age
    return [r for r in unused(records, now, policy.minimum_age) if max(r.first_seen, r.last_used) < old]


class ImageCollector:
    """The collector of unused images (kubelet's image GC manager).

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
        self._records: dict[str, ImageRecord] = {}
        self._removals = Removals()

    def collect(self) -> None:
        """Remove images that were unused for too long, and more when the file system is too full.

        Raises:
            CriError: the runtime does not answer.
            MachineError: the file system cannot be measured.
        """
        records, now = self._update_records()
        self._remove(too_old(records, now, self._policy))
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
        self._removals.keep(records.keys())
        return records, now

    def _free(self, images: Iterable[ImageRecord], needed: int) -> int:
        """Remove images until so many bytes are free. Return the freed bytes."""
        freed = 0
        for record in self._removals.ordered(images):
            if freed >= needed:
                break
            freed += self._remove([record])
        return freed

    def _remove(self, records: Iterable[ImageRecord]) -> int:
        """Remove images and return the freed bytes. An image that cannot be removed is left for the next time.

        Raises CriError when the runtime goes away or does not answer in time.
        """
        freed = 0
        for record in self._removals.ordered(records):
            remove = partial(self._runtime.remove_image, cri.ImageSpec(image=record.id))
            if not self._removals.is_removed(record.id, remove):
                continue
            _log.info("image %s of %d bytes was removed: no container used it", record.id, record.size)
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
