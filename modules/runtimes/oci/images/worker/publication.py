"""Adds layers and documents to the store, so that a power cut at any moment leaves them whole or not at all.

Layers are unpacked beside their places. When all of them are there, everything is put on the disk together (syncfs),
then renamed: a journalling file system may write a rename before the content, and a power cut then leaves empty files
behind valid names. The names are on the disk before edgecore's index, which is written last.

Nothing is locked: of two processes that add the same layer at the same time, the first one's stays.
"""

import errno
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

from beehive.files.descriptors import OwnedFd
from beehive.files.durable import sync_directory
from beehive.files.opening import opener_with
from beehive.files.removal import remove_tree
from modules.runtimes.oci.images.worker.errors import invalid
from modules.runtimes.oci.images.worker.limits import UnpackLimits
from modules.runtimes.oci.images.worker.store_layout import TEMPORARY, StoreLayout
from modules.runtimes.oci.images.worker.unpack import LayerSource, unpack
from modules.runtimes.shim.kernel import sync_file_system

_IS_THERE: Final = (errno.ENOTEMPTY, errno.EEXIST)


class Disk:
    """The machine's disk; a test can fail at each operation. Nothing is durable before the syncs. Every method raises
    OSError.
    """

    def make_directory(self, path: Path) -> None:
        """Make a directory that only this user enters."""
        path.mkdir(mode=0o700)

    def write(self, path: Path, content: bytes) -> None:
        """Write a file."""
        with open(path, "wb", opener=opener_with()) as file:
            file.write(content)

    def sync_everything(self, directory: Path) -> None:
        """Put all of the directory's file system on the disk."""
        with OwnedFd(os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as descriptor:
            sync_file_system(descriptor)

    def publish(self, source: Path, target: Path) -> None:
        """Rename a file or a directory."""
        source.rename(target)

    def sync_directory(self, directory: Path) -> None:
        """Put the names in a directory on the disk."""
        sync_directory(directory)


class Publication:
    """The addition of layers and documents to a store, all or none. Use it as a context manager: its end removes
    unpublished ones.

    Args:
        layout: the store's paths.
        limits: of one layer.
        disk: carries the steps out.
    """

    def __init__(self, layout: StoreLayout, limits: UnpackLimits, disk: Disk | None = None) -> None:
        self._layout = layout
        self._limits = limits
        self._disk = disk or Disk()
        self._layers: dict[str, Path] = {}
        self._documents: dict[Path, Path] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for path in (*self._layers.values(), *self._documents):
            with suppress(OSError):
                remove_tree(path)

    def add_layer(self, source: LayerSource, diff_id: str, chain: Sequence[str]) -> None:
        """Unpack a layer, unless the store has it.

        Args:
            source: its tar.
            diff_id: the digest that the plain tar must have.
            chain: chain ids of the layers below and, last, of this one.

        Raises:
            ImageWorkError: the layer is wrong or too large.
            OSError: the machine refuses.
        """
        target = self._layout.layer(chain[-1])
        if chain[-1] in self._layers or target.is_dir():
            return
        temporary = target.with_name(f"{TEMPORARY}{target.name}.{os.getpid()}")
        remove_tree(temporary)
        self._layers[chain[-1]] = temporary
        self._disk.make_directory(temporary)
        lower = [self._tree(each) for each in reversed(chain[:-1])]
        found = unpack(source, temporary, lower, self._limits)
        if found.diff_id != diff_id:
            raise invalid(f"a layer has the digest {found.diff_id}, but {diff_id} in the image's config")
        remove_tree(temporary / "replaced")
        record = {"bytes": found.size, "inodes": found.inodes}
        self._disk.write(temporary / "record.json", json.dumps(record).encode())

    def add_documents(self, documents: Mapping[str, bytes]) -> None:
        """Write indexes, manifests and configs by their digests, unless the store has them. Raises OSError."""
        for digest, content in documents.items():
            target = self._layout.blob(digest)
            if not target.exists():
                temporary = self._layout.ingest / f"{target.name}.{os.getpid()}"
                self._documents[temporary] = target
                self._disk.write(temporary, content)

    def add_file(self, digest: str, path: Path) -> None:
        """Take a file of this store's `ingest` as a blob, whose content is known to be right."""
        self._documents[path] = self._layout.blob(digest)

    def publish(self, *, is_synced: bool = False) -> None:
        """Make everything part of the store, durably; skip the sync if another process has done it. Raises OSError."""
        layers = {path: self._layout.layer(chain_id) for chain_id, path in self._layers.items()}
        targets = {**layers, **self._documents}
        if not targets:
            return
        if not is_synced:
            self._disk.sync_everything(self._layout.root)
        for source, target in targets.items():
            try:
                self._disk.publish(source, target)
            except OSError as error:
                if error.errno not in _IS_THERE:
                    raise
                remove_tree(source)
        for directory in sorted({target.parent for target in targets.values()}):
            self._disk.sync_directory(directory)
        self._layers, self._documents = {}, {}

    def _tree(self, chain_id: str) -> Path:
        """Return the tree of a layer below, which may not be published yet."""
        return self._layers.get(chain_id, self._layout.layer(chain_id)) / "fs"
