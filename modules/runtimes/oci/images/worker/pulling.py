"""Pulls one image from a registry into the store."""

import shutil
import threading
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from beehive.on_failure import on_failure
from modules.runtimes.oci.images.worker.authorization import credentials_for
from modules.runtimes.oci.images.worker.blob_file import BlobFile
from modules.runtimes.oci.images.worker.conversation import Conversation, FinishedImage
from modules.runtimes.oci.images.worker.digests import chain_ids
from modules.runtimes.oci.images.worker.documents import (
    INDEXES,
    Config,
    Descriptor,
    Manifest,
    kind_of,
    parse_config,
    parse_document,
    parse_index,
    parse_manifest,
)
from modules.runtimes.oci.images.worker.errors import LIMIT, MACHINE, ImageWorkError, invalid
from modules.runtimes.oci.images.worker.hosts import endpoints_of
from modules.runtimes.oci.images.worker.layer_progress import LayersProgress
from modules.runtimes.oci.images.worker.limits import LOOK_AT_DISK_EVERY, UnpackLimits
from modules.runtimes.oci.images.worker.platforms import Platform, fitting, own_platform, rank_of
from modules.runtimes.oci.images.worker.publication import Publication
from modules.runtimes.oci.images.worker.references import Reference, parse_reference
from modules.runtimes.oci.images.worker.repository import Repository
from modules.runtimes.oci.images.worker.retries import RetryPolicy
from modules.runtimes.oci.images.worker.store_layout import StoreLayout
from modules.runtimes.oci.images.worker.unpack import LayerSource
from modules.runtimes.oci.images.worker.unpacker import Unpacker

_FREE_SPACE: Final = "free some space"
_DEPTH: Final = 2
_MOST_TRIED: Final = 8
"""Entries of an index without a platform whose configs are read."""


class _Found(NamedTuple):
    """An image in the registry."""

    digest: str
    documents: dict[str, bytes]
    manifest: Manifest
    config: Config


def pull(request: Mapping[str, Any], conversation: Conversation) -> None:
    """Pull the image that a request names, and report it; report none if it is one of the `known` digests still.

    Raises ImageWorkError and OSError.
    """
    reference = parse_reference(request["reference"])
    waiting = RetryPolicy(**request["waiting"])
    endpoints = endpoints_of(reference.host, Path(request["registries"]))
    credentials = credentials_for(request["auth"], reference.host)
    registry = Repository(reference.host, reference.path, endpoints, credentials, waiting)
    if request["known"] and not reference.digest and registry.digest_of(reference.tag) in request["known"]:
        conversation.finish([])
        return
    found = _resolve(registry, reference, own_platform())
    chain = chain_ids(found.config.diff_ids)
    conversation.need(chain, (*found.documents, *(each.digest for each in found.manifest.layers)))
    layout, limits = StoreLayout(Path(request["root"])), UnpackLimits(**request["limits"])
    with Publication(layout, limits) as publication:
        publication.add_documents(found.documents)
        is_synced = _add_layers(_Work(registry, layout, limits, conversation), found, chain, request["parallel"])
        if request["keep_blobs"]:
            _keep(found.manifest.layers, layout, reference.host, publication)
        publication.publish(is_synced=is_synced)
    _drop_parts(found.manifest.layers, layout, reference.host)
    blobs = {each.digest: each.size for each in found.manifest.layers if layout.blob(each.digest).exists()}
    sizes = {digest: len(content) for digest, content in found.documents.items()}
    conversation.finish(
        [FinishedImage([reference], found.digest, found.manifest.config.digest, found.config, chain, sizes, blobs)]
    )


def _keep(layers: Sequence[Descriptor], layout: StoreLayout, registry: str, publication: Publication) -> None:
    """Make the fetched layers blobs of the store; they are whole, for they were unpacked."""
    for each in layers:
        part = layout.part(each.digest, each.size, registry)
        if part.exists():
            publication.add_file(each.digest, part)


def _drop_parts(layers: Sequence[Descriptor], layout: StoreLayout, registry: str) -> None:
    for each in layers:
        layout.part(each.digest, each.size, registry).unlink(missing_ok=True)


class _Work(NamedTuple):
    registry: Repository
    layout: StoreLayout
    limits: UnpackLimits
    conversation: Conversation


def _add_layers(work: _Work, found: _Found, chain: tuple[str, ...], parallel: int) -> bool:
    """Fetch and unpack the missing layers: a layer is unpacked while the layers above it are fetched.

    Returns whether the disk was synced.
    """
    missing = [number for number, each in enumerate(chain) if not work.layout.layer(each).is_dir()]
    layers = found.manifest.layers
    wanted = [layers[each] for each in missing]
    progress = LayersProgress(wanted, work.conversation.progress)
    downloads = Downloads(work.registry, work.layout, wanted, progress)
    downloads.start(parallel, work.limits.reserve)
    unpacker = Unpacker(work.layout.root, work.limits)
    try:
        for number in missing:
            blob = downloads.wait(layers[number].digest)
            with on_failure(blob.remove):
                source = LayerSource(blob.descriptor, 0, layers[number].size)
                unpacked = partial(progress.set_unpacked, layers[number].digest)
                unpacker.add_layer(source, found.config.diff_ids[number], chain[: number + 1], unpacked)
        return unpacker.publish()
    finally:
        unpacker.close()


# resolution


