"""The whole system on one container runtime: start of the node, pods up and down, memory.

`cloudcore` and `edgecore` run as processes, as in the end-to-end tests. A pod's time is from the moment at which its
manifest is handed to the cloud until the cloud has been told that it is Running. The bare calls run on the same runtime
a moment before or after, round by round, so that what else the machine does falls on both.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

import psutil

from edged.settings import EdgedSettings
from modules.edgecontroller.kinds import JsonObject
from modules.edgecore.config import EdgeCoreConfig
from tests.bench.bare import BareRuntime, requests_of
from tests.bench.rows import Goal, Row, Unit
from tests.end_to_end.machine import NODE, Machine
from tests.end_to_end.pods import container, phase, pod
from tests.end_to_end.runtimes import ContainerdUnderTest, EmbeddedUnderTest, RuntimeUnderTest
from tests.support.containerd import PrivateContainerd

MANY: Final = 20
GRACE: Final = 2
"""Seconds that a pod may take to end. `sleep` does not heed SIGTERM when it is the first process of a container."""

WORKERS: Final = EdgedSettings(node_name="", root=Path(), pod_logs=Path(), runtime_endpoint="").workers
"""How many pods edged works on at once."""

_BREATH_SECONDS: Final = 0.7
"""After each contender: a runtime is still busy with pods that it calls removed."""

_SETTLED_SECONDS: Final = 1.5
_SAMPLES: Final = 5
_LIMIT: Final = 120.0
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


class _Node:
    """A machine with its node, and the bare calls beside it."""

    def __init__(self, machine: Machine, figures: Figures) -> None:
        self._machine = machine
        self._figures = figures
        self._cloud = machine.cloud

    def starts(self, rounds: int) -> None:
        """Start edgecore again and again; the last one goes on."""
        nodes = self._cloud.mirror("Node")
        for left in range(rounds)[::-1]:
            begin = time.perf_counter()
            self._machine.start_edge()
            nodes.wait(NODE, lambda _node: True)
            self._figures.registered.append(time.perf_counter() - begin)
            nodes.wait(NODE, _is_ready)
            self._figures.ready.append(time.perf_counter() - begin)
            self._figures.ready_cpu.append(self._processor_seconds())
            if left:
                self._machine.edge.process.kill()
                self._cloud.delete("Node", NODE)
                nodes.wait_gone(NODE)

    def idle(self) -> None:
        """The process without pods."""
        self._figures.idle.append(self._resident())

    def loaded(self) -> None:
        """The process with the first pods it gets."""
        self._up(_NAMES)
        self._figures.loaded.append(self._resident())
        self._down(_NAMES, 0)
        _pass(_BREATH_SECONDS)

    def worn(self) -> None:
        """The process after all that the bench had it do, without pods again."""
        self._figures.worn.append(self._resident())

    def one(self, bare: BareRuntime) -> None:
        """One pod, bare and whole."""
        self._figures.one_bare.append(bare.up(1, 1))
        bare.down(0)
        _pass(_BREATH_SECONDS)
        self._figures.one.append(self._up(["one"]))
        self._down(["one"], 0)
        _pass(_BREATH_SECONDS)

    def many(self) -> None:
        """Many pods through the whole system."""
        before = self._processor_seconds()
        self._figures.many.append(self._up(_NAMES))
        self._figures.many_cpu.append(self._processor_seconds() - before)
        _pass(_BREATH_SECONDS)
        self._figures.many_gone.append(self._down(_NAMES, GRACE))
        _pass(_BREATH_SECONDS)

    def many_bare(self, bare: BareRuntime) -> None:
        """Many pods by the bare calls, at the number of workers that edged has."""
        self._figures.many_bare.append(bare.up(MANY, WORKERS))
        self._figures.many_gone_bare.append(bare.down(GRACE))
        _pass(_BREATH_SECONDS)

    def many_in_turn(self, bare: BareRuntime) -> None:
        """Many pods by the bare calls, one after another."""
        self._figures.many_in_turn.append(bare.up(MANY, 1))
        bare.down(0)
        _pass(_BREATH_SECONDS)

    def _up(self, names: list[str]) -> float:
        manifests = [_sleeper(name) for name in names]
        begin = time.perf_counter()
        self._cloud.apply(*manifests)
        for name in names:
            self._cloud.pods.wait(name, _runs, _LIMIT)
        return time.perf_counter() - begin

    def _down(self, names: list[str], grace: int) -> float:
        begin = time.perf_counter()
        for name in names:
            self._cloud.delete("Pod", name, grace)
        for name in names:
            self._cloud.pods.wait_gone(name, _LIMIT)
        return time.perf_counter() - begin

    def _processor_seconds(self) -> float:
        """Of edgecore until now, all its threads together; with what others do to the machine it hardly changes."""
        times = psutil.Process(self._machine.edge.process.pid).cpu_times()
        return times.user + times.system

    def _resident(self) -> float:
        """Megabytes (10⁶ bytes) of resident memory, the median of some samples after it has settled."""
        _pass(_SETTLED_SECONDS)
        samples = []
        for _ in range(_SAMPLES):
            samples.append(resident_megabytes(self._machine.edge.process.pid))
            _pass(0.1)
        return median(samples)


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
        with _bare(machine, runtime) as bare:
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


def resident_megabytes(pid: int) -> float:
    """Resident memory of a process in megabytes of 10⁶ bytes."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith("VmRSS:"))


@contextmanager
def _bare(machine: Machine, runtime: RuntimeUnderTest) -> Iterator[BareRuntime]:
    own_root = runtime.name != EmbeddedUnderTest.name
    endpoint = runtime.endpoint
    if not own_root:
        endpoint = f"unix://{EdgeCoreConfig.embedded(machine.edge.root).embedded_runtime_socket}"
    directory = machine.directory / "bare"
    directory.mkdir()
    manifest = _sleeper("template")
    manifest["metadata"]["uid"] = "template"
    bare = BareRuntime(endpoint, requests_of(manifest, endpoint, directory, own_root=own_root))
    try:
        yield bare
    finally:
        bare.close()


def _sleeper(name: str) -> JsonObject:
    return pod(name, container("exec sleep 3600"), hostNetwork=True, terminationGracePeriodSeconds=GRACE)


def _runs(obj: JsonObject) -> bool:
    return phase(obj) == "Running"


def _is_ready(node: JsonObject) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or []
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _pass(seconds: float) -> None:
    """Let time pass, for what has no event: memory that settles."""
    threading.Event().wait(seconds)


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
