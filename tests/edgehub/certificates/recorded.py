"""The recorded registration of a real KubeEdge edge with a real cloud, taken apart."""

import base64
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

TRACE = Path("/work/shared/traces/today/00-register.jsonl")

needs_trace = pytest.mark.skipif(not TRACE.exists(), reason=f"{TRACE} is not on this machine")


@cache
def exchange() -> list[dict[str, Any]]:
    """What went over the HTTPS connections, in order."""
    events = [json.loads(line) for line in TRACE.read_text().splitlines()]
    return [event for event in events if event.get("listener") == "https"]


def body(kind: str, number: int) -> bytes:
    """The body of the request or answer with a number."""
    events = [event for event in exchange() if event["kind"] == kind]
    content: dict[str, str] = events[number]["body"]
    return base64.b64decode(content["b64"]) if "b64" in content else content["text"].encode()


def headers(number: int) -> dict[str, str]:
    """The headers of a request, by lower-case name."""
    events = [event for event in exchange() if event["kind"] == "http-request"]
    return {name.lower(): value for name, value in events[number]["headers"]}
