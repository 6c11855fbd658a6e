"""The recorded registration of a real KubeEdge edge with a real cloud, taken apart."""

import base64
from functools import cache
from typing import Any

from tests.interop.traces import RECORDINGS, lines_of

TRACE = RECORDINGS / "today" / "00-register.jsonl"


@cache
def exchange() -> list[dict[str, Any]]:
    """What went over the HTTPS connections, in order."""
    return [event for event in lines_of(TRACE) if event.get("listener") == "https"]


def body(kind: str, number: int) -> bytes:
    """The body of the request or answer with a number."""
    events = [event for event in exchange() if event.get("kind") == kind]
    content: dict[str, str] = events[number]["body"]
    return base64.b64decode(content["b64"]) if "b64" in content else content["text"].encode()


def headers(number: int) -> dict[str, str]:
    """The headers of a request, by lower-case name."""
    events = [event for event in exchange() if event.get("kind") == "http-request"]
    return {name.lower(): value for name, value in events[number]["headers"]}
