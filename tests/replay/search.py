"""Replays many recorded runs of simulated nodes on all cores: `python -m tests.replay.search --faults link --seeds 20`.

Prints each run that today's code does not repeat, with its earliest differences; the exit status is then 1.
"""

import argparse
import logging
import multiprocessing
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from beehive.trace import Direction
from modules.lab.replay.outputs import NODE
from modules.lab.replay.run import replay
from modules.lab.simulate.draw import FaultProfile, draw_plan
from modules.lab.simulate.run import scratch_directory
from tests.replay.runs import record
from tests.support.patience import PATIENCE
from tests.support.saying import say

SHOWN = 3
"""Differences that are printed of each run."""


class Replayed(NamedTuple):
    """One replay of a whole node."""

    seed: int
    profile: FaultProfile
    differences: list[str]
    fed: int
    """Number of messages and frames that went in."""
    frames: int
    """Number of frames of the cloud in the recording: a node that was killed soon has few."""


def replay_seed(seed: int, profile: FaultProfile, directory: Path) -> Replayed:
    """Record the run of a seed and replay its whole node; `directory` is empty."""
    traces, root = directory / "traces", directory / "root"
    traces.mkdir()
    root.mkdir()
    run = record(draw_plan(seed, seconds=PATIENCE, profile=profile), traces)
    result = replay(run, root, NODE)
    frames = sum(one.direction is Direction.IN for one in run.frames())
    return Replayed(seed, profile, [one.render() for one in result.differences], result.fed, frames)


def main() -> int:
    """Return 0 when all runs were repeated."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faults", nargs="*", type=FaultProfile, default=list(FaultProfile), metavar="PROFILE")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="the first")
    parser.add_argument("--seeds", type=int, default=200, metavar="N", help="of each profile (default 200)")
    parser.add_argument("--cores", type=int, default=0, metavar="N", help="default: all")
    chosen = parser.parse_args()
    tasks = [(seed, each) for each in chosen.faults for seed in range(chosen.seed, chosen.seed + chosen.seeds)]
    different = 0
    for one in _replays(tasks, chosen.cores):
        if one.differences:
            different += 1
            say(f"{one.profile} {one.seed}: {len(one.differences)} differences\n" + "\n".join(one.differences[:SHOWN]))
    say(f"{len(tasks) - different} of {len(tasks)} runs were repeated")
    return 1 if different else 0


def _replays(tasks: list[tuple[int, FaultProfile]], cores: int) -> Iterator[Replayed]:
    context = multiprocessing.get_context("spawn")
    with scratch_directory() as scratch, context.Pool(cores or None, initializer=_begin) as pool:
        yield from pool.imap_unordered(_one, [(*task, scratch) for task in tasks])


def _begin() -> None:
    """Log nothing: what a module logs in a replay it has logged in the run."""
    logging.disable()


def _one(task: tuple[int, FaultProfile, Path]) -> Replayed:
    seed, profile, scratch = task
    with TemporaryDirectory(dir=scratch) as directory:
        return replay_seed(seed, profile, Path(directory))


if __name__ == "__main__":
    sys.exit(main())
