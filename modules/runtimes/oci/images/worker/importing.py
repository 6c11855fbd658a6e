"""Imports the images of an archive."""

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from modules.runtimes.oci.images.worker.archive import Archive
from modules.runtimes.oci.images.worker.archived_images import ArchivedImage, images_of
from modules.runtimes.oci.images.worker.blob_file import BlobFile
from modules.runtimes.oci.images.worker.compression import PlainBytes, is_compressed
from modules.runtimes.oci.images.worker.conversation import Conversation, FinishedImage
from modules.runtimes.oci.images.worker.digests import chain_ids
from modules.runtimes.oci.images.worker.errors import LIMIT, ImageWorkError, beyond_limit, invalid
from modules.runtimes.oci.images.worker.limits import LOOK_AT_DISK_EVERY, MIB, RATIO_AFTER, UnpackLimits
from modules.runtimes.oci.images.worker.platforms import own_platform
from modules.runtimes.oci.images.worker.publication import Publication
from modules.runtimes.oci.images.worker.store_layout import StoreLayout
from modules.runtimes.oci.images.worker.unpack import LayerSource, reading

_FIRST: Final = 4


@contextmanager
def plain_archive(descriptor: int, directory: Path, limits: UnpackLimits) -> Iterator[int]:
    """Yield a descriptor of the archive as it is, or of its plain content in a file without a name.

    Args:
        descriptor: of the archive, a regular file.
        directory: for the plain content.
        limits: of that.

    Raises:
        ImageWorkError: it cannot be decompressed, or is larger than the limits.
        OSError: the machine refuses something.
    """
    if not is_compressed(os.pread(descriptor, _FIRST, 0)):
        yield descriptor
        return
    with tempfile.TemporaryFile(dir=directory, buffering=0) as file:
        _decompress(descriptor, file.fileno(), limits)
        yield file.fileno()


def _decompress(source: int, target: int, limits: UnpackLimits) -> None:
    plain = PlainBytes(reading(LayerSource(source, 0, os.fstat(source).st_size)))
    size = looked_at = 0
    while piece := plain.next():
        size += len(piece)
        if size > limits.size:
            raise beyond_limit(f"the archive has more than {limits.size} bytes")
        if size > RATIO_AFTER and size > limits.ratio * plain.consumed:
            raise beyond_limit(f"the archive is more than {limits.ratio} times as large as it came")
        if size - looked_at >= LOOK_AT_DISK_EVERY:
            looked_at = size
            _look_at_disk(target, limits.reserve)
        view = memoryview(piece)
        while view:
            view = view[os.write(target, view) :]


def _look_at_disk(descriptor: int, reserve: int) -> None:
    found = os.fstatvfs(descriptor)
    if found.f_bavail * found.f_frsize < reserve:
        raise ImageWorkError(LIMIT, f"less than {reserve} bytes of the disk would stay free", "free some space")


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
