"""The recordings as one life of a node: handshakes and messages, file after file."""

import json
from collections.abc import Iterator
from typing import Any

from tests.interop.traces import TRACES

Json = dict[str, Any]
Step = tuple[str, str]
"""Operation and resource."""


def entries(year: str) -> Iterator[tuple[str, Json]]:
    """The handshakes and messages of all files of a year, each with its file's name."""
    for path in sorted((TRACES / year).glob("*.jsonl")):
        for line in path.read_text().splitlines():
            entry = json.loads(line)
            is_handshake = entry["kind"] == "http-request" and entry["line"].endswith("/events HTTP/1.1")
            if entry["kind"] == "ws" or is_handshake:
                yield path.stem, entry


def step_of(message: Json) -> Step:
    """What is done to what."""
    return message["route"]["operation"], message["route"]["resource"]
