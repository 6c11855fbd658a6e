"""The layers and blobs of the store on the disk: sizes of layers, and the removal of unneeded layers and blobs."""

from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from beehive.clock import Clock
from beehive.decoding import decode_json
from beehive.files.reading import read_file
from modules.runtimes.oci.images.model import LayerUsage, StorageUsage, StoredImage
from modules.runtimes.oci.images.worker.store_layout import TEMPORARY, StoreLayout
from modules.runtimes.oci.images.worker_process import Needs

_LONGEST_RECORD: Final = 64 * 1024
_PARTS_SECONDS: Final = 24 * 3600.0
"""Seconds that an interrupted pull can be resumed."""
_SHA256: Final = "sha256:"


class Layers:
    """The layers, by chain id. Not thread-safe: the store has the lock.

    Args:
        layout: the store's paths.
        clock: its ids name the discarded directories and files in the trash.
    """

    def __init__(self, layout: StoreLayout, clock: Clock) -> None:
        self._layout = layout
        self._clock = clock
        self._usage: dict[str, LayerUsage] = {}

    def present(self, chain_id: str) -> bool:
        """Whether the store has a layer."""
        return self._layout.layer(chain_id).is_dir()

    def usage(self, chain: Iterable[str]) -> int:
        """Return the bytes of some layers."""
        return sum(self._of(chain_id).bytes for chain_id in chain)

    def total(self) -> StorageUsage:
        """Return the disk usage of all layers, by their records."""
        found = [self._of(chain_id) for chain_id in self._all()]
        return StorageUsage(sum(each.bytes for each in found), sum(each.inodes for each in found))

    def discard_unneeded(self, images: Iterable[StoredImage], needs: Iterable[Needs], *, is_idle: bool) -> None:
        """Rename layers and blobs that neither an image nor a worker needs into the trash.

        Args:
            images: all images of the index.
            needs: layers and blobs of the images on which workers work.
            is_idle: whether no worker runs; then the files that ended workers have left go, too.

        Raises:
            OSError: a rename failed; the layers and blobs that were not renamed stay.
        """
        layers: set[str] = set()
        blobs: set[str] = set()
        for image in images:
            layers.update(image.chain)
            blobs.update(image.blobs)
        for need in needs:
            layers.update(need.layers)
            blobs.update(need.blobs)
        self._discard_others(layers)
        for path in self._layout.blobs.glob("*/*"):
            if f"{path.parent.name}:{path.name}" not in blobs:
                self.throw_away(path)
        if is_idle:
            self.drop_unfinished()
            self._drop_old_parts()

    def _discard_others(self, marked: Collection[str]) -> None:
        for chain_id in self._all():
            if chain_id not in marked:
                self.throw_away(self._layout.layer(chain_id))
                self._usage.pop(chain_id, None)

    def throw_away(self, path: Path) -> None:
        """Rename a file or directory into the trash. Raises OSError."""
        path.rename(self._layout.trash / f"{path.name}.{self._clock.new_id()}")

    def drop_unfinished(self) -> None:
        """Discard incomplete layers of an earlier edgecore's workers. Raises OSError."""
        for path in self._layout.layers.iterdir():
            if path.name.startswith(TEMPORARY):
                self.throw_away(path)

    def _drop_old_parts(self) -> None:
        """Discard locks, and old downloads of interrupted pulls."""
        before = self._clock.now() - _PARTS_SECONDS
        for path in self._layout.ingest.iterdir():
            if path.suffix == ".lock" or path.stat().st_mtime < before:
                self.throw_away(path)

    def _all(self) -> list[str]:
        names = [path.name for path in self._layout.layers.iterdir()]
        return [_SHA256 + name for name in names if not name.startswith(".")]

    def _of(self, chain_id: str) -> LayerUsage:
        known = self._usage.get(chain_id)
        if known is None:
            known = LayerUsage(0, 0)
            with suppress(OSError, msgspec.MsgspecError):
                known = decode_json(read_file(self._layout.record(chain_id), _LONGEST_RECORD), LayerUsage)
            self._usage[chain_id] = known
        return known
