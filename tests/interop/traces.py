"""The messages that a real cloudcore and a real edgecore exchanged, as the recordings have them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

TRACES = Path(__file__).resolve().parents[3] / "shared" / "traces"
needs_traces = pytest.mark.skipif(not TRACES.is_dir(), reason=f"the recorded traces are not at {TRACES}")


def recordings() -> list[Path]:
    """All files of all recordings, in order of time within each."""
    return sorted(TRACES.glob("*/*.jsonl"))


def messages(path: Path) -> Iterator[dict[str, Any]]:
    """The websocket messages of one file, both directions."""
    for line in path.read_text().splitlines():
        entry = json.loads(line)
        if entry["kind"] == "ws":
            yield entry["msg"]


def frame(message: dict[str, Any]) -> bytes:
    """The bytes as Go's `json.Encoder` puts them on the wire: HTML escaped, a newline at the end."""
    text = json.dumps(message, separators=(",", ":"), ensure_ascii=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text.encode() + b"\n"
