"""Results of checks."""

from enum import StrEnum

import msgspec


class Level(StrEnum):
    """Severity of a result."""

    OK = "ok"
    WARNING = "warning"
    """The node works, but the user should know."""
    FAILED = "FAIL"
    """Something does not work, or will not."""
    UNKNOWN = "unknown"
    """The check was not possible; its text or another check tells why."""


class CheckResult(msgspec.Struct, frozen=True):
    """One line of the output."""

    check: str
    level: Level
    text: str
    hint: str = ""
    """Remedy."""


def ok(check: str, text: str) -> CheckResult:
    """Return a good result."""
    return CheckResult(check, Level.OK, text)


def warning(check: str, text: str, hint: str) -> CheckResult:
    """Return a warning."""
    return CheckResult(check, Level.WARNING, text, hint)


def failed(check: str, text: str, hint: str) -> CheckResult:
    """Return a failure."""
    return CheckResult(check, Level.FAILED, text, hint)


def unknown(check: str, text: str, hint: str = "") -> CheckResult:
    """Return the result of a check that was not possible."""
    return CheckResult(check, Level.UNKNOWN, text, hint)
