"""Garbage collection of containers and images: carries out the decisions of `containers` and `images`.

The housekeeper calls it periodically, and the evictor when a disk is full, each on its own thread. Removing an object
twice is harmless: the CRI does not fail for an object that is gone.
"""

import logging
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import msgspec

from beehive import Clock
from edged.api import Nanoseconds, Pod
from edged.cri.contract import ContainerId, ContainerRuntime, SandboxId
from edged.cri.errors import CriError
from edged.events import EventRecorder, EventType, Reason
from edged.gc.containers import garbage
from edged.gc.images import ImageRecord, bytes_to_free, names_in_use, too_old, unused, updated_records
from edged.node.machine import MachineError, MachineInfo
from edged.pod_workers.pod_directories import PodDirectories
from edged.pods.labels import CONTAINER_NAME, ref_from_labels, ref_of
from edged.pods.restart import is_terminal
from edged.settings.gc import ContainerPolicy, ImagePolicy
from protos.cri.v1 import api_pb2 as cri

_log = logging.getLogger(__name__)

CONTAINER_PERIOD: Final = 60.0
"""Seconds between two collections of containers (kubelet's ContainerGCPeriod)."""
IMAGE_PERIOD: Final = 300.0
"""Seconds between two collections of images (kubelet's ImageGCPeriod)."""

ListPods = Callable[[], tuple[Pod, ...]]
"""Returns this node's pods, with the statuses that edged computed last; called on any thread."""


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
        """Remove superfluous containers; with `all_unused` all of pods that have ended. Raises CriError."""
        pods = {ref_of(pod).uid: is_terminal(pod) for pod in self._pods()}
        if not pods:
            return
        containers = self._runtime.list_containers()
        sandboxes = self._runtime.list_pod_sandboxes()
        now = Nanoseconds(self._clock.now_ns())
        found = garbage(containers, sandboxes, pods, self._policy, now, all_unused=all_unused)
        for container in found.containers:
            self._runtime.remove_container(ContainerId(container.id))
            self._remove_files(container)
        for sandbox in found.sandboxes:
            self._runtime.remove_pod_sandbox(SandboxId(sandbox.id))
        if found.containers or found.sandboxes:
            _log.info("removed %d containers and %d sandboxes", len(found.containers), len(found.sandboxes))

    def _remove_files(self, container: cri.Container) -> None:
        ref = ref_from_labels(container.labels)
        name = container.labels.get(CONTAINER_NAME, "")
        if ref is not None and name:
            self._files.remove_container(ref, name, container.metadata.attempt)


class ImageCollector:
    """Removes unused images (kubelet's image GC manager).

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
        now = self._update_records()
        self._remove(too_old(self._records, now, self._policy, self._began))
        file_system = self._machine_info.usage(self._root, images_directory(self._runtime)).images
        if not file_system.capacity:
            message = "invalid capacity 0 on image filesystem"
            self._recorder.record_node(EventType.WARNING, Reason.INVALID_DISK_CAPACITY, message)
            return
        needed = bytes_to_free(file_system, self._policy)
        if not needed:
            return
        freed = self._free(needed, now)
        if freed < needed:
            message = (
                f"Failed to garbage collect required amount of images. Attempted to free {needed} bytes, but only found"
                f" {freed} bytes eligible to free."
            )
            _log.warning("%s", message)
            self._recorder.record_node(EventType.WARNING, Reason.FREE_DISK_SPACE_FAILED, message)

    def remove_unused(self) -> int:
        """Remove every unused image (DeleteUnusedImages). Return the freed bytes. Raises CriError."""
        return self._free(None, self._update_records())

    def _update_records(self) -> float:
        now = self._clock.monotonic()
        pinned = sandbox_images(self._runtime)
        in_use = names_in_use(self._runtime.list_containers(), self._pods())
        self._records = updated_records(self._records, self._runtime.list_images(), in_use, pinned, now)
        return now

    def _free(self, needed: int | None, now: float) -> int:
        """Remove unused images until so many bytes are free (None: all of them). Return the freed bytes."""
        freed = 0
        for record in unused(self._records, now, self._policy.minimum_age):
            if needed is not None and freed >= needed:
                break
            freed += self._remove([record])
        return freed

    def _remove(self, records: Iterable[ImageRecord]) -> int:
        """Remove images and return the freed bytes. An image that cannot be removed is left for the next time."""
        freed = 0
        for record in records:
            try:
                self._runtime.remove_image(cri.ImageSpec(image=record.id))
            except CriError as error:
                _log.warning("image %s is kept: %s", record.id, error)
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
            config = msgspec.json.decode(text)
        except msgspec.DecodeError:
            continue
        if isinstance(config, dict):
            found |= {str(config.get(key) or "") for key in ("sandboxImage", "pauseImage", "pause_image")}
    return frozenset(found - {""})
