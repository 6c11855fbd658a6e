"""Answers in indented JSON, for people: with `?pretty=true`, and for the programs that they read answers with."""

from typing import Final

import msgspec

from beehive.http.request import Request
from beehive.http.responses import Reply, Response

_FOR_PEOPLE: Final = ("curl", "Wget", "Mozilla/5.0")
"""Beginnings of the User-Agent (`isPrettyPrint` in apiserver/pkg/endpoints/handlers/negotiation)."""
_ROOTS: Final = (("api",), ("apis",))
_JSON: Final = "application/json"
_MOST_BYTES: Final = 4 * 1024 * 1024


def wants_indented(request: Request) -> bool:
    """Return whether a request asks for indented JSON, or its program does so for people."""
    if request.first("pretty"):
        return request.first("pretty") in ("1", "t", "T", "true", "TRUE", "True")
    return request.parts[:1] in _ROOTS and request.header("user-agent").startswith(_FOR_PEOPLE)


def indented(reply: Reply) -> Reply:
    """Return an answer in indented JSON; one in another form, in pieces or of many MiB is returned unchanged."""
    if not isinstance(reply, Response) or reply.content_type != _JSON or len(reply.body) > _MOST_BYTES:
        return reply
    return msgspec.structs.replace(reply, body=msgspec.json.format(reply.body, indent=2))
