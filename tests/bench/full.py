"""A full node: 110 pods, a kubelet's limit, all wanted at once; then a minute in which nothing happens.

The floor under their start are the bare calls, by as many threads as make them quickest on this machine. Not part of a
plain `make bench`, for it takes minutes: `make bench ARGS='--only full-embedded --only full-containerd'`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final, NamedTuple

from tests.bench.bare import BareRuntime
from tests.bench.rows import Goal, Row, Unit
from tests.bench.subject import GRACE, Subject, bare_runtime, breathe, pass_time
from tests.end_to_end.machine import NODE, Machine
from tests.end_to_end.processes import wait_until
from tests.end_to_end.runtimes import ContainerdUnderTest, EmbeddedUnderTest, RuntimeUnderTest
from tests.support.containerd import PrivateContainerd

PODS: Final = 110
WORKERS: Final = (2, 4, 8, 16)
"""Threads of the bare calls, of which the best counts."""
IDLE_SECONDS: Final = float(os.environ.get("IDLE_SECONDS", "60"))
_SETTLED_SECONDS: Final = 12.0
"""Until the last change is over, and relists are as far apart as they are to be."""
_NAMES: Final = [f"full-{number}" for number in range(PODS)]
_NO_EVENTS: Final = {"pleg_relist_period_with_events": 0.0}


class Figures(NamedTuple):
    """Seconds, megabytes, percent of a core."""

    up: list[float]
    bare: dict[int, list[float]]
    processor: list[float]
    gone: list[float]
    resident: list[float]
    idle: list[float]
    idle_without_events: list[float]
    resident_later: list[float]


def measure(runtime: RuntimeUnderTest, rounds: int) -> list[Row]:
    """All rows of one runtime. Of several rounds only the start and the end of the pods."""
    figures = Figures([], {}, [], [], [], [], [], [])
    machine = Machine(runtime)
    try:
        machine.start()
        subject = Subject(machine)
        _fill(subject, figures)
        figures.resident.append(subject.resident())
        _be_idle(subject, figures)
        _empty(subject, figures)
        with bare_runtime(machine, runtime) as bare:
            for workers in WORKERS:
                _bare(bare, workers, figures)
            best = _best(figures)
            for _ in range(rounds - 1):
                _fill(subject, figures)
                _empty(subject, figures)
                _bare(bare, best, figures)
    finally:
        machine.close()
    return _rows(figures)


def embedded(rounds: int) -> list[Row]:
    """On the embedded runtime, which is part of edgecore's process."""
    return measure(EmbeddedUnderTest(), rounds)


def containerd(rounds: int) -> list[Row]:
    """On a containerd of its own."""
    with PrivateContainerd(cni=True) as daemon, ContainerdUnderTest(daemon) as runtime:
        return measure(runtime, rounds)


def _fill(subject: Subject, figures: Figures) -> None:
    before = subject.processor_seconds()
    figures.up.append(subject.up(_NAMES))
    figures.processor.append(subject.processor_seconds() - before)


def _empty(subject: Subject, figures: Figures) -> None:
    """Also of the runtime, which is to have nothing to do while the others are measured."""
    machine = subject.machine
    figures.gone.append(subject.down(_NAMES, GRACE))
    wait_until(lambda: machine.runtime.pods(machine.edge.root / "edged") == 0, "the runtime has no pods", 60)
    breathe()


def _bare(bare: BareRuntime, workers: int, figures: Figures) -> None:
    figures.bare.setdefault(workers, []).append(bare.up(PODS, workers))
    bare.down(0)
    breathe()


def _best(figures: Figures) -> int:
    return min(figures.bare, key=lambda workers: min(figures.bare[workers]))


def _be_idle(subject: Subject, figures: Figures) -> None:
    """As it is; then after a start of edgecore that pays no attention to events, and finds its pods again."""
    figures.idle.append(_share(subject))
    figures.resident_later.append(subject.resident())
    edge = subject.machine.edge
    edge.process.kill()
    edge.edged.update(_NO_EVENTS)
    subject.machine.start_edge()
    subject.cloud.mirror("Node").wait(NODE, lambda _node: True)
    figures.idle_without_events.append(_share(subject))
    edge.process.kill()
    for key in _NO_EVENTS:
        del edge.edged[key]
    subject.machine.start_edge()
    pass_time(_SETTLED_SECONDS)


def _share(subject: Subject) -> float:
    """Percent of one core that edgecore uses while nothing happens."""
    pass_time(_SETTLED_SECONDS)
    before = subject.processor_seconds()
    pass_time(IDLE_SECONDS)
    return (subject.processor_seconds() - before) / IDLE_SECONDS * 100


def _rows(figures: Figures) -> list[Row]:
    seconds, memory, share = Unit.SECONDS, Unit.MEGABYTES, Unit.PERCENT
    best = _best(figures)
    small, calm = (Goal(75),), (Goal(2),)
    with_20: Callable[[str], str] = "{} with 20 pods".format
    return [
        Row.of(f"{PODS} pods, the last Running; floor: {best} threads", figures.up, seconds, floors=figures.bare[best],
               goals=(Goal(1.1, of_floor=True),)),
        *(Row.of(f"   the bare calls by {n} threads", figures.bare[n], seconds) for n in WORKERS),
        Row.of("   edgecore's own processor time in it", figures.processor, seconds),
        Row.of(f"{PODS} pods deleted, grace {GRACE} s, the last gone", figures.gone, seconds),
        Row.of(f"resident memory, {PODS} pods", figures.resident, memory, kubeedge=with_20("104–109 MB"), goals=small),
        Row.of("   the same after a minute in which nothing happened", figures.resident_later, memory, goals=small),
        Row.of(f"idle for {IDLE_SECONDS:g} s, share of a core", figures.idle, share, kubeedge=with_20("1.4–2 %"),
               goals=calm),
        Row.of("   the same, relisting every second", figures.idle_without_events, share, goals=calm),
    ]  # fmt: skip
