"""Decodes the responses to lists and watches as they come, within bounds."""

import sys
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any, Final

import msgspec

from beehive.decoding import JsonDecoder, json_decoder
from beehive.errors import BeehiveError
from beehive.printable import clipped
from modules.cloud.client.reflector.observations import (
    Bookmark,
    ListPage,
    Observation,
    ObservedEvent,
    ObservedObject,
    ReadFailed,
    ReadRefusal,
    WatchEnded,
    WatchError,
)
from modules.cloud.client.retry import retry_after
from modules.cloud.client.transport import ResponseHead

_OK: Final = HTTPStatus.OK
MAX_PAGE: Final = 64 * 1024 * 1024
"""Bytes of the largest page of a list."""
MAX_LINE: Final = 8 * 1024 * 1024
"""Bytes of the longest line of a watch; objects have 3 MB at most (the limit of etcd and of requests)."""
MAX_REFUSAL: Final = 64 * 1024
"""Bytes of a refusal that are read; the rest is dropped."""

_LONGEST_TOKEN: Final = 16 * 1024
"""Characters of a continue token; API servers write some hundred."""
_DECODE_ERRORS: Final = (msgspec.DecodeError, UnicodeError)


class MalformedError(BeehiveError):
    """A server's response does not have the form of the Kubernetes API."""

    def __init__(self, what: str, why: str) -> None:
        super().__init__(f"cannot read {what} of the API server", clipped(why), "it is no API server, or broken")


class _Metadata(msgspec.Struct, rename="camel", gc=False):
    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None


class _Object(msgspec.Struct, rename="camel", gc=False):
    metadata: _Metadata
    kind: str | None = None
    api_version: str | None = None


class _PageMetadata(msgspec.Struct, rename="camel"):
    resource_version: str | None = None
    continue_: str | None = msgspec.field(default=None, name="continue")


class _Page(msgspec.Struct, rename="camel"):
    metadata: _PageMetadata
    kind: str | None = None
    api_version: str | None = None
    items: list[msgspec.Raw] | None = None


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Status(msgspec.Struct):
    message: str | None = None
    code: int | None = None


_OBJECT: Final = json_decoder(_Object)
_PAGE: Final = json_decoder(_Page)
_EVENT: Final = json_decoder(_Event)
_STATUS: Final = json_decoder(_Status)


def page_of(body: bytes) -> ListPage:
    """Return the page that a list's response holds.

    The entries of a typed list have no kind; they get their list's, as in client-go's UnstructuredList.

    Raises:
        MalformedError: it is no list with a version.
    """
    page = _decoded(_PAGE, body, "a list")
    version, token = page.metadata.resource_version, page.metadata.continue_ or ""
    if not version or version == "0":
        raise MalformedError("a list", "it has no resourceVersion")
    if len(token) > _LONGEST_TOKEN:
        raise MalformedError("a list", "its continue token is too long")
    items = page.items or []
    kind = (page.kind or "").removesuffix("List")
    objects = list(_observed_items(items, kind, page.api_version or ""))
    return ListPage(version, token, objects, len(items) - len(objects))


def event_of(line: bytes) -> ObservedEvent | Bookmark | WatchError:
    """Return the event of a line of a watch.

    Raises:
        MalformedError: it is no event.
    """
    event = _decoded(_EVENT, line, "an event of a watch")
    body = bytes(event.object)
    if event.type == "ERROR":
        return WatchError(*status_of(body))
    decoded = _object_or_none(body)
    if event.type == "BOOKMARK":
        return Bookmark("" if decoded is None else decoded.metadata.resource_version or "")
    return ObservedEvent(event.type, None if decoded is None else _observed(decoded.metadata, body))


def status_of(body: bytes) -> tuple[int, str]:
    """Return the code and message of a Status; any other text becomes the message (`404 page not found`)."""
    try:
        status = _STATUS.decode(body)
    except _DECODE_ERRORS:
        return 0, clipped(body.decode(errors="replace").strip())
    return status.code or 0, clipped(status.message or "no reason was given")


def _observed_items(items: list[msgspec.Raw], kind: str, api_version: str) -> Iterator[ObservedObject]:
    for item in items:
        body = bytes(item)
        decoded = _object_or_none(body)
        if decoded is None:
            continue
        observed = _observed(decoded.metadata, _typed(body, decoded, kind, api_version))
        if observed is not None:
            yield observed


def _typed(body: bytes, decoded: _Object, kind: str, api_version: str) -> bytes:
    """Return an entry of a list with the fields `kind` and `apiVersion`."""
    missing = {}
    if kind and not decoded.kind:
        missing["kind"] = kind
    if api_version and not decoded.api_version:
        missing["apiVersion"] = api_version
    return msgspec.json.encode(missing)[:-1] + b"," + body[1:] if missing else body


def _observed(metadata: _Metadata, body: bytes) -> ObservedObject | None:
    if not metadata.name:
        return None
    return ObservedObject(
        sys.intern(metadata.namespace or ""), metadata.name, metadata.uid or "", metadata.resource_version or "", body
    )


def _object_or_none(body: bytes) -> _Object | None:
    try:
        if not body.isascii():
            body.decode()
        return _OBJECT.decode(body)
    except _DECODE_ERRORS:
        return None


def _decoded(decoder: JsonDecoder[Any], body: bytes, what: str) -> Any:
    try:
        return decoder.decode(body)
    except _DECODE_ERRORS as error:
        raise MalformedError(what, str(error)) from error


class CollectionResponse:
    """The decoder of the response to one request of a reflector. Each method takes a part of the response, and yields
    the observations that it completes.

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
    """The lines of a stream, wherever its pieces end."""

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
