"""Bounds of the input that a worker takes from outside."""

from typing import Final, NamedTuple

MIB: Final = 1024 * 1024
GIB: Final = 1024 * MIB

LONGEST_MANIFEST: Final = 4 * MIB
"""Bytes of a manifest, an index or an image's config (the distribution spec wants registries to take 4 MiB)."""

MOST_LAYERS: Final = 500
"""Most layers of an image: overlayfs can stack no more."""


class UnpackLimits(NamedTuple):
    """Bounds of unpacking one layer."""

    size: int = 32 * GIB
    """Bytes of the unpacked tar, holes of sparse files counted as written."""
    entries: int = 2_000_000
    """Headers of the tar."""
    ratio: int = 1000
    """Largest ratio of unpacked to compressed bytes, looked at after `RATIO_AFTER` bytes."""
    reserve: int = 256 * MIB
    """Bytes of the file system that stay free."""


RATIO_AFTER: Final = 64 * MIB
"""Unpacked bytes where the ratio begins to count: a small layer of zeros is no bomb."""

LOOK_AT_DISK_EVERY: Final = 64 * MIB
"""Unpacked bytes between two looks at the free space."""

LOOK_AT_INODES_EVERY: Final = 1024
"""New inodes between two looks at the free space: a directory takes 4 KiB of the disk, and half a KiB of the tar."""

LEAST_FREE_INODES: Final = 4096

STEPS_OF_LAYER: Final = 10_000_000
STEPS_OF_ENTRY: Final = 64
"""Components of paths that unpacking a layer may enter, and more for each entry; a hostile path takes thousands."""

LONGEST_PAX: Final = MIB
"""Bytes of one extended header, which is held in memory."""

LONGEST_NAME: Final = 4096
LONGEST_COMPONENT: Final = 255
