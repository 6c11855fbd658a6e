"""Names of stored images."""

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from modules.runtimes.oci.images.model import StoredImage
from modules.runtimes.oci.images.worker.errors import ImageWorkError
from modules.runtimes.oci.images.worker.references import parse_reference

ONE_NAME: Final = "edgecore.io/one-name"
"""Annotation of the image in a RemoveImage request that asks to remove one of several names only, as `edgecore images
remove` does. Without it a name stands for the image with all its names, as critest and containerd have it.
"""


def name_of(text: str) -> str:
    """Return the full name that a person's or Kubernetes' name stands for; "" if it is no name."""
    try:
        reference = parse_reference(text)
    except ImageWorkError:
        return ""
    return reference.tagged or f"{reference.repository}@{reference.digest}"


def with_names(image: StoredImage, before: StoredImage) -> StoredImage:
    """Return an image that was fetched again with the names that it had before as well."""
    return replace(
        image,
        repo_tags=tuple(dict.fromkeys((*before.repo_tags, *image.repo_tags))),
        repo_digests=tuple(dict.fromkeys((*before.repo_digests, *image.repo_digests))),
        documents={**before.documents, **image.documents},
        layer_blobs={**before.layer_blobs, **image.layer_blobs},
    )


def without_names(image: StoredImage, tags: Iterable[str]) -> StoredImage:
    """Return an image without tags that belong to another one now. Its digests stay its names."""
    gone = set(tags)
    return replace(image, repo_tags=tuple(tag for tag in image.repo_tags if tag not in gone))


def without_name(image: StoredImage, text: str) -> StoredImage | None:
    """Return an image without one of its names; None if the text is no name of it, such as its id, or if the image has
    no other tag, known to people.
    """
    gone = {text, name_of(text)} & set(image.names)
    tags = tuple(tag for tag in image.repo_tags if tag not in gone)
    if not gone or not tags:
        return None
    return replace(image, repo_tags=tags, repo_digests=tuple(name for name in image.repo_digests if name not in gone))
