"""Runs many seeds on all cores, each core in a spawned process."""

import gc
import multiprocessing
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from modules.lab.simulate.draw import FaultProfile, draw_plan
from modules.lab.simulate.draw_days import with_days
from modules.lab.simulate.plan import Plan
from modules.lab.simulate.run import SimulationResult, run_plan, scratch_directory
from modules.lab.simulate.world import Violation

T = TypeVar("T")

_NUMBERS: Final = re.compile(r"[0-9a-f]{8}|[0-9]+(\.[0-9]+)?")
_WORDS: Final = 7

Fails = Callable[[Plan], bool]
"""Executes a plan and returns whether it fails like the original."""


class SeedSettings(msgspec.Struct, frozen=True):
    """Arguments of `draw_plan` that are the same for all seeds."""

    nodes: int = 1
    seconds: float = 240.0
    profile: FaultProfile = FaultProfile.ALL
    pods: int = 5
    hostile: float = 0.0
    cluster: bool = False
    devices: int = 0
    keeps_state: bool = False
    compares_sizes: bool = False
    workloads: bool = False
    services: bool = False
    lockouts: bool = False
    streams: bool = False
    days: float = 0.0

    def plan(self, seed: int) -> Plan:
        """Return the plan of a seed."""
        given = msgspec.structs.asdict(self)
        days = given.pop("days")
        plan = draw_plan(seed, **given)
        return with_days(plan, days) if days else plan


class SeedOutcome(msgspec.Struct, frozen=True):
    """The outcome of one seed."""

    seed: int
    violation: Violation | None
    node_seconds: float
    """Virtual seconds of all nodes together."""
    took: float
    """Real seconds on one core."""
    kills: int


def run_seed(seed: int, settings: SeedSettings, scratch: Path | None = None) -> SeedOutcome:
    """Run one seed; `scratch` as in `run_plan`. Leave nothing of it in memory: 120 seeds had left four gigabytes."""
    result = run_plan(settings.plan(seed), keep_log=False, scratch=scratch)
    gc.collect()
    return SeedOutcome(seed, result.violation, result.simulated * settings.nodes, result.took, result.kills)


def run_seeds(seeds: Iterable[int], settings: SeedSettings, cores: int = 0) -> Iterator[SeedOutcome]:
    """Run seeds on `cores` processes (0: one for each core) and yield outcomes as they are ready."""
    cores = cores or len(os.sched_getaffinity(0))
    context = multiprocessing.get_context("spawn")
    with scratch_directory() as scratch, context.Pool(cores, _begin, (settings, scratch)) as pool:
        yield from pool.imap_unordered(_run, seeds)


def shrink(plan: Plan, fails: Fails, tries: int = 200) -> Plan:
    """Return the plan without the parts that it does not need to fail. No remaining part can be left out singly, unless
    the tries ran out.

    Args:
        plan: a failing plan.
        fails: whether a plan fails in the same way.
        tries: highest number of runs.
    """
    budget = _Budget(fails, tries)
    faults = _needed(plan.faults, lambda some: budget.fails(msgspec.structs.replace(plan, faults=tuple(some))))
    plan = msgspec.structs.replace(plan, faults=tuple(faults))
    writes = _needed(plan.writes, lambda some: budget.fails(msgspec.structs.replace(plan, writes=tuple(some))))
    plan = msgspec.structs.replace(plan, writes=tuple(writes))
    steps = _needed(plan.steps, lambda some: budget.fails(msgspec.structs.replace(plan, steps=tuple(some))))
    plan = msgspec.structs.replace(plan, steps=tuple(steps))
    served = _needed(plan.services, lambda some: budget.fails(msgspec.structs.replace(plan, services=tuple(some))))
    plan = msgspec.structs.replace(plan, services=tuple(served))
    devices = _needed(plan.devices, lambda some: budget.fails(msgspec.structs.replace(plan, devices=tuple(some))))
    plan = msgspec.structs.replace(plan, devices=tuple(devices))
    rollouts = _needed(plan.rollouts, lambda some: budget.fails(msgspec.structs.replace(plan, rollouts=tuple(some))))
    return msgspec.structs.replace(plan, rollouts=tuple(rollouts))


class _Budget:
    def __init__(self, fails: Fails, tries: int) -> None:
        self._fails = fails
        self._left = tries

    def fails(self, plan: Plan) -> bool:
        self._left -= 1
        return self._left >= 0 and self._fails(plan)


def _needed(items: Sequence[T], fails: Callable[[Sequence[T]], bool]) -> Sequence[T]:
    """Drop ever smaller parts while it still fails (Zeller's delta debugging)."""
    parts = 2
    while items:
        size = max(1, len(items) // parts)
        for begin in range(0, len(items), size):
            rest = [*items[:begin], *items[begin + size :]]
            if fails(rest):
                items = rest
                parts = max(2, parts - 1)
                break
        else:
            if size == 1:
                break
            parts = min(len(items), parts * 2)
    return items


def small_failure(plan: Plan, violation: Violation, traces: Path | None = None) -> SimulationResult:
    """Run the smallest plan that violates the same invariant in the same way; its traces go to directory `traces`."""

    def fails(candidate: Plan) -> bool:
        found = run_plan(candidate, keep_log=False).violation
        return found is not None and manner_of(found) == manner_of(violation)

    return run_plan(shrink(plan, fails), traces=traces)


def manner_of(violation: Violation) -> tuple[str, ...]:
    """Return the invariant and the first words of a violation's text without its numbers: a pod that is missing is
    another failure than a pod with another status.
    """
    words = _NUMBERS.sub("#", violation.text).split()
    return violation.invariant, *words[:_WORDS]


_settings = SeedSettings()
_scratch: Path | None = None


def _begin(settings: SeedSettings, scratch: Path) -> None:
    """Initialise a worker. Its files are removed by the parent, however the worker ends."""
    global _settings, _scratch
    _settings, _scratch = settings, scratch
    gc.freeze()


def _run(seed: int) -> SeedOutcome:
    return run_seed(seed, _settings, _scratch)
