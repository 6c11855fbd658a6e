"""Images as the store keeps them."""

import msgspec
from msgspec import Struct


class ImageConfig(Struct, frozen=True):
    """The settings of an image for its containers (the image spec's `config`)."""

    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    """`NAME=VALUE` each."""
    user: str = ""
    """Name or number of the user, and of the group behind a colon."""
    working_directory: str = ""
    stop_signal: str = ""
    volumes: tuple[str, ...] = ()
    labels: dict[str, str] = {}


class StoredImage(Struct, frozen=True):
    """An image whose layers are unpacked."""

    id: str
    """Digest of the config."""
    repo_tags: tuple[str, ...]
    """Full names with a tag."""
    repo_digests: tuple[str, ...]
    """Full names with the digest of the topmost document."""
    config: ImageConfig
    chain: tuple[str, ...]
    """Chain ids of the layers, the lowest first."""
    documents: dict[str, int]
    """Bytes of index, manifest and config, by digest."""
    layer_blobs: dict[str, int] = {}
    """Bytes of the layers as they came, by digest, if the store keeps them."""
    size: int = 0
    """Bytes of the unpacked layers and the blobs."""
    removed: bool = False
    """It is kept for its containers only: no request finds it."""

    @property
    def blobs(self) -> dict[str, int]:
        """Bytes of all its blobs, by digest."""
        return {**self.documents, **self.layer_blobs}

    @property
    def names(self) -> tuple[str, ...]:
        """All its names in requests."""
        return (*self.repo_tags, *self.repo_digests)


class PullSettings(Struct, frozen=True):
    """Limits of the wait of pulls for registries."""

    attempts: int = 5
    """Attempts of one request, while the server may still answer."""
    first_delay: float = 0.5
    """Seconds before the second attempt; doubles."""
    stall_seconds: float = 60.0
    """Longest silence of a connection."""
    parallel_blobs: int = 3
    """Layers that one pull fetches at a time."""

    def waiting(self) -> dict[str, float]:
        """Return the settings that a worker needs."""
        return {
            "attempts": self.attempts,
            "first_delay": self.first_delay,
            "stall_seconds": self.stall_seconds,
        }


class LayerUsage(Struct, frozen=True):
    """The disk usage of one layer."""

    bytes: int
    inodes: int


class StorageUsage(msgspec.Struct, frozen=True):
    """The disk usage of an image or a container's writable layer."""

    bytes: int = 0
    inodes: int = 0
