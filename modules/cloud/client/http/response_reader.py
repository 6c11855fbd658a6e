"""Responses of an API server, read from the bytes of a connection."""

import re
from enum import Enum
from typing import Final

import h11

from modules.cloud.client.transport import ResponseHead

MAX_HEAD: Final = 64 * 1024
"""Bytes of the longest head of a response: status line and headers."""

_FIELD: Final = rb"([-!#$%&'*+.^_`|~0-9A-Za-z]+):[ \t]*([\x21-\x7e]+(?:[ \t]+[\x21-\x7e]+)*)[ \t]*\r\n"
_HEAD: Final = re.compile(rb"HTTP/1\.1 ([2-5][0-9]{2})(?: [\x20-\x7e]*)?\r\n((?:" + _FIELD + rb")+)\r\n").match
_FIELDS: Final = re.compile(_FIELD).findall
_IS_LENGTH: Final = re.compile("[0-9]{1,15}").fullmatch
_CHUNK: Final = re.compile(rb"(?!0+\r)([0-9A-Fa-f]{1,8})\r\n").match
_BEGINS_CHUNK: Final = re.compile(rb"(?!00)[0-9A-Fa-f]{0,8}\r?").fullmatch
_LAST_CHUNK: Final = b"0\r\n\r\n"
_CRLF: Final = b"\r\n"
_METHODS: Final = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE"})
"""Methods whose responses have a body."""
_WITHOUT_BODY: Final = frozenset({204, 304})


class ResponseMark(Enum):
    """End-of-response events."""

    END = "the response is complete"
    CLOSED = "the server has closed the connection, and there is no response"


Part = ResponseHead | bytes | ResponseMark | None
"""The head, a piece of the body, or a mark; None: more bytes are needed."""


