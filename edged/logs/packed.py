"""The packed files of a container's log."""

import gzip
import logging
import zlib
from io import BufferedReader

_log = logging.getLogger(__name__)


class PackedFile(gzip.GzipFile):
    """A packed log, which ends where it is damaged: a rotation that a loss of power interrupted does not hide other
    files.

    Args:
        packed: closed with it.
        name: for the log.
    """

    def __init__(self, packed: BufferedReader, name: str) -> None:
        super().__init__(name, "rb", fileobj=packed)
        self._packed = packed
        self._back = b""

    def close(self) -> None:
        """Close both files."""
        super().close()
        self._packed.close()

    def readline(self, size: int | None = -1) -> bytes:
        """Return the next line, as for any file; nothing from a damaged place on."""
        if self._back:
            line, self._back = self._back, b""
            return line
        try:
            return super().readline(size)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            _log.warning("the rotated log %s is damaged, and its rest is not shown: %s", self.name, error)
            return b""

    def peeked(self) -> bytes:
        """Return what is unpacked, at least a byte, and leave it; nothing at the end or at a damaged place."""
        try:
            return self.peek(1)
        except (gzip.BadGzipFile, EOFError, zlib.error):
            return b""  # `readline` tells it

    def give_back(self, line: bytes) -> None:
        """Have a line that was read returned by the next `readline`."""
        self._back = line
