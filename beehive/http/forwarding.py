"""A request and its response as KubeEdge's messages carry them between cloud and node, and their headers."""

import re
from collections.abc import Iterable
from itertools import islice
from typing import Final

import msgspec

from beehive.clock import Clock
from beehive.message import Message
from beehive.names import Group, ModuleName, Operation, Source

Fields = tuple[tuple[str, str], ...]
"""Headers in order, with every value of each name."""

_HOP_BY_HOP: Final = frozenset(
    {
        "connection",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""Headers that concern a single connection (RFC 9110 §7.6.1), and headers that each client or server sets itself."""
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}", re.ASCII)
_VALUE: Final = re.compile(r"[\x21-\x7e\x80-\xff](?:[\t\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?|")
_MOST: Final = 200
"""Largest number of headers that are passed on."""
_MOST_READ: Final = 10 * _MOST


class ForwardedRequest(msgspec.Struct, frozen=True):
    """The content of a message with a request for an application (KubeEdge's HTTPRequest)."""

    header: dict[str, list[str]] | None = None
    body: bytes | None = None
    method: str = ""
    url: str = ""
    """Always empty: the message's resource has port and path."""


class ForwardedResponse(msgspec.Struct, frozen=True):
    """The content of the message that answers it (KubeEdge's HTTPResponse)."""

    header: dict[str, list[str]] | None = None
    status_code: int = 0
    body: bytes | None = None


def refusal(status: int, why: str) -> ForwardedResponse:
    """Return the answer in place of a response."""
    header = {"Content-Type": ["text/plain; charset=utf-8"], "Server": ["kubeedge-edgecore"]}
    return ForwardedResponse(header, status, f"{why}\n".encode())


def answer_to(call: Message, response: ForwardedResponse, clock: Clock) -> Message:
    """Return the answer to a message of the cloud with a call: KubeEdge's errors have no operation, so that its cloud
    waits until its time-out.
    """
    return Message.new(
        clock, source=ModuleName.SERVICEBUS, group=Group.USER, resource="", operation=Operation.UPLOAD,
        content=response, parent_id=call.id,
    )  # fmt: skip


def is_call(message: Message) -> bool:
    """Return whether a message of the cloud is a call of an application, and not a URL that is allowed or forbidden."""
    route = message.route
    is_url = route.operation in (Operation.START, Operation.STOP)
    return route.source in (Source.ROUTER_SERVICEBUS, Source.ROUTER_REST) and not is_url


def passed_on(fields: Iterable[tuple[str, str]], *without: str) -> Fields:
    """Return the headers that a proxy passes on: valid ones that do not concern a single connection.

    Args:
        fields: headers of a request or of a response.
        without: further names to leave out, in lower case.
    """
    known = [(name, value.strip()) for name, value in fields]
    connection = ",".join(value for name, value in known if name.lower() == "connection").lower()
    left_out = _HOP_BY_HOP.union(without, (name.strip() for name in connection.split(",")))
    return tuple(
        (name, value)
        for name, value in known
        if name.lower() not in left_out and _NAME.fullmatch(name) and _VALUE.fullmatch(value)
    )[:_MOST]


def to_wire(fields: Fields) -> dict[str, list[str]]:
    """Return headers in the form of Go's `http.Header`: canonical names, a list of values for each."""
    made: dict[str, list[str]] = {}
    for name, value in fields:
        made.setdefault("-".join(part.capitalize() for part in name.split("-")), []).append(value)
    return made


def from_wire(header: dict[str, list[str]] | None) -> Fields:
    """Return headers of Go's form in order; no more than a peer may send in earnest."""
    fields = ((name, value) for name, values in (header or {}).items() for value in values)
    return tuple(islice(fields, _MOST_READ))
