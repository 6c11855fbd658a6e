"""What a reading request wants besides the object: in which form, selected how, and whether it goes on watching."""

from enum import Enum
from typing import Final

import msgspec

from edged.server.request import Request
from modules.metaserver.errors import ApiError
from modules.metaserver.resources import Resource
from modules.metaserver.selectors import Selector, parse_selector

WATCH_SECONDS: Final = 3600
"""How long a watch goes on when the client does not say (an API server: half an hour to an hour)."""

_JSON: Final = ("application/json", "application/*", "*/*", "")
_INCLUDED: Final = ("Metadata", "Object", "None")


class Form(Enum):
    """How objects are shown."""

    OBJECT = "as they are"
    TABLE = "kubectl's rows"
    METADATA = "without spec and status"


_FORMS: Final = {
    "": Form.OBJECT,
    "Table": Form.TABLE,
    "PartialObjectMetadata": Form.METADATA,
    "PartialObjectMetadataList": Form.METADATA,
}


class ReadOptions(msgspec.Struct, frozen=True):
    """The options of a get, list or watch."""

    form: Form = Form.OBJECT
    included: str = "Metadata"
    """What a table's rows carry of their objects."""
    selector: Selector = Selector()
    limit: int = 0
    """Objects in one answer; 0: all."""
    continued: str = ""
    """Where a list goes on."""
    watch: bool = False
    revision: str = ""
    """After which a watch begins; empty or `0`: with all that is there."""
    bookmarks: bool = False
    initial_events: bool = False
    seconds: int = WATCH_SECONDS
    """After which a watch ends."""


def read_options(request: Request, resource: Resource) -> ReadOptions:
    """The options of a request.

    Raises:
        ApiError: one of them cannot be read, or no form that the client accepts is known here.
    """
    included = request.first("includeObject") or "Metadata"
    if included not in _INCLUDED:
        raise ApiError(400, f"includeObject is {', '.join(_INCLUDED)}")
    return ReadOptions(
        form=form_of(request.header("accept")),
        included=included,
        selector=parse_selector(resource, request.first("labelSelector"), request.first("fieldSelector")),
        limit=_number(request, "limit", 0),
        continued=request.first("continue"),
        watch=request.flag("watch"),
        revision=request.first("resourceVersion"),
        bookmarks=request.flag("allowWatchBookmarks"),
        initial_events=request.flag("sendInitialEvents"),
        seconds=_number(request, "timeoutSeconds", 0) or WATCH_SECONDS,
    )


def form_of(accept: str) -> Form:
    """The first form in an Accept header that is known.

    Raises:
        ApiError: 406; there is none: protobuf and YAML are not spoken here.
    """
    for each in accept.split(","):
        media, *parameters = (part.strip() for part in each.split(";"))
        form = _FORMS.get(next((text[3:] for text in parameters if text.startswith("as=")), ""))
        if media in _JSON and form is not None:
            return form
    raise ApiError(406, "only the following media types are accepted: application/json")


def _number(request: Request, name: str, otherwise: int) -> int:
    text = request.first(name)
    if not text:
        return otherwise
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise ApiError(400, f"{name} is a number")
    return int(text)
