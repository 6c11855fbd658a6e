"""Printing of the results of checks, for `edgecore doctor` and `cloudcore doctor`."""

import sys
from collections.abc import Sequence
from typing import Final

from modules.processes.common.doctor.check_result import CheckResult, Level
from modules.tools.printing.terminal import print_json, print_lines

_SIGNS: Final = {Level.OK: "✔", Level.WARNING: "!", Level.FAILED: "✘", Level.UNKNOWN: "?"}
_COLOURS: Final = {Level.OK: 32, Level.WARNING: 33, Level.FAILED: 31, Level.UNKNOWN: 33}


def lines(results: Sequence[CheckResult], *, terminal: bool) -> list[str]:
    """Return the results as lines: with signs and colours for a terminal, with words elsewhere."""
    width = max((len(each.check) for each in results), default=0)
    found = []
    for each in results:
        sign = f"\x1b[{_COLOURS[each.level]}m{_SIGNS[each.level]}\x1b[0m" if terminal else f"{each.level:7}"
        hint = f" — {each.hint}" if each.hint else ""
        found.append(f"{sign} {each.check:{width}}  {each.text}{hint}")
    return found


def print_results(results: Sequence[CheckResult], *, as_json: bool) -> None:
    """Print a line for each result, or all as JSON."""
    if as_json:
        print_json(results, indent=2)
        return
    terminal = sys.stdout.isatty()
    print_lines(lines(results, terminal=terminal), colours=terminal)
