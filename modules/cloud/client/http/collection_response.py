"""Decodes the responses to lists and watches as they come, within bounds."""

from collections.abc import Iterator
from http import HTTPStatus
from typing import Final

from beehive.printable import clipped
from modules.cloud.client.http.collection_decoding import MalformedError, event_of, page_of, status_of
from modules.cloud.client.reflector.observations import Observation, ReadFailed, ReadRefusal, WatchEnded
from modules.cloud.client.retry import retry_after
from modules.cloud.client.transport import ResponseHead

_OK: Final = HTTPStatus.OK
MAX_PAGE: Final = 64 * 1024 * 1024
"""Bytes of the largest page of a list."""
MAX_LINE: Final = 8 * 1024 * 1024
"""Bytes of the longest line of a watch; objects have 3 MB at most (the limit of etcd and of requests)."""
MAX_REFUSAL: Final = 64 * 1024
"""Bytes of a refusal that are read; the rest is dropped."""


class CollectionResponse:
    """Decodes the response to one request of a reflector. Each method takes a part of the response, and yields the
    observations that it completes.

    Args:
        is_watch: whether it is a watch, or else a page of a list.
    """

    def __init__(self, *, is_watch: bool) -> None:
        self._is_watch = is_watch
        self._head = ResponseHead(0)
        self._body = _CollectedBody()
        self._lines = _Lines()

    def on_head(self, head: ResponseHead) -> None:
        """Take the beginning."""
        self._head = head

    def on_data(self, data: bytes) -> Iterator[Observation]:
        """Take a piece of the body, wherever it is cut. After a `ReadFailed` no further part counts."""
        try:
            if self._head.status != _OK:
                self._body.add_within(data, MAX_REFUSAL)
            elif not self._is_watch:
                self._body.add(data)
            else:
                for line in self._lines.add(data):
                    yield event_of(line)
        except MalformedError as error:
            yield ReadFailed(str(error), is_malformed=True)

    def on_end(self) -> Iterator[Observation]:
        """Take the end of a complete response."""
        if self._head.status != _OK:
            yield self._refusal()
        elif not self._is_watch:
            try:
                yield page_of(self._body.joined())
            except MalformedError as error:
                yield ReadFailed(str(error), is_malformed=True)
        else:
            yield ReadFailed("the watch ended within an event") if self._lines.is_cut else WatchEnded()

    def on_error(self, error: Exception) -> Iterator[Observation]:
        """Take the reason why the response is not complete."""
        is_refused = self._head.status not in (0, _OK)
        yield self._refusal() if is_refused else ReadFailed(clipped(str(error)))

    def _refusal(self) -> ReadRefusal:
        return ReadRefusal(self._head.status, status_of(self._body.joined())[1], retry_after(self._head))


class _CollectedBody:
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


class _Lines:
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
