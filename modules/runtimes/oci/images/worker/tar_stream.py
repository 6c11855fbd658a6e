"""The bytes of a layer's tar, counted, hashed and bounded."""

import hashlib
from collections.abc import Callable, Iterator
from typing import Protocol

from modules.runtimes.oci.images.worker.compression import PlainBytes
from modules.runtimes.oci.images.worker.errors import beyond_limit, invalid
from modules.runtimes.oci.images.worker.limits import LOOK_AT_DISK_EVERY, RATIO_AFTER, UnpackLimits

BLOCK = 512


class TarBlocks(Protocol):
    """The source of headers."""

    def exactly(self, wanted: int) -> bytes:
        """Return the next `wanted` bytes."""

    def at_end(self) -> bool:
        """Return whether no byte is left."""


class TarStream:
    """A reader of a tar from front to end, once.

    Args:
        source: the decompressed bytes.
        limits: of the whole tar.
        look: called each 64 MiB; raises when the disk gets full.
    """

    def __init__(self, source: PlainBytes, limits: UnpackLimits, look: Callable[[], None]) -> None:
        self._source = source
        self._limits = limits
        self._look = look
        self._hash = hashlib.sha256()
        self._piece = b""
        self._at = 0
        self._next_look = 0
        self.size = 0
        """Bytes so far, with the bytes of `count`."""

    def exactly(self, wanted: int) -> bytes:
        """Return the next `wanted` bytes. Raises ImageWorkError when the tar ends before."""
        found = self._piece[self._at : self._at + wanted]
        self._at += len(found)
        while len(found) < wanted:
            if not self._fill():
                raise invalid("the tar ends too early")
            part = self._piece[: wanted - len(found)]
            self._at = len(part)
            found += part
        return found

    def at_end(self) -> bool:
        """Return whether no byte is left."""
        return self._at >= len(self._piece) and not self._fill()

    def chunks(self, size: int) -> Iterator[memoryview]:
        """Yield the next `size` bytes in pieces as large as they come, then skip the padding of the last block."""
        left = size
        while left:
            if self.at_end():
                raise invalid("the tar ends too early")
            piece = memoryview(self._piece)[self._at : self._at + left]
            self._at += len(piece)
            left -= len(piece)
            yield piece
        self.exactly(-size % BLOCK)

    def skip(self, size: int) -> None:
        """Read over the next `size` bytes and the padding of the last block."""
        for _ in self.chunks(size):
            pass

    def count(self, size: int) -> None:
        """Count bytes that were not in the tar and take part in the bounds: holes, copies, directories left out."""
        self.size += size
        self._check()

    def digest(self) -> str:
        """Read to the end and return the digest of everything, the layer's diff id."""
        while self._fill():
            pass
        return f"sha256:{self._hash.hexdigest()}"

    def _fill(self) -> bool:
        self._piece, self._at = self._source.next(), 0
        self._hash.update(self._piece)
        self.size += len(self._piece)
        self._check()
        return bool(self._piece)

    def _check(self) -> None:
        limits = self._limits
        if self.size > limits.size:
            raise beyond_limit(f"the layer unpacks to more than {limits.size} bytes")
        if self.size > RATIO_AFTER and self.size > limits.ratio * self._source.consumed:
            raise beyond_limit(f"the layer unpacks to more than {limits.ratio} times its compressed size")
        if self.size >= self._next_look:
            self._look()
            self._next_look = self.size + LOOK_AT_DISK_EVERY
