"""What a check came to."""

from enum import StrEnum

import msgspec


class Level(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARNING = "warning"
    """Worth knowing; the node works."""
    FAILED = "FAIL"
    """Something does not work, or will not."""
    UNKNOWN = "unknown"
    """It could not be looked at, and why is said by it or by another check."""


class Verdict(msgspec.Struct, frozen=True):
    """One line."""

    check: str
    level: Level
    text: str
    hint: str = ""
    """What to do."""


def ok(check: str, text: str) -> Verdict:
    """All is well."""
    return Verdict(check, Level.OK, text)


def warning(check: str, text: str, hint: str) -> Verdict:
    """Worth knowing."""
    return Verdict(check, Level.WARNING, text, hint)


def failed(check: str, text: str, hint: str) -> Verdict:
    """Something is wrong."""
    return Verdict(check, Level.FAILED, text, hint)


def unknown(check: str, text: str, hint: str = "") -> Verdict:
    """Not looked at."""
    return Verdict(check, Level.UNKNOWN, text, hint)
