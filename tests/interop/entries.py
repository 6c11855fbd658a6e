"""The recordings as the history of one node: handshakes and messages, file after file."""

from collections.abc import Iterator
from typing import Any

from tests.interop.traces import is_message, lines_of, recordings

Json = dict[str, Any]
Step = tuple[str, str]
"""Operation and resource."""


def entries(year: str) -> Iterator[tuple[str, Json]]:
    """Yield the handshakes and messages of all files of a recording, each with its file's name."""
    for path in recordings(year):
        for entry in lines_of(path):
            is_handshake = entry.get("kind") == "http-request" and entry["line"].endswith("/events HTTP/1.1")
            if is_message(entry) or is_handshake:
                yield path.stem, entry


def step_of(message: Json) -> Step:
    """Return operation and resource of a message."""
    return message["route"]["operation"], message["route"]["resource"]
