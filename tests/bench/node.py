"""The whole system on one container runtime: start of the node, pods up and down, memory.

`cloudcore` and `edgecore` run as processes, as in the end-to-end tests. A pod's time begins when the cloud receives its
manifest and ends when the cloud receives the status Running. Rounds of the bare calls on the same runtime alternate
with those of the node, so that other load on the machine slows down both.
"""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from edged.settings import EdgedSettings
from modules.apimachinery.kinds import JsonObject
from tests.bench.bare import BareRuntime
from tests.bench.rows import Goal, Row, Unit
from tests.bench.subject import GRACE, Subject, bare_runtime, breathe
from tests.end_to_end.machine import NODE, Machine
from tests.end_to_end.runtimes import ContainerdUnderTest, EmbeddedUnderTest, OciUnderTest, RuntimeUnderTest
from tests.support.containerd import PrivateContainerd

MANY: Final = 20
WORKERS: Final = EdgedSettings(node_name="", root=Path(), pod_logs=Path(), runtime_endpoint="").workers
"""Number of pods that edged works on in parallel."""

_NAMES: Final = [f"many-{number}" for number in range(MANY)]


class Measurements(NamedTuple):
    """Measurements of all rounds, in seconds and megabytes."""

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
    """The node with its results."""

    def __init__(self, machine: Machine, results: Measurements) -> None:
        super().__init__(machine)
        self._results = results

    def starts(self, rounds: int) -> None:
        """Start edgecore repeatedly; the last one keeps running."""
        nodes = self.cloud.mirror("Node")
        for left in range(rounds)[::-1]:
            begin = time.perf_counter()
            self.machine.start_edge()
            nodes.wait(NODE, lambda _node: True)
            self._results.registered.append(time.perf_counter() - begin)
            nodes.wait(NODE, _is_ready)
            self._results.ready.append(time.perf_counter() - begin)
            self._results.ready_cpu.append(self.processor_seconds())
            if left:
                self.machine.edge.process.kill()
                self.cloud.delete("Node", NODE)
                nodes.wait_gone(NODE)

    def idle(self) -> None:
        """The process without pods."""
        self._results.idle.append(self.resident())

    def loaded(self) -> None:
        """Measure the process with its first pods."""
        self.up(_NAMES)
        self._results.loaded.append(self.resident())
        self.down(_NAMES, 0)
        breathe()

    def worn(self) -> None:
        """Measure the process without pods after all rounds."""
        self._results.worn.append(self.resident())

    def one(self, bare: BareRuntime) -> None:
        """Measure one pod by the bare calls and through the whole system."""
        self._results.one_bare.append(bare.up(1, 1))
        bare.down(0)
        breathe()
        self._results.one.append(self.up(["one"]))
        self.down(["one"], 0)
        breathe()

    def many(self) -> None:
        """Many pods through the whole system."""
        before = self.processor_seconds()
        self._results.many.append(self.up(_NAMES))
        self._results.many_cpu.append(self.processor_seconds() - before)
        breathe()
        self._results.many_gone.append(self.down(_NAMES, GRACE))
        breathe()

    def many_bare(self, bare: BareRuntime) -> None:
        """Many pods by the bare calls, at the number of workers that edged has."""
        self._results.many_bare.append(bare.up(MANY, WORKERS))
        self._results.many_gone_bare.append(bare.down(GRACE))
        breathe()

    def many_in_turn(self, bare: BareRuntime) -> None:
        """Many pods by the bare calls, one after another."""
        self._results.many_in_turn.append(bare.up(MANY, 1))
        bare.down(0)
        breathe()


def measure(runtime: RuntimeUnderTest, rounds: int) -> list[Row]:
    """All rows of one runtime."""
    results = Measurements(*([] for _ in Measurements._fields))
    machine = Machine(runtime)
    try:
        machine.cloud.start()
        node = _Node(machine, results)
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
    return _rows(runtime.name, results)


def embedded(rounds: int) -> list[Row]:
    """On the process runtime, which is part of edgecore's process."""
    return measure(EmbeddedUnderTest(), rounds)


def oci(rounds: int) -> list[Row]:
    """On the OCI runtime, which is part of edgecore's process too."""
    with OciUnderTest() as runtime:
        return measure(runtime, rounds)


def containerd(rounds: int) -> list[Row]:
    """On a containerd of its own."""
    with PrivateContainerd(cni=True) as daemon:
        return measure(ContainerdUnderTest(daemon), rounds)


def _is_ready(node: JsonObject) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or []
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


_PARALLEL: Final = f"{WORKERS} workers"


def _rows(name: str, results: Measurements) -> list[Row]:
    seconds, memory = Unit.SECONDS, Unit.MEGABYTES
    real = name == ContainerdUnderTest.name
    one: tuple[Goal, ...] = (Goal(0.35), Goal(1.15, of_floor=True)) if real else ()
    many: tuple[Goal, ...] = (Goal(2.5), Goal(1.15, of_floor=True)) if real else ()
    if name == OciUnderTest.name:
        one, many = (Goal(0.05),), (Goal(0.5),)
    kubeedge: Callable[[str], str] = lambda text: text if real else ""  # noqa: E731 - a column of one runtime only
    return [
        Row.of("process start to node registered", results.registered, seconds, kubeedge="0.7–0.9 s", goals=(Goal(1),)),
        Row.of("process start to node Ready", results.ready, seconds, kubeedge="0.75–0.91 s"),
        Row.of("   of that, edgecore's own processor time", results.ready_cpu, seconds),
        Row.of("1 pod, manifest to Running reported", results.one, seconds, floors=results.one_bare,
               kubeedge=kubeedge("0.87–0.91 s"), goals=one),
        Row.of(f"{MANY} pods, the last Running; floor: {_PARALLEL}", results.many, seconds, floors=results.many_bare,
               kubeedge=kubeedge("3.4–3.9 s"), goals=many),
        Row.of("   of that, edgecore's own processor time", results.many_cpu, seconds),
        Row.of("   floor: one after another", results.many, seconds, floors=results.many_in_turn),
        Row.of(f"{MANY} pods deleted, grace {GRACE} s, the last gone", results.many_gone, seconds,
               floors=results.many_gone_bare, kubeedge=kubeedge("4.3–4.7 s")),
        Row.of("resident memory, idle", results.idle, memory, kubeedge="94–95 MB", goals=(Goal(65),)),
        Row.of(f"resident memory, {MANY} pods", results.loaded, memory, kubeedge="104–109 MB", goals=(Goal(70),)),
        Row.of("resident memory when all of this bench's pods have gone", results.worn, memory),
    ]  # fmt: skip
