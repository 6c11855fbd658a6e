"""The node status' list of images: the largest ones, which matter most to a scheduler that prefers nodes with the
image.
"""

from collections.abc import Iterable

from edged.api.nodes import ContainerImage
from protos.cri.v1 import api_pb2 as cri

MOST_NAMES = 5
"""Names of one image in the list (kubelet's MaxNamesPerImageInNodeStatus)."""


def largest_images(images: Iterable[cri.Image], most: int) -> tuple[ContainerImage, ...]:
    """Return the largest `most` images (-1: all) with their names, digests first, as a kubelet orders them.

    Images of one size are sorted by name, so that the status changes only when the images do. Images without a name are
    left out.
    """
    named = [(image.size, [*sorted(image.repo_digests), *sorted(image.repo_tags)]) for image in images]
    ordered = sorted(((size, names) for size, names in named if names), key=lambda one: (-one[0], one[1]))
    chosen = ordered if most < 0 else ordered[:most]
    return tuple(ContainerImage(names=tuple(names[:MOST_NAMES]), size_bytes=size) for size, names in chosen)
