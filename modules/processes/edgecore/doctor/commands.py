"""Runs `edgecore doctor`: gathers facts, checks them, prints the results."""

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Final

from beehive import RealClock
from modules.processes.edgecore.config import ConfigError, EdgeCoreConfig, load
from modules.processes.edgecore.config.loading import LoadResult
from modules.processes.edgecore.default_root import default_root
from modules.processes.edgecore.doctor.check_result import CheckResult, Level, failed
from modules.processes.edgecore.doctor.checks import check_all
from modules.processes.edgecore.doctor.gathering import facts
from modules.processes.edgecore.edged_server import socket_path
from modules.processes.edgecore.exit_codes import ExitCode
from modules.processes.edgecore.join import DEFAULT_FILE
from modules.tools.printing.terminal import print_json, print_lines

_SIGNS: Final = {Level.OK: "✔", Level.WARNING: "!", Level.FAILED: "✘", Level.UNKNOWN: "?"}
_COLOURS: Final = {Level.OK: 32, Level.WARNING: 33, Level.FAILED: 31, Level.UNKNOWN: 33}


def doctor(chosen: argparse.Namespace) -> int:
    """Print a line for each check; exit status UNWELL if one has failed."""
    try:
        loaded = _loaded(chosen)
    except ConfigError as error:
        problems = [
            failed("configuration", each.render(error.source), "see docs/configuration.md") for each in error.problems
        ]
        _print(problems, as_json=chosen.json)
        return ExitCode.CONFIGURATION
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    results = check_all(facts(loaded, RealClock()))
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


def _loaded(chosen: argparse.Namespace) -> LoadResult:
    """Load the file in the arguments, else the configuration of the user's own node, else KubeEdge's file."""
    if chosen.config:
        return load(chosen.config)
    root = chosen.root or default_root()
    own = EdgeCoreConfig.embedded(root)
    if chosen.root or socket_path(own).exists() or not DEFAULT_FILE.exists():
        return LoadResult(config=own, source=f"--root {root}")
    return load(DEFAULT_FILE)


def _print(results: Sequence[CheckResult], *, as_json: bool) -> None:
    if as_json:
        print_json(results, indent=2)
        return
    terminal = sys.stdout.isatty()
    print_lines(lines(results, terminal=terminal), colours=terminal)
