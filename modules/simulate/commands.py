"""`edgecore simulate`: runs seeds, says how fast, and of each that fails how it fails and how to see it again.

How fast is told in the machine's own time, for people: nothing that is simulated reads it.
"""

import argparse
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from beehive.errors import BeehiveError
from modules.edgecore.exit_codes import ExitCode
from modules.simulate.campaign import Outcome, Settings, run_seed, run_seeds, small_failure
from modules.simulate.draw import Profile
from modules.simulate.report import plan_text, read_plan, write_run
from modules.simulate.run import run_plan

_HOUR = 3600.0
_HOSTILE = 0.5
"""Seconds from one message of a hostile node to its next."""
_SAY_EVERY = 2.0
"""Real seconds between two lines of progress where there is no terminal."""


def simulate(chosen: argparse.Namespace) -> int:
    """Runs what the command line says; 0 when nothing was violated, 6 when something was."""
    if chosen.plan is not None:
        return _again(chosen.plan, chosen.out)
    settings = Settings(
        nodes=chosen.nodes,
        seconds=chosen.hours * _HOUR,
        profile=Profile(chosen.faults),
        pods=chosen.pods,
        hostile=_HOSTILE if chosen.hostile else 0.0,
    )
    failed = _campaign(range(chosen.seed, chosen.seed + chosen.seeds), settings, chosen.cores)
    for outcome in failed[:3]:
        _show(outcome, settings, chosen.out)
    return ExitCode.VIOLATED if failed else ExitCode.OK


def _campaign(seeds: range, settings: Settings, cores: int) -> list[Outcome]:
    began = time.monotonic()
    progress = _Progress(len(seeds), began)
    outcomes: list[Outcome] = []
    for outcome in _outcomes(seeds, settings, cores):
        outcomes.append(outcome)
        if outcome.violation is not None:
            progress.line(f"seed {outcome.seed}: {outcome.violation}")
        progress.update(outcomes)
    progress.end(outcomes)
    return sorted((outcome for outcome in outcomes if outcome.violation is not None), key=lambda one: one.seed)


def _outcomes(seeds: range, settings: Settings, cores: int) -> Iterator[Outcome]:
    if len(seeds) == 1 or cores == 1:
        return (run_seed(seed, settings) for seed in seeds)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(ExitCode.INTERRUPTED))  # so that what is on the disk is removed
    return run_seeds(seeds, settings, cores)


def _show(outcome: Outcome, settings: Settings, out: Path) -> None:
    """Makes a failure small and writes down all that is known of it."""
    violation = outcome.violation
    if violation is None:
        return
    _say(f"\nseed {outcome.seed} fails; leaving out what it does not need to fail …")
    small = small_failure(settings.plan(outcome.seed), violation, traces=out)
    path = write_run(small, out)
    _say(f"{plan_text(small.plan)}\n{small.violation}")
    _say(f"log: {path}\nagain: edgecore simulate --plan {path.with_suffix('.plan.json')}\ntraces: {out}/seed-*.trace")


def _again(path: Path, out: Path) -> int:
    try:
        result = run_plan(read_plan(path), traces=out)
    except (OSError, msgspec.DecodeError, BeehiveError) as error:
        sys.stderr.write(f"edgecore: {path}: {error}\n")
        return ExitCode.USAGE
    log = write_run(result, out)
    _say(f"{result.violation or 'nothing was violated'}\nlog: {log}")
    return ExitCode.VIOLATED if result.violation else ExitCode.OK


class _Progress:
    """One line that is written over on a terminal, and a line now and then elsewhere."""

    def __init__(self, total: int, began: float) -> None:
        self._total = total
        self._began = began
        self._said = began
        self._terminal = sys.stderr.isatty()

    def line(self, text: str) -> None:
        sys.stderr.write(f"\r\033[K{text}\n" if self._terminal else f"{text}\n")

    def update(self, outcomes: list[Outcome]) -> None:
        if self._terminal:
            sys.stderr.write(f"\r\033[K{self._text(outcomes)}")
        elif time.monotonic() - self._said >= _SAY_EVERY:
            self._said = time.monotonic()
            sys.stderr.write(f"{self._text(outcomes)}\n")
        sys.stderr.flush()

    def end(self, outcomes: list[Outcome]) -> None:
        if self._terminal:
            sys.stderr.write("\r\033[K")
        _say(self._text(outcomes))

    def _text(self, outcomes: list[Outcome]) -> str:
        took = max(1e-6, time.monotonic() - self._began)
        hours = sum(outcome.node_seconds for outcome in outcomes) / _HOUR
        failed = sum(outcome.violation is not None for outcome in outcomes)
        kills = sum(outcome.kills for outcome in outcomes)
        return (
            f"{len(outcomes)}/{self._total} seeds, {failed} failed; {hours:.1f} node-hours in {took:.1f} s "
            f"({hours * 60 / took:.1f} node-hours a minute), {kills} kills"
        )


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
