"""`edgecore doctor`: gathers, judges, prints."""

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Final

from beehive import RealClock
from modules.edgecore.cli import default_root
from modules.edgecore.config import ConfigError, EdgeCoreConfig, load
from modules.edgecore.config.loading import LoadResult
from modules.edgecore.doctor.checks import check_all
from modules.edgecore.doctor.gathering import facts
from modules.edgecore.doctor.verdict import Level, Verdict, failed
from modules.edgecore.exit_codes import ExitCode
from modules.edgecore.join import DEFAULT_FILE
from modules.edgecore.serving import socket_path
from modules.printing.terminal import say_json, say_lines

_SIGNS: Final = {Level.OK: "✔", Level.WARNING: "!", Level.FAILED: "✘", Level.UNKNOWN: "?"}
_COLOURS: Final = {Level.OK: 32, Level.WARNING: 33, Level.FAILED: 31, Level.UNKNOWN: 33}


def doctor(chosen: argparse.Namespace) -> int:
    """Prints a line for each check; UNWELL when one has failed."""
    try:
        loaded = _loaded(chosen)
    except ConfigError as error:
        problems = [
            failed("configuration", each.render(error.source), "see docs/configuration.md") for each in error.problems
        ]
        _print(problems, as_json=chosen.json)
        return ExitCode.CONFIGURATION
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    verdicts = check_all(facts(loaded, RealClock()))
    _print(verdicts, as_json=chosen.json)
    return ExitCode.UNWELL if any(each.level is Level.FAILED for each in verdicts) else ExitCode.OK


def lines(verdicts: Sequence[Verdict], *, terminal: bool) -> list[str]:
    """As a person reads them: signs and colours on a terminal, words elsewhere."""
    width = max((len(each.check) for each in verdicts), default=0)
    found = []
    for each in verdicts:
        sign = f"\x1b[{_COLOURS[each.level]}m{_SIGNS[each.level]}\x1b[0m" if terminal else f"{each.level:7}"
        hint = f" — {each.hint}" if each.hint else ""
        found.append(f"{sign} {each.check:{width}}  {each.text}{hint}")
    return found


def _loaded(chosen: argparse.Namespace) -> LoadResult:
    """The file that is named, or the node that is there: the user's own, or KubeEdge's file."""
    if chosen.config:
        return load(chosen.config)
    root = chosen.root or default_root()
    own = EdgeCoreConfig.embedded(root)
    if chosen.root or socket_path(own).exists() or not DEFAULT_FILE.exists():
        return LoadResult(config=own, source=f"--root {root}")
    return load(DEFAULT_FILE)


def _print(verdicts: Sequence[Verdict], *, as_json: bool) -> None:
    if as_json:
        say_json(verdicts, indent=2)
        return
    terminal = sys.stdout.isatty()
    say_lines(lines(verdicts, terminal=terminal), colours=terminal)
