"""Layers unpacked by a real worker into a store."""

from pathlib import Path

from modules.runtimes.oci.images import ImageStore, StoredImage
from tests.modules.runtimes.oci.images.tars import docker_archive


def imported(store: ImageStore, *layers: bytes, name: str = "example.org/app:1") -> StoredImage:
    """The image of these layers, the lowest first."""
    archive = docker_archive(store.layout.root.parent / "archive.tar", layers, [name])
    (image,) = store.import_archive(archive)
    return image


def unpacked(store: ImageStore, *layers: bytes) -> Path:
    """The tree of the uppermost layer."""
    return store.layout.tree(imported(store, *layers).chain[-1])