class ResponseReader:
    """The reader of the response to one request.

    h11 takes most of the processor time of a short exchange. So a response in the form that API servers write is read
    here: HTTP/1.1, the whole head at once, visible ASCII, `Content-Length` or `Transfer-Encoding: chunked` once and not
    both, no `Connection` but `close`. h11 reads any other from its first byte, or from a chunk on that has an extension
    or trailers behind it.

    Args:
        method: of the request.
    """

    def __init__(self, method: str) -> None:
        self._method = method
        self._h11: h11.Connection | None = None
        self._data = b""
        self._at = 0
        """Bytes of the data that were read."""
        self._head = b""
        """The head that was read; empty before it."""
        self._left = 0
        """Bytes to come of the body, or of the present chunk."""
        self._is_chunked = False
        self._is_in_chunk = False
        """Whether the line break at the end of a chunk is to come."""
        self._is_last = False
        """Whether the server closes the connection after the response."""
        self._is_complete = False
        self._is_closed = False
        """Whether the server sends nothing more."""

    @property
    def is_reusable(self) -> bool:
        """Whether the response has ended, nothing follows, and the connection can carry another request."""
        if self._h11 is None:
            is_over = self._is_last or self._is_closed
            return self._is_complete and self._at == len(self._data) and not is_over
        extra, is_ended = self._h11.trailing_data
        return (self._h11.our_state, self._h11.their_state) == (h11.DONE, h11.DONE) and not extra and not is_ended

    def receive(self, data: bytes) -> None:
        """Take received bytes; none: the server sends nothing more."""
        if self._h11 is not None:
            self._h11.receive_data(data)
        elif data:
            self._data, self._at = (self._data[self._at :] + data if self._at < len(self._data) else data), 0
        else:
            self._is_closed = True

    def next(self) -> Part:
        """Return the next part.

        Raises:
            h11.RemoteProtocolError: the bytes are no response of HTTP/1.1, or end too early.
        """
        if self._h11 is not None:
            return self._next_of(self._h11)
        if not self._head:
            return self._read_head()
        if self._is_complete:
            return ResponseMark.END
        return self._read_chunks() if self._is_chunked else self._read_body()

    def _read_head(self) -> Part:
        if not self._data and not self._is_closed:
            return None
        found = _HEAD(self._data) if self._method in _METHODS else None
        if found is None or found.end() > MAX_HEAD:
            return self._leave_to_h11()
        status = int(found[1])
        headers = tuple([(name.decode().lower(), value.decode()) for name, value in _FIELDS(found[2])])
        if status in _WITHOUT_BODY or not self._have_length(headers):
            return self._leave_to_h11()
        self._head, self._at = found[0], found.end()
        return ResponseHead(status, headers)

    def _have_length(self, headers: tuple[tuple[str, str], ...]) -> bool:
        """Take the length of the body from the headers; return False if they are not in the usual form."""
        lengths = [value for name, value in headers if name == "content-length"]
        encodings = [value for name, value in headers if name == "transfer-encoding"]
        connection = [value.lower() for name, value in headers if name in ("connection", "upgrade")]
        self._is_last = connection == ["close"]
        if len(lengths) + len(encodings) != 1 or (connection and not self._is_last):
            return False
        if encodings:
            self._is_chunked = encodings[0] == "chunked"
            return self._is_chunked
        is_length = _IS_LENGTH(lengths[0]) is not None
        self._left = int(lengths[0]) if is_length else 0
        return is_length

    def _read_body(self) -> Part:
        if not self._left:
            self._is_complete = True
            return ResponseMark.END
        data = self._available()
        if not data:
            self._check_open()
        return data or None

    def _available(self) -> bytes:
        """Return the received part of the body, or of the present chunk."""
        begin = self._at
        self._at = min(len(self._data), begin + self._left)
        self._left -= self._at - begin
        return self._data[begin : self._at]

    def _read_chunks(self) -> Part:
        """Return the received part of the present chunk and the next ones, in one piece."""
        pieces = []
        while self._is_in_chunk or self._find_chunk():
            if self._left:
                pieces.append(self._available())
            if self._left or not self._data.startswith(_CRLF, self._at):
                break
            self._at += len(_CRLF)
            self._is_in_chunk = False
        if any(pieces):
            return b"".join(pieces)
        return self._end_or_wait()

    def _find_chunk(self) -> bool:
        """Begin with the next chunk, if its whole first line is there, and usual."""
        found = _CHUNK(self._data, self._at)
        if found is None:
            return False
        self._left, self._at, self._is_in_chunk = int(found[1], 16), found.end(), True
        return True

    def _end_or_wait(self) -> Part:
        if not self._is_in_chunk and self._data.startswith(_LAST_CHUNK, self._at):
            self._at += len(_LAST_CHUNK)
            self._is_complete = True
            return ResponseMark.END
        rest = self._data[self._at :]
        if not self._is_in_chunk and _BEGINS_CHUNK(rest) is None and not _LAST_CHUNK.startswith(rest):
            return self._leave_to_h11()
        if self._is_in_chunk and not self._left and not _CRLF.startswith(rest):
            raise h11.RemoteProtocolError("a chunk is longer than it says")
        self._check_open()
        return None

    def _check_open(self) -> None:
        if self._is_closed:
            raise h11.RemoteProtocolError("the connection was closed in the middle of a response")

    def _leave_to_h11(self) -> Part:
        """Let h11 read on, which has to know the request and the head."""
        protocol = self._h11 = h11.Connection(h11.CLIENT, MAX_HEAD)
        protocol.send(h11.Request(method=self._method, target="/", headers=[("Host", "")]))
        protocol.send(h11.EndOfMessage())
        if self._head:
            protocol.receive_data(self._head)
            protocol.next_event()
        if self._at < len(self._data):
            protocol.receive_data(self._data[self._at :])
        if self._is_closed:
            protocol.receive_data(b"")
        return self._next_of(protocol)

    def _next_of(self, protocol: h11.Connection) -> Part:
        event = protocol.next_event()
        while isinstance(event, h11.InformationalResponse):
            event = protocol.next_event()
        match event:
            case h11.Response():
                headers = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in event.headers)
                return ResponseHead(event.status_code, headers)
            case h11.Data():
                return bytes(event.data)
            case h11.EndOfMessage():
                return ResponseMark.END
            case h11.NEED_DATA:
                return None
        return ResponseMark.CLOSED
