"""The end of a command by exec and attach, and the channels of its output. Pure."""

import re
from enum import Enum
from typing import Final

import msgspec

from beehive.decoding import decode_json

_CODE: Final = re.compile(r"\d{1,9}", re.ASCII)


class Channel(Enum):
    """An output of a command."""

    STDOUT = "stdout"
    STDERR = "stderr"


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
