"""The protocol of exec and attach over WebSocket: `v4.channel.k8s.io` and `v5.channel.k8s.io`. Pure.

Each message begins with the number of a channel. Version 5 can close a channel, version 4 cannot: with it (containerd
before 2.0) a command that reads its input to the end waits for ever.
"""

import re
from enum import IntEnum
from typing import Any, Final

import msgspec

from beehive.decoding import decode_json

PROTOCOLS: Final = ("v5.channel.k8s.io", "v4.channel.k8s.io")
"""The first one is preferred."""

_CODE: Final = re.compile(r"\d{1,9}", re.ASCII)


class Channel(IntEnum):
    """First byte of a message."""

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
    """The parts of metav1.Status that describe the end of a command."""

    status: str = ""
    message: str = ""
    reason: str = ""
    details: _Details | None = None


class CommandExit(msgspec.Struct, frozen=True):
    """The end of a command."""

    code: int
    problem: str = ""
    """Why the command did not run, or not to its end; empty if it ended by itself."""


def result_of(content: bytes) -> CommandExit:
    """Decode a message of the result channel."""
    try:
        status = decode_json(content, _Status)
    except (msgspec.DecodeError, UnicodeError):
        return CommandExit(1, content.decode(errors="replace"))
    if status.status == "Success":
        return CommandExit(0)
    causes = status.details.causes if status.details else []
    codes = [cause.message for cause in causes if cause.reason == "ExitCode" and _CODE.fullmatch(cause.message)]
    if status.reason == "NonZeroExitCode" and codes:
        return CommandExit(int(codes[0]))
    return CommandExit(1, status.message or "the command could not be run")


def size_message(columns: int, lines: int) -> bytes:
    """Return a message with the terminal's size."""
    size: dict[str, Any] = {"Width": columns, "Height": lines}
    return bytes([Channel.RESIZE]) + msgspec.json.encode(size)


def input_message(data: bytes) -> bytes:
    """Return a message with input for the command."""
    return bytes([Channel.STDIN]) + data


def end_of_input() -> bytes:
    """Return the message that closes the input; version 5 only."""
    return bytes([Channel.CLOSE, Channel.STDIN])
