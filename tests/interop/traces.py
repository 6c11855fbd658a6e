"""The messages that a real cloudcore and a real edgecore exchanged, as the recordings have them.

`tests/recordings/README.md` says what each file is, which versions made it and how to make it again.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

RECORDINGS: Final = Path(__file__).resolve().parents[1] / "recordings"

FILES: Final = {
    "2019": ("00-register", "01-pod-add", "04-configmap-secret-pod", "06-pod-delete"),
    "today": (
        "00-register",
        "01-pod-add",
        "02-pod-update-label",
        "04-configmap-secret-pod",
        "06-pod-delete",
        "09-idle-keepalive-lease-nodestatus",
        "13-edgecore-restart-with-pod",
    ),
}
"""Names of the files of each recording, in order of time."""

KUBEEDGE: Final = RECORDINGS / "kubeedge"

KUBEEDGE_FILES: Final = tuple(
    KUBEEDGE / f"{name}.jsonl"
    for name in (
        "start", "d1-device-created", "d2-desired-changed", "d3-reported", "d5-offline", "j1-prepull",
        "j1-prepull-fails", "j2-configupdate", "j3-nodeupgrade", "j4-configupdate-done",
        "j5-nodeupgrade-done", "j6-configupdate-back", "j7-nodeupgrade-go", "m1-metaserver", "m2-token",
        "m2-token-refresh", "m4-ephemeral", "m6-static", "r1-rest-eventbus", "r3-rest-servicebus",
        "r4-servicebus-rest", "r5-rules-deleted", "s1-logs", "s2-logs-follow-cut", "s3-exec-v5",
        "s5-exec-tty", "s7-attach", "s8-exec-cut", "s9-tunnel-cut",
    )
)  # fmt: skip
"""Scenarios of one edgecore of 2026, with devices, rules, jobs, the metaserver and the stream tunnel."""
KUBEEDGE_MQTT: Final = tuple(
    KUBEEDGE / f"{name}.mqtt.jsonl"
    for name in ("start", "d1-device-created", "d3-reported", "d5-offline", "r1-rest-eventbus")
)
"""MQTT messages of these scenarios; their lines differ from the link's."""


def recordings(*years: str) -> list[Path]:
    """Return the files of these recordings, or of all, in order of time within each."""
    return [RECORDINGS / year / f"{name}.jsonl" for year in years or FILES for name in FILES[year]]


def lines_of(path: Path) -> list[dict[str, Any]]:
    """Yield the lines of a recording, of all kinds."""
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]


def messages(path: Path) -> Iterator[dict[str, Any]]:
    """The websocket messages of one file, both directions."""
    for line in lines_of(path):
        if is_message(line):
            yield line["msg"]


def is_message(line: dict[str, Any]) -> bool:
    """Whether a line holds a message between cloud and edge; a tunnel's `ws` frame holds no message."""
    return line.get("kind") == "ws" and "msg" in line


def frame(message: dict[str, Any]) -> bytes:
    """The bytes as Go's `json.Encoder` puts them on the wire: HTML escaped, a newline at the end."""
    text = json.dumps(message, separators=(",", ":"), ensure_ascii=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text.encode() + b"\n"
