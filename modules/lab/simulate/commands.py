"""The command `edgecore simulate`: runs seeds, prints the speed, and for each failing seed how to reproduce it.

The speed is measured in the machine's own time, which nothing simulated reads.
"""

import argparse
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from beehive.errors import BeehiveError
from modules.lab.simulate.draw import FaultProfile
from modules.lab.simulate.report import plan_text, read_plan, write_run
from modules.lab.simulate.run import run_plan
from modules.lab.simulate.seeds import SeedOutcome, SeedSettings, run_seed, run_seeds, small_failure
from modules.processes.common.exit_codes import ExitCode

_HOUR = 3600.0
_HOSTILE = 0.5
"""Seconds between two messages of a hostile node."""
_PRINT_EVERY = 2.0
"""Real seconds between two lines of progress without a terminal."""


def simulate(chosen: argparse.Namespace) -> int:
    """Run the command; exit status 0, or 6 if an invariant was violated."""
    if chosen.plan is not None:
        return _run_plan(chosen.plan, chosen.out)
    settings = SeedSettings(
        nodes=chosen.nodes,
        seconds=chosen.hours * _HOUR,
        profile=FaultProfile(chosen.faults),
        pods=chosen.pods,
        hostile=_HOSTILE if chosen.hostile else 0.0,
        cluster=chosen.cloud == "cluster",
        keeps_state=chosen.state == "cluster",
        devices=chosen.devices,
        compares_sizes=True,
        workloads=chosen.workloads,
        services=chosen.services,
        lockouts=chosen.lockouts,
        streams=chosen.streams,
        days=chosen.days,
    )
    failed = _campaign(range(chosen.seed, chosen.seed + chosen.seeds), settings, chosen.cores)
    for outcome in failed[:3]:
        _show(outcome, settings, chosen.out)
    return ExitCode.VIOLATED if failed else ExitCode.OK


def _campaign(seeds: range, settings: SeedSettings, cores: int) -> list[SeedOutcome]:
    began = time.monotonic()
    progress = _Progress(len(seeds), began)
    outcomes: list[SeedOutcome] = []
    for outcome in _outcomes(seeds, settings, cores):
        outcomes.append(outcome)
        if outcome.violation is not None:
            progress.line(f"seed {outcome.seed}: {outcome.violation}")
        progress.update(outcomes)
    progress.end(outcomes)
    return sorted((outcome for outcome in outcomes if outcome.violation is not None), key=lambda one: one.seed)


def _outcomes(seeds: range, settings: SeedSettings, cores: int) -> Iterator[SeedOutcome]:
    if len(seeds) == 1 or cores == 1:
        return (run_seed(seed, settings) for seed in seeds)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(ExitCode.INTERRUPTED))  # so that files are removed
    return run_seeds(seeds, settings, cores)


def _show(outcome: SeedOutcome, settings: SeedSettings, out: Path) -> None:
    """Shrink a failure and write its plan, log and traces."""
    violation = outcome.violation
    if violation is None:
        return
    _print(f"\nseed {outcome.seed} fails; leaving out what it does not need to fail …")
    small = small_failure(settings.plan(outcome.seed), violation, traces=out)
    path = write_run(small, out)
    _print(f"{plan_text(small.plan)}\n{small.violation}")
    _print(f"log: {path}\nagain: edgecore simulate --plan {path.with_suffix('.plan.json')}\ntraces: {out}/seed-*.trace")


def _run_plan(path: Path, out: Path) -> int:
    try:
        result = run_plan(read_plan(path), traces=out)
    except (OSError, msgspec.DecodeError, BeehiveError) as error:
        sys.stderr.write(f"edgecore: {path}: {error}\n")
        return ExitCode.USAGE
    log = write_run(result, out)
    _print(f"{result.violation or 'nothing was violated'}\nlog: {log}")
    return ExitCode.VIOLATED if result.violation else ExitCode.OK


class _Progress:
    """Progress as one line that is redrawn on a terminal, and as a line now and then elsewhere."""

    def __init__(self, total: int, began: float) -> None:
        self._total = total
        self._began = began
        self._printed_at = began
        self._terminal = sys.stderr.isatty()

    def line(self, text: str) -> None:
        sys.stderr.write(f"\r\033[K{text}\n" if self._terminal else f"{text}\n")

    def update(self, outcomes: list[SeedOutcome]) -> None:
        if self._terminal:
            sys.stderr.write(f"\r\033[K{self._text(outcomes)}")
        elif time.monotonic() - self._printed_at >= _PRINT_EVERY:
            self._printed_at = time.monotonic()
            sys.stderr.write(f"{self._text(outcomes)}\n")
        sys.stderr.flush()

    def end(self, outcomes: list[SeedOutcome]) -> None:
        if self._terminal:
            sys.stderr.write("\r\033[K")
        _print(self._text(outcomes))

    def _text(self, outcomes: list[SeedOutcome]) -> str:
        took = max(1e-6, time.monotonic() - self._began)
        hours = sum(outcome.node_seconds for outcome in outcomes) / _HOUR
        failed = sum(outcome.violation is not None for outcome in outcomes)
        kills = sum(outcome.kills for outcome in outcomes)
        return (
            f"{len(outcomes)}/{self._total} seeds, {failed} failed; {hours:.1f} node-hours in {took:.1f} s "
            f"({hours * 60 / took:.1f} node-hours a minute), {kills} kills"
        )


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