def _resolve(registry: Repository, reference: Reference, own: Platform) -> _Found:
    """Return the image of a reference for this machine. Raises ImageWorkError."""
    content, kind, digest = registry.manifest(reference.digest or reference.tag)
    documents = {digest: content}
    document = parse_document(content, "the manifest")
    if kind_of(document, kind) in INDEXES:
        found = _out_of_index(registry, parse_index(document), own, documents, _DEPTH)
    else:
        found = _of_manifest(registry, content, own, documents)
    if found is None:
        raise invalid(f"there is no image for linux/{own.architecture} under this name")
    return found._replace(digest=digest)


def _out_of_index(
    registry: Repository, entries: tuple[Descriptor, ...], own: Platform, documents: dict[str, bytes], depth: int
) -> _Found | None:
    for each in fitting(entries, own)[:_MOST_TRIED]:
        content, kind, _ = registry.manifest(each.digest)
        known = {**documents, each.digest: content}
        document = parse_document(content, "the manifest")
        if kind_of(document, kind) not in INDEXES:
            found = _of_manifest(registry, content, own, known)
        elif depth > 1:
            found = _out_of_index(registry, parse_index(document), own, known, depth - 1)
        else:
            raise invalid("the image's indexes are nested too deeply")
        if found is not None:
            return found
    return None


def _of_manifest(registry: Repository, content: bytes, own: Platform, documents: dict[str, bytes]) -> _Found | None:
    """Return the image of a manifest; None if it is for another platform."""
    manifest = parse_manifest(parse_document(content, "the manifest"))
    text = registry.document(manifest.config)
    config = parse_config(text)
    if config.platform["architecture"] and rank_of(config.platform, own) is None:
        return None
    if len(manifest.layers) != len(config.diff_ids):
        raise invalid("the image has not as many layers as its config says")
    return _Found("", {**documents, manifest.config.digest: text}, manifest, config)


class Downloads:
    """The layers of one image. The threads end with the process.

    Args:
        registry: the registry that has them.
        layout: of the store.
        layers: the missing layers, the lowest first.
        progress: counts the fetched bytes.
    """

    def __init__(
        self,
        registry: Repository,
        layout: StoreLayout,
        layers: Sequence[Descriptor],
        progress: LayersProgress,
    ) -> None:
        self._registry = registry
        self._layout = layout
        self._waiting = list(dict.fromkeys(each.digest for each in layers))[::-1]
        self._wanted = {each.digest: each for each in layers}
        self._progress = progress
        self._changed = threading.Condition()
        self._fetched: dict[str, BlobFile] = {}
        self._failure: ImageWorkError | None = None
        self._until_look = LOOK_AT_DISK_EVERY
        self._reserve = 0

    def start(self, parallel: int, reserve: int) -> None:
        """Begin, with so many at a time. Raises ImageWorkError without room on the disk."""
        self._reserve = reserve
        free = shutil.disk_usage(self._layout.ingest).free
        total = sum(each.size - self._present(each) for each in self._wanted.values())
        if total > free - reserve:
            raise ImageWorkError(LIMIT, f"{total} bytes of the image do not fit on the disk", _FREE_SPACE)
        for _ in range(min(parallel, len(self._waiting))):
            threading.Thread(target=self._work, daemon=True).start()

    def wait(self, digest: str) -> BlobFile:
        """Wait for a blob and return its file. Raises ImageWorkError when any blob cannot be fetched."""
        with self._changed:
            self._changed.wait_for(lambda: self._failure is not None or digest in self._fetched)
            if self._failure is not None:
                raise self._failure
            return self._fetched[digest]

    def _work(self) -> None:
        while (descriptor := self._next()) is not None:
            try:
                self._put(descriptor.digest, self._fetch(descriptor))
            except ImageWorkError as error:
                self._fail(error)
            except Exception as error:  # noqa: BLE001 - the pull would wait for this layer for ever
                self._fail(ImageWorkError(MACHINE, f"a layer cannot be fetched: {type(error).__name__}: {error}"))

    def _next(self) -> Descriptor | None:
        with self._changed:
            return self._wanted[self._waiting.pop()] if self._waiting and self._failure is None else None

    def _put(self, digest: str, blob: BlobFile) -> None:
        with self._changed:
            self._fetched[digest] = blob
            self._changed.notify_all()

    def _fail(self, error: ImageWorkError) -> None:
        with self._changed:
            self._failure = self._failure or error
            self._changed.notify_all()

    def _present(self, descriptor: Descriptor) -> int:
        """Return the bytes of a blob that an earlier pull has left."""
        try:
            return min(self._part(descriptor).stat().st_size, descriptor.size)
        except FileNotFoundError:
            return 0

    def _part(self, descriptor: Descriptor) -> Path:
        return self._layout.part(descriptor.digest, descriptor.size, self._registry.name)

    def _fetch(self, descriptor: Descriptor) -> BlobFile:
        """Fetch one blob under its lock: another pull from this registry may be fetching it."""
        part = self._part(descriptor)
        with self._layout.locked(part.stem):
            blob = BlobFile(part, descriptor.digest, descriptor.size)
            self._progress.add_fetched(descriptor.digest, blob.position())
            self._registry.fetch(descriptor, blob, partial(self._count, descriptor.digest))
            return blob

    def _count(self, digest: str, size: int) -> None:
        """Count fetched bytes, and look at the disk from time to time: other pulls fill it as well."""
        self._progress.add_fetched(digest, size)
        with self._changed:
            self._until_look -= size
            looks = self._until_look <= 0
            if looks:
                self._until_look = LOOK_AT_DISK_EVERY
        if looks and shutil.disk_usage(self._layout.ingest).free < self._reserve:
            raise ImageWorkError(LIMIT, f"less than {self._reserve} bytes of the disk would stay free", _FREE_SPACE)
