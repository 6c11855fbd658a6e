"""Refusals of watches: an API server accepts a watch of a version that it has forgotten, and ends it with an event."""

from collections.abc import Generator
from typing import Any

import msgspec

from beehive.http.responses import Peer, Stream


def error_event(status: dict[str, Any]) -> bytes:
    """Return the event that ends a watch, as a line."""
    return msgspec.json.encode({"type": "ERROR", "object": status}) + b"\n"


def failed_watch(status: dict[str, Any]) -> Stream:
    """Return the stream of a watch that ends immediately.

    Clients list again after such an event; not all of them do so after a response with its code.
    """

    def pieces(_peer: Peer) -> Generator[bytes, None, None]:
        yield error_event(status)

    return Stream("application/json", pieces, lambda: None, lambda _woken: iter((error_event(status),)))
