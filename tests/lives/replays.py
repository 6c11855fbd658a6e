"""Replays what a life has recorded, and what the flight recorder has kept of it: `python -m tests.lives.replays DIR`.

Each trace is read once, and replayed in one process: the whole node, and module by module. The exit status is 7 if a
replay differs, and the differences are in a file beside the trace; also if there is nothing to replay. Else how much
was replayed is printed.
"""

import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from modules.lab.replay.errors import ReplayError
from modules.lab.replay.outputs import MODULES, NODE
from modules.lab.replay.recorded import Recorded, load_runs
from modules.lab.replay.run import Replayed, replay
from modules.processes.common.exit_codes import ExitCode

_IN_THE_MIDDLE: Final = "has no run from its beginning"
"""Of a file of the flight recorder that cannot be replayed."""


def main() -> int:
    """Replay, print a line for each replay that differs, and return the exit status."""
    logging.disable()
    failed = 0
    whole: list[Replayed] = []
    for trace in sorted(Path(sys.argv[1]).glob("*.trace")):
        for failure in replays_that_differ(trace, whole):
            failed += 1
            sys.stdout.write(f"{failure}\n")
    fed, outputs = sum(each.fed for each in whole), sum(len(each.recorded) for each in whole)
    sys.stdout.write(f"{len(whole)} runs, {fed} messages and frames, {outputs} outputs\n")
    failed += not (fed and outputs)
    return ExitCode.DIFFERENT if failed else ExitCode.OK


def replays_that_differ(trace: Path, whole: list[Replayed]) -> Iterator[str]:
    """Yield a line for each replay of a trace that differs from its recorded run, and keep the differences; add the
    replays of the whole node to a list.
    """
    for run in _runs_of(trace):
        for module in (NODE, *MODULES):
            with TemporaryDirectory() as root:
                replayed = replay(run, Path(root), module)
            whole += [replayed] if module == NODE else []
            if differences := replayed.differences:
                kept = trace.with_suffix(f".{run.number}.{module or 'node'}.txt")
                kept.write_text("\n\n".join(one.render() for one in differences))
                what = f"{trace.name}, run {run.number}, {module or 'whole node'}"
                yield f"{what}: {len(differences)} differences, {kept}"


def _runs_of(trace: Path) -> Iterator[Recorded]:
    try:
        yield from load_runs(trace)
    except ReplayError as error:
        if _IN_THE_MIDDLE not in str(error):
            raise


if __name__ == "__main__":
    sys.exit(main())
