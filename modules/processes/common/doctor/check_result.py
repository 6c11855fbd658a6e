"""Results of checks, and their lines, for `edgecore doctor` and `cloudcore doctor`."""

import sys
from collections.abc import Sequence
from enum import StrEnum
from typing import Final

import msgspec

from beehive.printable import printable
from modules.apimachinery.printing.terminal import print_json, print_lines


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


_SIGNS: Final = {Level.OK: "✔", Level.WARNING: "!", Level.FAILED: "✘", Level.UNKNOWN: "?"}
_COLOURS: Final = {Level.OK: 32, Level.WARNING: 33, Level.FAILED: 31, Level.UNKNOWN: 33}


def lines(results: Sequence[CheckResult], *, terminal: bool) -> list[str]:
    """Return the results as lines: with signs and colours for a terminal, with words elsewhere."""
    width = max((len(each.check) for each in results), default=0)
    found = []
    for each in results:
        sign = f"\x1b[{_COLOURS[each.level]}m{_SIGNS[each.level]}\x1b[0m" if terminal else f"{each.level:7}"
        hint = f" — {each.hint}" if each.hint else ""
        found.append(f"{sign} {each.check:{width}}  {printable(f'{each.text}{hint}')}")
    return found


def print_results(results: Sequence[CheckResult], *, as_json: bool) -> None:
    """Print a line for each result, or all as JSON."""
    if as_json:
        print_json(results, indent=2)
        return
    terminal = sys.stdout.isatty()
    print_lines(lines(results, terminal=terminal), colours=terminal)
