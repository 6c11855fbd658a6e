"""Runs cases of one target and returns its findings, each with the smallest input that still fails."""

import gc
import logging
import os
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from time import thread_time
from typing import Final

import msgspec

from tests.fuzz.target import Target, ViolationError

SLOWEST: Final = 2.0
"""Seconds of processor time that a case may take. Inputs have less than 50 KB: a good parser needs milliseconds."""

GROWTH: Final = 48 * 1024 * 1024
"""Bytes that the process may grow between the first tenth of the cases and the last case."""

_ATTEMPTS: Final = 2000
"""Attempts at making a failing input smaller."""


class Finding(msgspec.Struct, frozen=True):
    """A failed case."""

    target: str
    seed: int
    number: int
    error: str
    """Kind and text of the exception."""
    location: str
    """Where it was raised, to tell findings apart."""
    input: bytes
    """The smallest failing input."""

    def __str__(self) -> str:
        shown = repr(self.input[:600]) + (f" … {len(self.input)} bytes" if len(self.input) > 600 else "")
        return f"{self.target}: seed {self.seed} case {self.number}: {self.error}\n    at {self.location}\n    {shown}"


class Outcome(msgspec.Struct):
    """Result of a run of a target."""

    target: str
    cases: int = 0
    seconds: float = 0.0
    """Processor time."""
    slowest: float = 0.0
    growth: int = 0
    """Bytes of resident memory."""
    findings: list[Finding] = []


def run(target: Target, seed: int, numbers: range, each: Callable[[int], None] = lambda _: None) -> Outcome:
    """Run the cases of these numbers; keep one finding for each location. `each` is called with the number of cases
    done.
    """
    logging.disable()  # what is refused is logged, and nearly all of it is
    # a process that has run thousands of tests has millions of objects, and a look at all of them takes seconds
    gc.freeze()
    try:
        return _run(target, seed, numbers, each)
    finally:
        logging.disable(logging.NOTSET)


def _run(target: Target, seed: int, numbers: range, each: Callable[[int], None]) -> Outcome:
    seeds, outcome = target.seeds(), Outcome(target.name)
    settled = 0
    began = thread_time()
    for done, number in enumerate(numbers, 1):
        data, random = target.case(seed, number, seeds)
        started = thread_time()
        problem = attempt(target, data, random)
        took = thread_time() - started
        outcome.slowest = max(outcome.slowest, took)
        if took > SLOWEST and problem is None:
            problem = (f"took {took:.1f} s", "time")
        if problem is not None and problem[1] not in {finding.location for finding in outcome.findings}:
            small = data if problem[1] == "time" else shrunk(target, data, problem[1])
            outcome.findings.append(Finding(target.name, seed, number, *problem, small))
        if done == max(1, len(numbers) // 10):
            settled = _resident()
        if done % 500 == 0:
            each(done)
    outcome.cases, outcome.seconds = len(numbers), thread_time() - began
    outcome.growth = _resident() - settled
    if outcome.growth > GROWTH:
        grown = f"{outcome.growth} bytes more than after the first tenth of the cases"
        outcome.findings.append(Finding(target.name, seed, len(numbers), grown, "memory", b""))
    return outcome


def attempt(target: Target, data: bytes, random: Random) -> tuple[str, str] | None:
    """Run one case; return error and location of its exception, or None."""
    try:
        target.check(data, random)
    except Exception as error:  # noqa: BLE001 - any exception is a finding
        last = traceback.extract_tb(error.__traceback__)[-1]
        ours = [frame for frame in traceback.extract_tb(error.__traceback__) if "/.venv/" not in frame.filename]
        where = ours[-1] if ours else last
        text = str(error) if len(str(error)) < 300 else f"{str(error)[:300]}…"
        kind = str(error) if isinstance(error, ViolationError) else type(error).__name__
        return f"{type(error).__name__}: {text}", f"{Path(where.filename).name}:{where.name} {kind}"
    return None


def shrunk(target: Target, data: bytes, location: str) -> bytes:
    """Return a smaller input that fails at this location: remove parts as long as it still does."""
    left = _ATTEMPTS
    size = max(1, len(data) // 2)
    while size and left:
        for candidate in _without(data, size):
            left -= 1
            problem = attempt(target, candidate, Random(0))
            if problem is not None and problem[1] == location:
                data = candidate
                break
            if not left:
                break
        else:
            size //= 2
    return data


def _without(data: bytes, size: int) -> Iterator[bytes]:
    return (data[:at] + data[at + size :] for at in range(0, len(data), size))


def shares(targets: Sequence[Target], cases: int) -> dict[str, int]:
    """Divide a number of cases among the targets."""
    whole = sum(target.share for target in targets)
    return {target.name: max(1, round(cases * target.share / whole)) for target in targets}


def _resident() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
