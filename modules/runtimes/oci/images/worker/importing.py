"""Imports the images of an archive."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from modules.runtimes.oci.images.worker.archive import Archive
from modules.runtimes.oci.images.worker.archived_images import ArchivedImage, images_of
from modules.runtimes.oci.images.worker.blob_file import BlobFile
from modules.runtimes.oci.images.worker.conversation import Conversation, FinishedImage
from modules.runtimes.oci.images.worker.digests import chain_ids
from modules.runtimes.oci.images.worker.errors import invalid
from modules.runtimes.oci.images.worker.limits import MIB, UnpackLimits
from modules.runtimes.oci.images.worker.plain_archive import plain_archive
from modules.runtimes.oci.images.worker.platforms import own_platform
from modules.runtimes.oci.images.worker.publication import Publication
from modules.runtimes.oci.images.worker.store_layout import StoreLayout
from modules.runtimes.oci.images.worker.unpack import LayerSource, reading


def import_archive(path: Path, layout: StoreLayout, request: Mapping[str, Any], conversation: Conversation) -> None:
    """Add the images of the archive at `path` to the store, and report them. Raises ImageWorkError and OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    limits = UnpackLimits(**request["limits"])
    try:
        with plain_archive(descriptor, layout.ingest, limits) as plain:
            _import(Archive(plain), layout, limits, conversation, keeps=request["keep_blobs"])
    finally:
        os.close(descriptor)


def _import(
    archive: Archive, layout: StoreLayout, limits: UnpackLimits, conversation: Conversation, *, keeps: bool
) -> None:
    images = images_of(archive, own_platform())
    chains = [chain_ids(image.config.diff_ids) for image in images]
    conversation.need(
        [each for chain in chains for each in chain],
        [digest for image in images for digest in (*image.documents, *image.layer_digests)],
    )
    with Publication(layout, limits) as publication:
        keep = _Keeping(layout, publication) if keeps else None
        finished = [_add(image, chain, publication, keep) for image, chain in zip(images, chains, strict=True)]
        publication.publish()
    conversation.finish(finished)


def _add(
    image: ArchivedImage, chain: tuple[str, ...], publication: Publication, keep: "_Keeping | None"
) -> FinishedImage:
    for number, (source, diff_id) in enumerate(zip(image.layers, image.config.diff_ids, strict=True), 1):
        publication.add_layer(source, diff_id, chain[:number])
    publication.add_documents(image.documents)
    sizes = {digest: len(content) for digest, content in image.documents.items()}
    blobs = {} if keep is None else keep.layers(image)
    return FinishedImage(image.names, image.digest, image.config_digest, image.config, chain, sizes, blobs)


class _Keeping:
    """Copies layers out of an archive, as they are in it."""

    def __init__(self, layout: StoreLayout, publication: Publication) -> None:
        self._layout = layout
        self._publication = publication

    def layers(self, image: ArchivedImage) -> dict[str, int]:
        """Copy the layers that the store lacks; return the bytes of all by digest."""
        found = dict(zip(image.layer_digests, image.layers, strict=True))
        for digest, source in found.items():
            if not self._layout.blob(digest).exists():
                self._copy(digest, source)
        return {digest: source.size for digest, source in found.items()}

    def _copy(self, digest: str, source: LayerSource) -> None:
        path = self._layout.ingest / f"{digest.replace(':', '-')}.{os.getpid()}"
        self._publication.add_file(digest, path)
        blob = BlobFile(path, digest, source.size)
        read = reading(source)
        try:
            while data := read(MIB):
                blob.write(data)
            if not blob.is_right():
                raise invalid(f"the archive's layer {digest} has another content")
        finally:
            blob.close()
