"""Imports the images of an archive."""

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from beehive.files.descriptors import OwnedFd
from beehive.nesting import read_json
from modules.runtimes.oci.images.worker.archive import Archive, blob_name
from modules.runtimes.oci.images.worker.blob_file import BlobFile
from modules.runtimes.oci.images.worker.compression import PlainBytes, is_compressed
from modules.runtimes.oci.images.worker.conversation import Conversation, FinishedImage
from modules.runtimes.oci.images.worker.digests import chain_ids, sha256_of
from modules.runtimes.oci.images.worker.documents import (
    INDEXES,
    Config,
    Descriptor,
    kind_of,
    parse_config,
    parse_document,
    parse_index,
    parse_manifest,
)
from modules.runtimes.oci.images.worker.errors import LIMIT, ImageWorkError, beyond_limit, invalid
from modules.runtimes.oci.images.worker.limits import (
    LONGEST_MANIFEST,
    LOOK_AT_DISK_EVERY,
    MIB,
    MOST_LAYERS,
    RATIO_AFTER,
    UnpackLimits,
)
from modules.runtimes.oci.images.worker.platforms import Platform, fitting, own_platform, rank_of
from modules.runtimes.oci.images.worker.publication import Publication
from modules.runtimes.oci.images.worker.references import Reference, parse_reference
from modules.runtimes.oci.images.worker.store_layout import StoreLayout
from modules.runtimes.oci.images.worker.unpack import LayerSource, reading

_MOST_IMAGES: Final = 256
_NAMES: Final = ("io.containerd.image.name", "org.opencontainers.image.ref.name")
"""Annotations with the name of an image, the full one first."""
_DEPTH: Final = 2

_FIRST: Final = 4


class ArchivedImage(NamedTuple):
    """One image of an archive."""

    names: tuple[Reference, ...]
    digest: str
    """Digest of its topmost document; empty for an archive of `docker save`."""
    documents: dict[str, bytes]
    """Index, manifest and config by digest."""
    config_digest: str
    config: Config
    layers: tuple[LayerSource, ...]
    layer_digests: tuple[str, ...]
    """Digests of the layers as they are in the archive."""


def images_of(archive: Archive, own: Platform) -> list[ArchivedImage]:
    """Return the images of an archive that this machine runs.

    Raises ImageWorkError without an image, or for a wrong one.
    """
    if archive.has("oci-layout") and archive.has("index.json"):
        found = list(_of_layout(archive, own))
    elif archive.has("manifest.json"):
        found = [_of_docker(archive, each) for each in _saved(archive)]
    else:
        raise invalid("it is no archive of images", "docker save makes one, and ctr images export")
    fitting_here = [each for each in found if _runs_here(each.config, own)]
    if not fitting_here:
        others = ", ".join(sorted({f"linux/{each.config.platform['architecture']}" for each in found}))
        only = f", but for {others}" if others else ""
        raise invalid(f"the archive has no image for linux/{own.architecture}{only}")
    return fitting_here


def _runs_here(config: Config, own: Platform) -> bool:
    """Return whether an image is for this machine; one that does not say is taken, as in a pull."""
    platform = {**config.platform, "os": config.platform["os"] or "linux"}
    return not platform["architecture"] or rank_of(platform, own) is not None


# docker save


def _saved(archive: Archive) -> list[dict[str, Any]]:
    content = archive.read("manifest.json")
    try:
        found = read_json(content)
    except ValueError:
        raise invalid("manifest.json is no JSON") from None
    if not isinstance(found, list) or len(found) > _MOST_IMAGES or not all(isinstance(each, dict) for each in found):
        raise invalid("manifest.json is no list of images, or has too many")
    return found


def _of_docker(archive: Archive, saved: dict[str, Any]) -> ArchivedImage:
    content = archive.read(_text(saved.get("Config")))
    layers, names = saved.get("Layers") or [], saved.get("RepoTags") or []
    if not isinstance(layers, list) or not isinstance(names, list) or len(layers) > MOST_LAYERS:
        raise invalid("manifest.json has an image without a list of layers, or with too many")
    digest = sha256_of(content)
    config = parse_config(content)
    image = ArchivedImage(
        tuple(parse_reference(_text(each)) for each in names[:_MOST_IMAGES]),
        "",
        {digest: content},
        digest,
        config,
        tuple(archive.layer(_text(each)) for each in layers),
        config.diff_ids,
    )
    return _checked(image)


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value or len(value) > LONGEST_MANIFEST:
        raise invalid("manifest.json has no text where a name is wanted")
    return value


# OCI layouts


