"""Many seeds on all cores. Each runs in a process of its own kind: spawned workers that take one seed after another."""

import gc
import multiprocessing
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from modules.simulate.draw import Profile, draw_plan
from modules.simulate.plan import Plan
from modules.simulate.run import Result, run_plan, scratch_directory
from modules.simulate.shrink import shrink
from modules.simulate.world import Violation


class Settings(msgspec.Struct, frozen=True):
    """What is drawn for each seed."""

    nodes: int = 1
    seconds: float = 240.0
    profile: Profile = Profile.ALL
    pods: int = 5
    hostile: float = 0.0

    def plan(self, seed: int) -> Plan:
        """The plan of a seed."""
        wanted = {"nodes": self.nodes, "pods": self.pods}
        return draw_plan(seed, **wanted, seconds=self.seconds, profile=self.profile, hostile=self.hostile)


class Outcome(msgspec.Struct, frozen=True):
    """What came of one seed."""

    seed: int
    violation: Violation | None
    node_seconds: float
    """Virtual seconds, of all nodes together."""
    took: float
    """Real seconds on one core."""
    kills: int


def run_seed(seed: int, settings: Settings, scratch: Path | None = None) -> Outcome:
    """Run one seed; `scratch` as in `run_plan`."""
    result = run_plan(settings.plan(seed), keep_log=False, scratch=scratch)
    return Outcome(seed, result.violation, result.simulated * settings.nodes, result.took, result.kills)


def run_seeds(seeds: Iterable[int], settings: Settings, cores: int = 0) -> Iterator[Outcome]:
    """Run seeds on `cores` processes (0: as many as there are cores); outcomes come as they are ready."""
    cores = cores or len(os.sched_getaffinity(0))
    context = multiprocessing.get_context("spawn")
    with scratch_directory() as scratch, context.Pool(cores, _begin, (settings, scratch)) as pool:
        yield from pool.imap_unordered(_run, seeds)


def small_failure(plan: Plan, violation: Violation, traces: Path | None = None) -> Result:
    """The run of the smallest plan that violates the same invariant; `traces`: directory for its traces."""

    def fails(candidate: Plan) -> bool:
        found = run_plan(candidate, keep_log=False).violation
        return found is not None and found.invariant == violation.invariant

    return run_plan(shrink(plan, fails), traces=traces)


_settings = Settings()
_scratch: Path | None = None


def _begin(settings: Settings, scratch: Path) -> None:
    """A worker's own start. What it has on the disk is removed by its parent, however the worker ends."""
    global _settings, _scratch
    _settings, _scratch = settings, scratch
    gc.freeze()


def _run(seed: int) -> Outcome:
    return run_seed(seed, _settings, _scratch)
