"""A start after a loss of power with 50 stored pods and no cloud, compared with a start that receives them from the
cloud.

Both times begin with edgecore's process and end when the node reports that every pod runs. They differ in the source of
the pods and their configuration: the cloud, where a registered node's pods are waiting, or the store, with the remains
of the former containers. Each pod has a configmap as a volume. Only the process runtime can simulate a loss of power
(see `tests.end_to_end.power`).
"""

import time
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

from modules.apimachinery.kinds import JsonObject
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
_POLL_SECONDS: Final = 0.05
"""Seconds between two polls; each costs edgecore some work, equal on both sides."""
_LIMIT: Final = 120.0


class Measurements(NamedTuple):
    """Seconds."""

    from_store: list[float]
    from_store_cpu: list[float]
    from_cloud: list[float]
    from_cloud_cpu: list[float]


def measure(rounds: int) -> list[Row]:
    """Measure both in alternating rounds, at most three."""
    results = Measurements([], [], [], [])
    machine = Machine(EmbeddedUnderTest())
    try:
        machine.start()
        machine.cloud.apply(config_map(_CONFIG, key="value"))
        subject = Subject(machine)
        for _ in range(min(rounds, _ROUNDS)):
            _round(subject, results)
    finally:
        machine.close()
    seconds = Unit.SECONDS
    return [
        Row.of(f"process start to {PODS} pods Running, no cloud; floor: from the cloud", results.from_store, seconds,
               floors=results.from_cloud, goals=(Goal(1.0, of_floor=True),)),
        Row.of("   edgecore's own processor time in it", results.from_store_cpu, seconds,
               floors=results.from_cloud_cpu),
    ]  # fmt: skip


def _round(subject: Subject, results: Measurements) -> None:
    machine, cloud = subject.machine, subject.cloud
    machine.edge.kill()
    cloud.apply(*map(_stored, _NAMES))
    _timed(subject, frozenset(), results.from_cloud, results.from_cloud_cpu)
    _await_in_cloud(subject)
    breathe()
    former = frozenset(status_of(each)["containerID"] for each in machine.edge.pods().values())
    cloud.kill()
    lose_power(machine)
    _timed(subject, former, results.from_store, results.from_store_cpu)
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
        pass_time(_POLL_SECONDS)
    times.append(time.perf_counter() - begin)
    processor.append(subject.processor_seconds())


def _await_in_cloud(subject: Subject) -> None:
    for name in _NAMES:
        subject.cloud.pods.wait(name, lambda obj: phase(obj) == "Running", _LIMIT)


def _all_run(machine: Machine, former: AbstractSet[str]) -> bool:
    """Return whether all pods run; a node that has just started serves the stored status until its first relist."""
    pods = machine.edge.pods()
    return len(pods) == PODS and all(
        phase(each) == "Running" and status_of(each).get("containerID") not in former for each in pods.values()
    )


def _stored(name: str) -> JsonObject:
    obj = sleeper(name)
    obj["spec"]["volumes"] = [{"name": "config", "configMap": {"name": _CONFIG}}]
    obj["spec"]["containers"][0]["volumeMounts"] = [mount("config", "/config")]
    return obj
