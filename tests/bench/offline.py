"""A node that lost its power with 50 pods stored and no cloud, against the same pods come from the cloud.

Both times are from the start of edgecore's process until the node itself says that every pod runs, so that they differ
in one thing: where the pods and their configuration are from. From the cloud they have been waiting there for a node
that was registered before; from the store they have to be found again, together with what is left of their former
containers. Each pod has a configmap as a volume. On the embedded runtime, which alone a test can make lose its power
(see `tests.end_to_end.power`).
"""

from __future__ import annotations

import time
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

from modules.edgecontroller.kinds import JsonObject
from tests.bench.rows import Goal, Row, Unit
from tests.bench.subject import Subject, breathe, pass_time, sleeper
from tests.end_to_end.machine import Machine
from tests.end_to_end.pods import config_map, mount, phase, status_of
from tests.end_to_end.power import lose_power
from tests.end_to_end.processes import wait_until
from tests.end_to_end.runtimes import EmbeddedUnderTest

PODS: Final = 50
_ROUNDS: Final = 3
_NAMES: Final = [f"stored-{number}" for number in range(PODS)]
_CONFIG: Final = "config"
_LOOK_SECONDS: Final = 0.05
"""Between two looks, each of which costs edgecore some work: the same on both sides."""
_LIMIT: Final = 120.0


class Figures(NamedTuple):
    """Seconds."""

    from_store: list[float]
    from_store_cpu: list[float]
    from_cloud: list[float]
    from_cloud_cpu: list[float]


def measure(rounds: int) -> list[Row]:
    """Both, round by round, at most three."""
    figures = Figures([], [], [], [])
    machine = Machine(EmbeddedUnderTest())
    try:
        machine.start()
        machine.cloud.apply(config_map(_CONFIG, key="value"))
        subject = Subject(machine)
        for _ in range(min(rounds, _ROUNDS)):
            _round(subject, figures)
    finally:
        machine.close()
    seconds = Unit.SECONDS
    return [
        Row.of(f"process start to {PODS} pods Running, no cloud; floor: from the cloud", figures.from_store, seconds,
               floors=figures.from_cloud, goals=(Goal(1.0, of_floor=True),)),
        Row.of("   edgecore's own processor time in it", figures.from_store_cpu, seconds,
               floors=figures.from_cloud_cpu),
    ]  # fmt: skip


def _round(subject: Subject, figures: Figures) -> None:
    machine, cloud = subject.machine, subject.cloud
    machine.edge.kill()
    cloud.apply(*map(_stored, _NAMES))
    _timed(subject, frozenset(), figures.from_cloud, figures.from_cloud_cpu)
    _await_in_cloud(subject)
    breathe()
    former = frozenset(status_of(each)["containerID"] for each in machine.edge.pods().values())
    cloud.kill()
    lose_power(machine)
    _timed(subject, former, figures.from_store, figures.from_store_cpu)
    cloud.start()
    _await_in_cloud(subject)
    subject.down(_NAMES, 0)
    wait_until(lambda: machine.runtime.pods(machine.edge.root / "edged") == 0, "the runtime has no pods", _LIMIT)
    breathe()


def _timed(subject: Subject, former: AbstractSet[str], times: list[float], processor: list[float]) -> None:
    """Start edgecore; all pods run when none of their containers is a former one."""
    begin = time.perf_counter()
    subject.machine.start_edge()
    while not _all_run(subject.machine, former):
        assert time.perf_counter() - begin < _LIMIT, subject.machine.report()
        pass_time(_LOOK_SECONDS)
    times.append(time.perf_counter() - begin)
    processor.append(subject.processor_seconds())


def _await_in_cloud(subject: Subject) -> None:
    for name in _NAMES:
        subject.cloud.pods.wait(name, lambda obj: phase(obj) == "Running", _LIMIT)


def _all_run(machine: Machine, former: AbstractSet[str]) -> bool:
    """A node that has just started serves the status that was last stored until it has looked."""
    pods = machine.edge.pods()
    return len(pods) == PODS and all(
        phase(each) == "Running" and status_of(each).get("containerID") not in former for each in pods.values()
    )


def _stored(name: str) -> JsonObject:
    obj = sleeper(name)
    obj["spec"]["volumes"] = [{"name": "config", "configMap": {"name": _CONFIG}}]
    obj["spec"]["containers"][0]["volumeMounts"] = [mount("config", "/config")]
    return obj
