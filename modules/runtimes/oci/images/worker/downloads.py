"""Fetches the layers of an image, several at a time, each blob once however many pulls want it."""

import shutil
import threading
from collections.abc import Sequence
from functools import partial
from http.client import HTTPException

from modules.runtimes.oci.images.worker.blob_file import BlobFile
from modules.runtimes.oci.images.worker.documents import Descriptor
from modules.runtimes.oci.images.worker.errors import LIMIT, MACHINE, ImageWorkError
from modules.runtimes.oci.images.worker.layer_progress import LayersProgress
from modules.runtimes.oci.images.worker.repository import Repository
from modules.runtimes.oci.images.worker.store_layout import StoreLayout


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

    def start(self, parallel: int, reserve: int) -> None:
        """Begin, with so many at a time. Raises ImageWorkError without room on the disk."""
        free = shutil.disk_usage(self._layout.ingest).free
        total = sum(each.size for each in self._wanted.values())
        if total > free - reserve:
            raise ImageWorkError(LIMIT, f"the image's {total} bytes do not fit on the disk", "free some space")
        for _ in range(min(parallel, len(self._waiting))):
            threading.Thread(target=self._work, daemon=True).start()

    def take(self, digest: str) -> BlobFile:
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
            except (OSError, HTTPException, MemoryError, RecursionError) as error:
                self._fail(ImageWorkError(MACHINE, f"a layer cannot be fetched: {error}"))

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

    def _fetch(self, descriptor: Descriptor) -> BlobFile:
        """Fetch one blob under its lock: another pull may be fetching it."""
        part = self._layout.part(descriptor.digest)
        with self._layout.locked(part.stem):
            blob = BlobFile(part, descriptor.digest, descriptor.size)
            fetched = partial(self._progress.add_fetched, descriptor.digest)
            fetched(blob.position())
            self._registry.fetch(descriptor, blob, fetched)
            return blob
