"""Removes what `containers` and `images` say: a kubelet's garbage collection, its effects.

Called by the housekeeper in its periods, and by evictions when a disk is short, each on a thread of its own: what both
remove is removed once, for a runtime takes no offence at what is gone.
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
from edged.gc.images import ImageRecord, bytes_to_free, names_in_use, observed, too_old, unused
from edged.gc.settings import ContainerPolicy, ImagePolicy
from edged.node.machine import Figures, MachineError
from edged.pods.labels import CONTAINER_NAME, ref_from_labels, ref_of
from edged.pods.restart import is_terminal
from edged.work.files import PodFiles
from protos.cri.v1 import api_pb2 as cri

_log = logging.getLogger(__name__)

CONTAINER_PERIOD: Final = 60.0
"""Seconds between two collections of containers (kubelet's ContainerGCPeriod)."""
IMAGE_PERIOD: Final = 300.0
"""Seconds between two collections of images (kubelet's ImageGCPeriod)."""

Pods = Callable[[], tuple[Pod, ...]]
"""The pods of this node, with the statuses that edged computed last; may be called on any thread."""


class ContainerCollector:
    """Args: `pods` are this node's; `files` are removed with their containers."""

    def __init__(
        self, runtime: ContainerRuntime, policy: ContainerPolicy, clock: Clock, pods: Pods, files: PodFiles
    ) -> None:
        self._runtime = runtime
        self._policy = policy
        self._clock = clock
        self._pods = pods
        self._files = files

    def collect(self, *, everything: bool = False) -> None:
        """Remove what is not needed; `everything`: of pods that have ended nothing is. Raises CriError."""
        pods = {ref_of(pod).uid: is_terminal(pod) for pod in self._pods()}
        if not pods:
            return
        containers = self._runtime.list_containers()
        sandboxes = self._runtime.list_pod_sandboxes()
        now = Nanoseconds(self._clock.now_ns())
        found = garbage(containers, sandboxes, pods, self._policy, now, everything=everything)
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
    """Args: `figures` say how full the images' file system is; `root` is on the one that counts when there is none."""

    def __init__(
        self,
        runtime: ContainerRuntime,
        policy: ImagePolicy,
        clock: Clock,
        pods: Pods,
        *,
        figures: Figures,
        root: Path,
        recorder: EventRecorder,
    ) -> None:
        self._runtime = runtime
        self._policy = policy
        self._clock = clock
        self._pods = pods
        self._figures = figures
        self._root = root
        self._recorder = recorder
        self._began = clock.monotonic()
        self._records: dict[str, ImageRecord] = {}

    def collect(self) -> None:
        """Remove images that were not used for too long, and more of them when there is too little room.

        Raises:
            CriError: the runtime does not answer.
            MachineError: the file system cannot be looked at.
        """
        now = self._look()
        self._remove(too_old(self._records, now, self._policy, self._began))
        there = self._figures.usage(self._root, images_directory(self._runtime)).images
        if not there.capacity:
            message = "invalid capacity 0 on image filesystem"
            self._recorder.record_node(EventType.WARNING, Reason.INVALID_DISK_CAPACITY, message)
            return
        wanted = bytes_to_free(there, self._policy)
        if not wanted:
            return
        freed = self._free(wanted, now)
        if freed < wanted:
            message = (
                f"Failed to garbage collect required amount of images. Attempted to free {wanted} bytes, but only found"
                f" {freed} bytes eligible to free."
            )
            _log.warning("%s", message)
            self._recorder.record_node(EventType.WARNING, Reason.FREE_DISK_SPACE_FAILED, message)

    def remove_unused(self) -> int:
        """Remove every image that is not in use (DeleteUnusedImages); how many bytes that were. Raises CriError."""
        return self._free(None, self._look())

    def _look(self) -> float:
        now = self._clock.monotonic()
        pinned = sandbox_images(self._runtime)
        in_use = names_in_use(self._runtime.list_containers(), self._pods())
        self._records = observed(self._records, self._runtime.list_images(), in_use, pinned, now)
        return now

    def _free(self, wanted: int | None, now: float) -> int:
        """Remove unused images until so many bytes are free; None: all."""
        freed = 0
        for record in unused(self._records, now, self._policy.minimum_age):
            if wanted is not None and freed >= wanted:
                break
            freed += self._remove([record])
        return freed

    def _remove(self, records: Iterable[ImageRecord]) -> int:
        """Remove images; how many bytes that were. One that cannot be removed is left for the next time."""
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
    """Collect, and tell of it as an event when that fails (kubelet's StartGarbageCollection). Raises as `collect`."""
    try:
        collector.collect()
    except (CriError, MachineError) as error:
        recorder.record_node(EventType.WARNING, Reason.IMAGE_GC_FAILED, str(error))
        raise


def images_directory(runtime: ContainerRuntime) -> Path | None:
    """Where the runtime has its images; None when it does not say. Raises CriError."""
    answers = runtime.image_fs_info()
    mountpoint = answers[0].fs_id.mountpoint if answers else ""
    return Path(mountpoint) if mountpoint.startswith("/") else None


def sandbox_images(runtime: ContainerRuntime) -> frozenset[str]:
    """The image of the runtime's sandboxes, which older ones do not pin: without it no pod starts, and offline nobody
    could get it again. containerd and CRI-O say it in their verbose status. Raises CriError.
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
