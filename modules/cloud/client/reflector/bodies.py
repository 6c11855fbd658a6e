"""Collects the bytes of responses, within bounds."""

from collections.abc import Iterator
from typing import Final

from modules.cloud.client.reflector.decoding import MalformedError

MAX_PAGE: Final = 64 * 1024 * 1024
"""Bytes of the largest page of a list."""
MAX_LINE: Final = 8 * 1024 * 1024
"""Bytes of the longest line of a watch; objects have 3 MB at most (the limit of etcd and of requests)."""
MAX_REFUSAL: Final = 64 * 1024
"""Bytes of a refusal that are read; the rest is dropped."""


class CollectedBody:
    """The body of a response that is read as a whole."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0

    def add(self, data: bytes) -> None:
        """Take a piece. Raises MalformedError when the body is larger than `MAX_PAGE`."""
        self._size += len(data)
        if self._size > MAX_PAGE:
            self._pieces.clear()
            raise MalformedError("a list", f"it has more than {MAX_PAGE} bytes")
        self._pieces.append(data)

    def add_within(self, data: bytes, limit: int) -> None:
        """Take as much of a piece as fits into a limit in bytes."""
        kept = data[: max(0, limit - self._size)]
        self._size += len(kept)
        self._pieces.append(kept)

    def joined(self) -> bytes:
        """Return the body."""
        return b"".join(self._pieces)


class Lines:
    """Splits a stream into lines, wherever its pieces end."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def add(self, data: bytes) -> Iterator[bytes]:
        """Take a piece, and yield the lines that it completes; not the empty ones.

        Raises MalformedError when a line is longer than `MAX_LINE`.
        """
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            yield from self._completed(data[start:end])
            start = end + 1
        self._keep(data[start:])

    @property
    def is_cut(self) -> bool:
        """Whether the stream has ended in the middle of a line, if it has ended."""
        return bool(self._rest.strip())

    def _completed(self, end: bytes) -> Iterator[bytes]:
        self._keep(end)
        line = bytes(self._rest).strip()
        self._rest.clear()
        if line:
            yield line

    def _keep(self, data: bytes) -> None:
        if len(self._rest) + len(data) > MAX_LINE:
            self._rest.clear()
            raise MalformedError("an event of a watch", f"its line has more than {MAX_LINE} bytes")
        self._rest += data
