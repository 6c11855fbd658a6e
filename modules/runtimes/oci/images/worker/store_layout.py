"""The layout of the store: the paths that edgecore and its workers share.

ROOT/blobs/ALGORITHM/HEX      manifests, indexes and configs
ROOT/ingest/                  downloads, which a later attempt resumes, and locks
ROOT/layers/HEX/fs            the tree of a layer, by its chain id, in the form of overlayfs
ROOT/layers/HEX/record.json   its size
ROOT/layers/.tmp-HEX.PID/     a layer that is being unpacked
ROOT/trash/                   layers and blobs that are being removed
ROOT/mount-points/            the lowest layer of containers, see `RootFilesystems`
ROOT/index.json               the images
"""

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from beehive.files.descriptors import OwnedFd

TEMPORARY = ".tmp-"


class StoreLayout:
    """Paths below the root directory of a store."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.blobs = root / "blobs"
        self.ingest = root / "ingest"
        self.layers = root / "layers"
        self.trash = root / "trash"
        self.index = root / "index.json"

    def make(self) -> None:
        """Make the directories. Raises OSError."""
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        for each in (self.blobs, self.blobs / "sha256", self.blobs / "sha512", self.ingest, self.layers, self.trash):
            each.mkdir(mode=0o700, exist_ok=True)

    def blob(self, digest: str) -> Path:
        """Return the path of a blob."""
        algorithm, _, hexadecimal = digest.partition(":")
        return self.blobs / algorithm / hexadecimal

    def part(self, digest: str, size: int, registry: str) -> Path:
        """Return the path of a blob that is being fetched, of its own for each registry: it is locked meanwhile, and a
        slow registry may name the layers of any image as its own. So may a manifest, with another size, and then the
        blob of the other image is not cut off.
        """
        whose = hashlib.sha256(f"{size} {registry}".encode()).hexdigest()[:16]
        return self.ingest / f"{digest.replace(':', '-')}-{whose}.part"

    def layer(self, chain_id: str) -> Path:
        """Return the directory of a layer."""
        return self.layers / chain_id.partition(":")[2]

    def tree(self, chain_id: str) -> Path:
        """Return the directory of a layer's files."""
        return self.layer(chain_id) / "fs"

    def record(self, chain_id: str) -> Path:
        """Return the path of a layer's record."""
        return self.layer(chain_id) / "record.json"

    @contextlib.contextmanager
    def locked(self, name: str) -> Iterator[None]:
        """Keep other workers from the same piece of work; the kernel lets go when a worker dies."""
        with OwnedFd(os.open(self.ingest / f"{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)) as descriptor:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
