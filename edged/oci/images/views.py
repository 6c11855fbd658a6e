"""Stored images as CRI shows them."""

from edged.oci.images.model import StoredImage
from protos.cri.v1 import api_pb2 as cri

_LARGEST_ID = (1 << 32) - 1


def cri_image(image: StoredImage, pinned: bool = False) -> cri.Image:
    """Return CRI's Image."""
    user = image.config.user.partition(":")[0]
    is_number = user.isascii() and user.isdigit() and int(user[:20]) <= _LARGEST_ID
    return cri.Image(
        id=image.id,
        repo_tags=image.repo_tags,
        repo_digests=image.repo_digests,
        size=image.size,
        uid=cri.Int64Value(value=int(user)) if is_number else None,
        username="" if is_number else user,
        pinned=pinned,
    )
