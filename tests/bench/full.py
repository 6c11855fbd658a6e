"""A full node: 110 pods, the kubelet's limit, all applied together; then a minute without any change.

The floor of their start is the bare calls by the fastest number of threads. It takes minutes and therefore runs only on
request: `make bench ARGS='--only full-embedded --only full-containerd'`.
"""

import os
from collections.abc import Callable
from typing import Final, NamedTuple

from tests.bench.bare import BareRuntime
from tests.bench.rows import Goal, Row, Unit
from tests.bench.subject import GRACE, Subject, bare_runtime, breathe, pass_time
from tests.end_to_end.machine import NODE, Machine
from tests.end_to_end.processes import wait_until
from tests.end_to_end.runtimes import ContainerdUnderTest, EmbeddedUnderTest, OciUnderTest, RuntimeUnderTest
from tests.support.containerd import PrivateContainerd

PODS: Final = 110
WORKERS: Final = (2, 4, 8, 16)
"""Numbers of threads for the bare calls; the fastest counts."""
IDLE_SECONDS: Final = float(os.environ.get("IDLE_SECONDS", "60"))
_SETTLED_SECONDS: Final = 12.0
"""Seconds after the last change until relists have reached their normal period."""
_NAMES: Final = [f"full-{number}" for number in range(PODS)]
_NO_EVENTS: Final = {"pleg_relist_period_with_events": 0.0}


class Measurements(NamedTuple):
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
    """Measure all rows of one runtime; rounds after the first measure only the start and the end of the pods."""
    results = Measurements([], {}, [], [], [], [], [], [])
    machine = Machine(runtime)
    try:
        machine.start()
        subject = Subject(machine)
        _fill(subject, results)
        results.resident.append(subject.resident())
        _be_idle(subject, results)
        _empty(subject, results)
        with bare_runtime(machine, runtime) as bare:
            for workers in WORKERS:
                _bare(bare, workers, results)
            best = _best(results)
            for _ in range(rounds - 1):
                _fill(subject, results)
                _empty(subject, results)
                _bare(bare, best, results)
    finally:
        machine.close()
    return _rows(results)


def embedded(rounds: int) -> list[Row]:
    """Measure on the process runtime, which is part of edgecore's process."""
    return measure(EmbeddedUnderTest(), rounds)


def oci(rounds: int) -> list[Row]:
    """Measure on the OCI runtime, which is part of edgecore's process too."""
    with OciUnderTest() as runtime:
        return measure(runtime, rounds)


def containerd(rounds: int) -> list[Row]:
    """Measure on a private containerd."""
    with PrivateContainerd(cni=True) as daemon, ContainerdUnderTest(daemon) as runtime:
        return measure(runtime, rounds)


def _fill(subject: Subject, results: Measurements) -> None:
    before = subject.processor_seconds()
    results.up.append(subject.up(_NAMES))
    results.processor.append(subject.processor_seconds() - before)


def _empty(subject: Subject, results: Measurements) -> None:
    """Delete the pods, and wait until the runtime is idle, too."""
    machine = subject.machine
    results.gone.append(subject.down(_NAMES, GRACE))
    wait_until(lambda: machine.runtime.pods(machine.edge.root / "edged") == 0, "the runtime has no pods", 60)
    breathe()


def _bare(bare: BareRuntime, workers: int, results: Measurements) -> None:
    results.bare.setdefault(workers, []).append(bare.up(PODS, workers))
    bare.down(0)
    breathe()


def _best(results: Measurements) -> int:
    return min(results.bare, key=lambda workers: min(results.bare[workers]))


def _be_idle(subject: Subject, results: Measurements) -> None:
    """Measure the idle node with the runtime's events, and after a restart of edgecore without them."""
    results.idle.append(_share(subject))
    results.resident_later.append(subject.resident())
    edge = subject.machine.edge
    edge.process.kill()
    edge.edged.update(_NO_EVENTS)
    subject.machine.start_edge()
    subject.cloud.mirror("Node").wait(NODE, lambda _node: True)
    results.idle_without_events.append(_share(subject))
    edge.process.kill()
    for key in _NO_EVENTS:
        del edge.edged[key]
    subject.machine.start_edge()
    pass_time(_SETTLED_SECONDS)


def _share(subject: Subject) -> float:
    """Return the percentage of one core that the idle edgecore uses."""
    pass_time(_SETTLED_SECONDS)
    before = subject.processor_seconds()
    pass_time(IDLE_SECONDS)
    return (subject.processor_seconds() - before) / IDLE_SECONDS * 100


def _rows(results: Measurements) -> list[Row]:
    seconds, memory, share = Unit.SECONDS, Unit.MEGABYTES, Unit.PERCENT
    best = _best(results)
    small, calm = (Goal(75),), (Goal(2),)
    with_20: Callable[[str], str] = "{} with 20 pods".format
    return [
        Row.of(f"{PODS} pods, the last Running; floor: {best} threads", results.up, seconds, floors=results.bare[best],
               goals=(Goal(1.1, of_floor=True),)),
        *(Row.of(f"   the bare calls by {n} threads", results.bare[n], seconds) for n in WORKERS),
        Row.of("   edgecore's own processor time in it", results.processor, seconds),
        Row.of(f"{PODS} pods deleted, grace {GRACE} s, the last gone", results.gone, seconds),
        Row.of(f"resident memory, {PODS} pods", results.resident, memory, kubeedge=with_20("104–109 MB"), goals=small),
        Row.of("   the same after a minute in which nothing happened", results.resident_later, memory, goals=small),
        Row.of(f"idle for {IDLE_SECONDS:g} s, share of a core", results.idle, share, kubeedge=with_20("1.4–2 %"),
               goals=calm),
        Row.of("   the same, relisting every second", results.idle_without_events, share, goals=calm),
    ]  # fmt: skip
