"""Stored images as CRI shows them."""

from modules.runtimes.oci.images.model import StoredImage
from modules.runtimes.oci.user_numbers import number_in
from protos.cri.v1 import api_pb2 as cri


def cri_image(image: StoredImage) -> cri.Image:
    """Return CRI's Image."""
    uid, username = cri_user(image.config.user)
    return cri.Image(
        id=image.id,
        repo_tags=image.repo_tags,
        repo_digests=image.repo_digests,
        size=image.size,
        uid=uid,
        username=username,
    )


def cri_user(user: str) -> tuple[cri.Int64Value | None, str]:
    """Return the user of an image's config as CRI's `uid`, or as its `username` if it is no number that users have."""
    name = user.partition(":")[0]
    number = number_in(name)
    return (None, name) if number is None else (cri.Int64Value(value=number), "")
