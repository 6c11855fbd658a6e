"""The whole system on one container runtime: start of the node, pods up and down, memory.

`cloudcore` and `edgecore` run as processes, as in the end-to-end tests. A pod's time is from the moment at which its
manifest is handed to the cloud until the cloud has been told that it is Running. The bare calls run on the same runtime
a moment before or after, round by round, so that what else the machine does falls on both.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from edged.settings import EdgedSettings
from modules.edgecontroller.kinds import JsonObject
from tests.bench.bare import BareRuntime
from tests.bench.rows import Goal, Row, Unit
from tests.bench.subject import GRACE, Subject, bare_runtime, breathe
from tests.end_to_end.machine import NODE, Machine
from tests.end_to_end.runtimes import ContainerdUnderTest, EmbeddedUnderTest, RuntimeUnderTest
from tests.support.containerd import PrivateContainerd

MANY: Final = 20
WORKERS: Final = EdgedSettings(node_name="", root=Path(), pod_logs=Path(), runtime_endpoint="").workers
"""How many pods edged works on at once."""

_NAMES: Final = [f"many-{number}" for number in range(MANY)]


class Figures(NamedTuple):
    """What was measured, round by round: seconds, and megabytes."""

    registered: list[float]
    ready: list[float]
    ready_cpu: list[float]
    idle: list[float]
    one: list[float]
    one_bare: list[float]
    many: list[float]
    many_cpu: list[float]
    many_bare: list[float]
    many_in_turn: list[float]
    many_gone: list[float]
    many_gone_bare: list[float]
    loaded: list[float]
    worn: list[float]


class _Node(Subject):
    """The node with all that is measured of it."""

    def __init__(self, machine: Machine, figures: Figures) -> None:
        super().__init__(machine)
        self._figures = figures

    def starts(self, rounds: int) -> None:
        """Start edgecore again and again; the last one goes on."""
        nodes = self.cloud.mirror("Node")
        for left in range(rounds)[::-1]:
            begin = time.perf_counter()
            self.machine.start_edge()
            nodes.wait(NODE, lambda _node: True)
            self._figures.registered.append(time.perf_counter() - begin)
            nodes.wait(NODE, _is_ready)
            self._figures.ready.append(time.perf_counter() - begin)
            self._figures.ready_cpu.append(self.processor_seconds())
            if left:
                self.machine.edge.process.kill()
                self.cloud.delete("Node", NODE)
                nodes.wait_gone(NODE)

    def idle(self) -> None:
        """The process without pods."""
        self._figures.idle.append(self.resident())

    def loaded(self) -> None:
        """The process with the first pods it gets."""
        self.up(_NAMES)
        self._figures.loaded.append(self.resident())
        self.down(_NAMES, 0)
        breathe()

    def worn(self) -> None:
        """The process after all that the bench had it do, without pods again."""
        self._figures.worn.append(self.resident())

    def one(self, bare: BareRuntime) -> None:
        """One pod, bare and whole."""
        self._figures.one_bare.append(bare.up(1, 1))
        bare.down(0)
        breathe()
        self._figures.one.append(self.up(["one"]))
        self.down(["one"], 0)
        breathe()

    def many(self) -> None:
        """Many pods through the whole system."""
        before = self.processor_seconds()
        self._figures.many.append(self.up(_NAMES))
        self._figures.many_cpu.append(self.processor_seconds() - before)
        breathe()
        self._figures.many_gone.append(self.down(_NAMES, GRACE))
        breathe()

    def many_bare(self, bare: BareRuntime) -> None:
        """Many pods by the bare calls, at the number of workers that edged has."""
        self._figures.many_bare.append(bare.up(MANY, WORKERS))
        self._figures.many_gone_bare.append(bare.down(GRACE))
        breathe()

    def many_in_turn(self, bare: BareRuntime) -> None:
        """Many pods by the bare calls, one after another."""
        self._figures.many_in_turn.append(bare.up(MANY, 1))
        bare.down(0)
        breathe()


def measure(runtime: RuntimeUnderTest, rounds: int) -> list[Row]:
    """All rows of one runtime."""
    figures = Figures(*([] for _ in Figures._fields))
    machine = Machine(runtime)
    try:
        machine.cloud.start()
        node = _Node(machine, figures)
        node.starts(rounds)
        node.idle()
        node.loaded()
        with bare_runtime(machine, runtime) as bare:
            for _ in range(2 * rounds):
                node.one(bare)
            node.many_in_turn(bare)
            for number in range(max(1, rounds - 2)):
                contenders = (node.many, partial(node.many_bare, bare))
                for contender in contenders if number % 2 else reversed(contenders):
                    contender()
        node.worn()
    finally:
        machine.close()
    return _rows(runtime.name, figures)


def embedded(rounds: int) -> list[Row]:
    """On the embedded runtime, which is part of edgecore's process."""
    return measure(EmbeddedUnderTest(), rounds)


def containerd(rounds: int) -> list[Row]:
    """On a containerd of its own."""
    with PrivateContainerd(cni=True) as daemon:
        return measure(ContainerdUnderTest(daemon), rounds)


def _is_ready(node: JsonObject) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or []
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


_PARALLEL: Final = f"{WORKERS} workers"


def _rows(name: str, figures: Figures) -> list[Row]:
    seconds, memory = Unit.SECONDS, Unit.MEGABYTES
    real = name == ContainerdUnderTest.name
    one = (Goal(0.35), Goal(1.15, of_floor=True)) if real else ()
    many = (Goal(2.5), Goal(1.15, of_floor=True)) if real else ()
    kubeedge: Callable[[str], str] = lambda text: text if real else ""  # noqa: E731 - a column of one runtime only
    return [
        Row.of("process start to node registered", figures.registered, seconds, kubeedge="0.7–0.9 s", goals=(Goal(1),)),
        Row.of("process start to node Ready", figures.ready, seconds, kubeedge="0.75–0.91 s"),
        Row.of("   of that, edgecore's own processor time", figures.ready_cpu, seconds),
        Row.of("1 pod, manifest to Running reported", figures.one, seconds, floors=figures.one_bare,
               kubeedge=kubeedge("0.87–0.91 s"), goals=one),
        Row.of(f"{MANY} pods, the last Running; floor: {_PARALLEL}", figures.many, seconds, floors=figures.many_bare,
               kubeedge=kubeedge("3.4–3.9 s"), goals=many),
        Row.of("   of that, edgecore's own processor time", figures.many_cpu, seconds),
        Row.of("   floor: one after another", figures.many, seconds, floors=figures.many_in_turn),
        Row.of(f"{MANY} pods deleted, grace {GRACE} s, the last gone", figures.many_gone, seconds,
               floors=figures.many_gone_bare, kubeedge=kubeedge("4.3–4.7 s")),
        Row.of("resident memory, idle", figures.idle, memory, kubeedge="94–95 MB", goals=(Goal(65),)),
        Row.of(f"resident memory, {MANY} pods", figures.loaded, memory, kubeedge="104–109 MB", goals=(Goal(70),)),
        Row.of("resident memory when all of this bench's pods have gone", figures.worn, memory),
    ]  # fmt: skip
