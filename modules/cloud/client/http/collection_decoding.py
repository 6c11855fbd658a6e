"""Decodes the JSON of lists, of the events of watches and of refusals."""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from beehive.decoding import json_decoder
from beehive.errors import BeehiveError
from beehive.printable import clipped
from modules.cloud.client.reflector.observations import (
    Bookmark,
    ListPage,
    ObservedEvent,
    ObservedObject,
    WatchError,
)

_LONGEST_TOKEN: Final = 16 * 1024
"""Characters of a continue token; API servers write some hundred."""
_DECODE_ERRORS: Final = (msgspec.DecodeError, UnicodeError, RecursionError)


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

    The entries of a typed list have no kind; they get that of their list, as in client-go's UnstructuredList.

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
        metadata.namespace or "", metadata.name, metadata.uid or "", metadata.resource_version or "", body
    )


def _object_or_none(body: bytes) -> _Object | None:
    try:
        if not body.isascii():
            body.decode()
        return _OBJECT.decode(body)
    except _DECODE_ERRORS:
        return None


def _decoded(decoder: msgspec.json.Decoder[Any], body: bytes, what: str) -> Any:
    try:
        return decoder.decode(body)
    except _DECODE_ERRORS as error:
        raise MalformedError(what, str(error)) from error