def _of_layout(archive: Archive, own: Platform) -> Iterator[ArchivedImage]:
    saved = _names_saved(archive)
    by_digest: dict[str, ArchivedImage] = {}
    taken: set[Reference] = set()
    for each in fitting(parse_index(parse_document(archive.read("index.json"), "index.json"))[:_MOST_IMAGES], own):
        documents: dict[str, bytes] = {}
        manifest = _manifest_for(archive, each, own, documents, _DEPTH)
        if manifest is None:
            continue
        image = _of_manifest(archive, each.digest, manifest, documents)
        names = (*_names(each), *saved.get(image.config_digest, ()))
        if each.platform and image.digest not in by_digest and taken.issuperset(names) and names:
            continue  # the archive has the image for a platform that fits better
        taken.update(names)
        known = by_digest.get(image.digest, image)
        by_digest[image.digest] = known._replace(names=tuple(dict.fromkeys((*known.names, *names))))
    yield from by_digest.values()


def _manifest_for(
    archive: Archive, descriptor: Descriptor, own: Platform, documents: dict[str, bytes], depth: int
) -> bytes | None:
    """Return the manifest behind a descriptor for this machine, and note the documents on the way."""
    content = documents[descriptor.digest] = archive.blob(descriptor.digest)
    document = parse_document(content, "an index or manifest")
    if kind_of(document, descriptor.media_type) not in INDEXES:
        return content
    if not depth:
        raise invalid("the image's indexes are nested too deeply")
    for each in fitting(parse_index(document), own):
        if archive.has(blob_name(each.digest)):
            return _manifest_for(archive, each, own, documents, depth - 1)
    return None


def _of_manifest(archive: Archive, digest: str, content: bytes, documents: dict[str, bytes]) -> ArchivedImage:
    manifest = parse_manifest(parse_document(content, "the manifest"))
    config = documents[manifest.config.digest] = archive.blob(manifest.config.digest)
    layers = tuple(archive.layer(blob_name(each.digest)) for each in manifest.layers)
    digests = tuple(each.digest for each in manifest.layers)
    image = ArchivedImage((), digest, documents, manifest.config.digest, parse_config(config), layers, digests)
    return _checked(image)


def _names(descriptor: Descriptor) -> tuple[Reference, ...]:
    """Return the name in the annotations; a tag alone, as skopeo writes it, does not count."""
    for key in _NAMES:
        text = descriptor.annotations.get(key)
        if isinstance(text, str) and (key == _NAMES[0] or "/" in text or ":" in text):
            try:
                return (parse_reference(text),)
            except ImageWorkError:
                continue
    return ()


def _names_saved(archive: Archive) -> dict[str, tuple[Reference, ...]]:
    """Return the names that a newer `docker save` writes in manifest.json, by the config's digest."""
    if not archive.has("manifest.json"):
        return {}
    found = {}
    for each in _saved(archive):
        config = _text(each.get("Config")).rpartition("/")[2]
        names = each.get("RepoTags") or []
        if isinstance(names, list):
            found[f"sha256:{config}"] = tuple(parse_reference(_text(name)) for name in names[:_MOST_IMAGES])
    return found


def _checked(image: ArchivedImage) -> ArchivedImage:
    if len(image.layers) != len(image.config.diff_ids):
        raise invalid("the image has not as many layers as its config says")
    return image


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
    if not _is_compressed(LayerSource(descriptor, 0, 0)):
        yield descriptor
        return
    with tempfile.TemporaryFile(dir=directory, buffering=0) as file:
        _decompress(descriptor, file.fileno(), limits)
        yield file.fileno()


def _is_compressed(source: LayerSource) -> bool:
    return is_compressed(os.pread(source.descriptor, _FIRST, source.offset))


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
            _check_disk(target, limits.reserve)
        view = memoryview(piece)
        while view:
            view = view[os.write(target, view) :]


def _check_disk(descriptor: int, reserve: int) -> None:
    found = os.fstatvfs(descriptor)
    if found.f_bavail * found.f_frsize < reserve:
        raise ImageWorkError(LIMIT, f"less than {reserve} bytes of the disk would stay free", "free some space")


def import_archive(path: Path, layout: StoreLayout, request: Mapping[str, Any], conversation: Conversation) -> None:
    """Add the images of the archive at `path` to the store, and report them. Raises ImageWorkError and OSError."""
    limits = UnpackLimits(**request["limits"])
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC  # nobody may write into a FIFO
    with OwnedFd(os.open(path, flags)) as descriptor, plain_archive(descriptor, layout.ingest, limits) as plain:
        _import(Archive(plain), layout, limits, conversation, keeps=request["keep_blobs"])


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
    """The copying of layers out of an archive, as they are in it."""

    def __init__(self, layout: StoreLayout, publication: Publication) -> None:
        self._layout = layout
        self._publication = publication

    def layers(self, image: ArchivedImage) -> dict[str, int]:
        """Copy the layers that the store lacks; return the bytes of all by digest.

        An archive of `docker save` names no digest of a compressed layer, as some builders have: such a one is left.
        """
        layers = zip(image.layer_digests, image.layers, strict=True)
        found = {digest: source for digest, source in layers if image.digest or not _is_compressed(source)}
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
