"""Which images a node need not keep (kubelet's image GC manager).

The runtime does not say when an image was used, so what is seen at each look is remembered: an image that a container
(dead or alive), or a pod of this node that has not ended, names is in use now. What was not used for longest goes
first, until the file system of the images is as free as it should be. Images that the runtime has pinned, and that of
its sandboxes, are never removed.

Otherwise than with a kubelet, an image that a pod names counts as in use even without a container: a node that is
offline could not get it again.

Times are monotonic seconds, so that a clock that is put right makes no image old. Pure.
"""

from collections.abc import Container, Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from edged.api import Pod
from edged.gc.settings import ImagePolicy
from edged.images.names import ImageNameError, parse_image
from edged.node.machine import FileSystem
from edged.pods.restart import is_terminal
from protos.cri.v1 import api_pb2 as cri


class ImageRecord(Struct, frozen=True, gc=False):
    """What is known of one image; times are monotonic seconds."""

    id: str
    size: int
    """Bytes."""
    pinned: bool
    first_seen: float
    last_used: float = float("-inf")


Records = Mapping[str, ImageRecord]


def observed(
    records: Records, images: Iterable[cri.Image], in_use: Container[str], pinned: Container[str], now: float
) -> dict[str, ImageRecord]:
    """The records after a look.

    Args:
        records: before.
        images: those that are there.
        in_use: names and ids of images that are used now.
        pinned: names of images that are never to be removed.
        now: of the look.
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
    """Every name by which an image is used now."""
    names = {name for c in containers for name in (c.image.image, c.image_ref, c.image_id)}
    for pod in pods:
        if not is_terminal(pod):
            names |= {_full(container.image) for container in pod.spec.all_containers}
    return names - {""}


def bytes_to_free(there: FileSystem, policy: ImagePolicy) -> int:
    """How much has to go until the low threshold is reached; 0 while the high one is not."""
    available = min(there.available, there.capacity)
    if policy.high >= 100 or not there.capacity or 100 - available * 100 // there.capacity < policy.high:
        return 0
    return max(0, there.capacity * (100 - policy.low) // 100 - available)


def unused(records: Records, now: float, minimum_age: float) -> list[ImageRecord]:
    """Those that may be removed, the one that was not used for longest first, of several the one known for longest."""
    free = [r for r in records.values() if not r.pinned and r.last_used < now and now - r.first_seen >= minimum_age]
    return sorted(free, key=lambda record: (record.last_used, record.first_seen, record.id))


def too_old(records: Records, now: float, policy: ImagePolicy, began: float) -> list[ImageRecord]:
    """Those that were not used for too long. Nobody knows what was used before this began to look, so that none is
    before that time has passed (kubelet's freeOldImages).
    """
    if not policy.maximum_age or now - began <= policy.maximum_age:
        return []
    return [r for r in unused(records, now, policy.minimum_age) if now - r.last_used > policy.maximum_age]


def _full(name: str) -> str:
    """As the runtime lists it: of a name with a tag and a digest the tag is dropped (Docker's ParseDockerRef)."""
    try:
        image = parse_image(name)
    except ImageNameError:
        return name
    return str(replace(image, tag="") if image.digest else image)
