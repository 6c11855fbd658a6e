"""The protocol inside the WebSocket of exec and attach: `v4.channel.k8s.io` and `v5.channel.k8s.io`.

Each message begins with the number of a channel. The fifth version can say that a channel has ended, the fourth cannot:
with it (containerd before 2.0) a command that reads its input to the end waits for ever. Pure: bytes to events.
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import Any, Final

import msgspec

PROTOCOLS: Final = ("v5.channel.k8s.io", "v4.channel.k8s.io")
"""The preferred one first."""

_CODE: Final = re.compile(r"\d{1,9}", re.ASCII)


class Channel(IntEnum):
    """The first byte of a message."""

    STDIN = 0
    STDOUT = 1
    STDERR = 2
    RESULT = 3
    RESIZE = 4
    CLOSE = 255


class _Cause(msgspec.Struct):
    reason: str = ""
    message: str = ""


class _Details(msgspec.Struct):
    causes: list[_Cause] = []


class _Status(msgspec.Struct):
    """The parts of metav1.Status that say how a command ended."""

    status: str = ""
    message: str = ""
    reason: str = ""
    details: _Details | None = None


class Result(msgspec.Struct, frozen=True):
    """How a command ended."""

    code: int
    problem: str = ""
    """Why it could not be run, or not to its end; empty when it ended by itself."""


def result_of(content: bytes) -> Result:
    """What the result channel says."""
    try:
        status = msgspec.json.decode(content, type=_Status)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return Result(1, content.decode(errors="replace"))
    if status.status == "Success":
        return Result(0)
    causes = status.details.causes if status.details else []
    codes = [cause.message for cause in causes if cause.reason == "ExitCode" and _CODE.fullmatch(cause.message)]
    if status.reason == "NonZeroExitCode" and codes:
        return Result(int(codes[0]))
    return Result(1, status.message or "the command could not be run")


def size_message(columns: int, lines: int) -> bytes:
    """Says how large the terminal is."""
    size: dict[str, Any] = {"Width": columns, "Height": lines}
    return bytes([Channel.RESIZE]) + msgspec.json.encode(size)


def input_message(data: bytes) -> bytes:
    """Input for the command."""
    return bytes([Channel.STDIN]) + data


def end_of_input() -> bytes:
    """Says that there is no more input; of the fifth version."""
    return bytes([Channel.CLOSE, Channel.STDIN])
