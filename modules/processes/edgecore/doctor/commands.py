"""Runs `edgecore doctor`: gathers facts, checks them, prints the results."""

import argparse
import os
import shlex
import sys
from collections.abc import Sequence
from typing import Final

from beehive import RealClock
from modules.processes.edgecore.config import ConfigError
from modules.processes.edgecore.doctor.check_result import CheckResult, Level, failed
from modules.processes.edgecore.doctor.checks import check_all
from modules.processes.edgecore.doctor.gathering import facts
from modules.processes.edgecore.exit_codes import ExitCode
from modules.processes.edgecore.location import node_location
from modules.tools.printing.terminal import print_json, print_lines

_SIGNS: Final = {Level.OK: "✔", Level.WARNING: "!", Level.FAILED: "✘", Level.UNKNOWN: "?"}
_COLOURS: Final = {Level.OK: 32, Level.WARNING: 33, Level.FAILED: 31, Level.UNKNOWN: 33}


def doctor(chosen: argparse.Namespace) -> int:
    """Print a line for each check; exit status UNWELL if one has failed."""
    try:
        location = node_location(chosen)
        loaded = location.load()
    except ConfigError as error:
        problems = [
            failed("configuration", each.render(error.source), "see docs/configuration.md") for each in error.problems
        ]
        _print(problems, as_json=chosen.json)
        return ExitCode.CONFIGURATION
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    results = check_all(facts(loaded, shlex.join(location.options), RealClock()))
    _print(results, as_json=chosen.json)
    return ExitCode.UNWELL if any(each.level is Level.FAILED for each in results) else ExitCode.OK


def lines(results: Sequence[CheckResult], *, terminal: bool) -> list[str]:
    """Return the results as lines: with signs and colours for a terminal, with words elsewhere."""
    width = max((len(each.check) for each in results), default=0)
    found = []
    for each in results:
        sign = f"\x1b[{_COLOURS[each.level]}m{_SIGNS[each.level]}\x1b[0m" if terminal else f"{each.level:7}"
        hint = f" — {each.hint}" if each.hint else ""
        found.append(f"{sign} {each.check:{width}}  {each.text}{hint}")
    return found


def _print(results: Sequence[CheckResult], *, as_json: bool) -> None:
    if as_json:
        print_json(results, indent=2)
        return
    terminal = sys.stdout.isatty()
    print_lines(lines(results, terminal=terminal), colours=terminal)
