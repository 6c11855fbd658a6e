"""Images to remove (kubelet's image GC manager). Pure.

The runtime does not report when an image was used, so each listing is remembered: an image is in use if a container
(running or dead), or a pod of this node that has not ended, names it. The image that was unused for longest is removed
first, until the file system of the images is free enough. Pinned images and the sandboxes' image are never removed.

Unlike in a kubelet, an image that a pod names is in use even without a container: an offline node could not pull it
again.

Times are monotonic seconds, so that a corrected wall clock ages no image.
"""

from collections.abc import Container, Iterable, Mapping

from msgspec import Struct

from edged.api import Pod
from edged.images.names import listed_name
from edged.node.machine import FileSystem
from edged.pods.restart import is_terminal
from edged.settings.gc import ImagePolicy
from protos.cri.v1 import api_pb2 as cri


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
