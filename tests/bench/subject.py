"""A node under measurement: pods up and down, processor time and memory of edgecore, and the bare calls beside it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Final

import psutil

from modules.edgecontroller.kinds import JsonObject
from modules.edgecore.config import EdgeCoreConfig
from tests.bench.bare import BareRuntime, requests_of
from tests.end_to_end.machine import Machine
from tests.end_to_end.pods import container, phase, pod
from tests.end_to_end.runtimes import EmbeddedUnderTest, RuntimeUnderTest

GRACE: Final = 2
"""Seconds that a pod may take to end. `sleep` does not heed SIGTERM when it is the first process of a container."""

_BREATH_SECONDS: Final = 0.7
_SETTLED_SECONDS: Final = 1.5
_SAMPLES: Final = 5
_LIMIT: Final = 120.0


class Subject:
    """A machine with its node."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.cloud = machine.cloud

    def up(self, names: list[str]) -> float:
        """Seconds from the manifests of so many pods until the cloud knows that the last one runs."""
        manifests = [sleeper(name) for name in names]
        begin = time.perf_counter()
        self.cloud.apply(*manifests)
        for name in names:
            self.cloud.pods.wait(name, _runs, _LIMIT)
        return time.perf_counter() - begin

    def down(self, names: list[str], grace: int) -> float:
        """Seconds until the last of these pods is gone."""
        begin = time.perf_counter()
        for name in names:
            self.cloud.delete("Pod", name, grace)
        for name in names:
            self.cloud.pods.wait_gone(name, _LIMIT)
        return time.perf_counter() - begin

    def processor_seconds(self) -> float:
        """Of edgecore until now, all its threads together; with what others do to the machine it hardly changes."""
        times = psutil.Process(self.machine.edge.process.pid).cpu_times()
        return times.user + times.system

    def resident(self) -> float:
        """Megabytes (10⁶ bytes) of resident memory, the median of some samples after it has settled."""
        pass_time(_SETTLED_SECONDS)
        samples = []
        for _ in range(_SAMPLES):
            samples.append(resident_megabytes(self.machine.edge.process.pid))
            pass_time(0.1)
        return median(samples)


@contextmanager
def bare_runtime(machine: Machine, runtime: RuntimeUnderTest) -> Iterator[BareRuntime]:
    """The bare calls on the same runtime, with the configurations that edged makes."""
    endpoint = runtime.endpoint
    if runtime.name == EmbeddedUnderTest.name:
        endpoint = f"unix://{EdgeCoreConfig.embedded(machine.edge.root).embedded_runtime_socket}"
    directory = machine.directory / "bare"
    directory.mkdir()
    manifest = sleeper("template")
    manifest["metadata"]["uid"] = "template"
    bare = BareRuntime(endpoint, requests_of(manifest, endpoint, directory))
    try:
        yield bare
    finally:
        bare.close()


def sleeper(name: str) -> JsonObject:
    """A pod on the machine's network that does nothing."""
    return pod(name, container("exec sleep 3600"), hostNetwork=True, terminationGracePeriodSeconds=GRACE)


def resident_megabytes(pid: int) -> float:
    """Resident memory of a process in megabytes of 10⁶ bytes."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith("VmRSS:"))


def breathe() -> None:
    """After each contender: a runtime is still busy with pods that it calls removed."""
    pass_time(_BREATH_SECONDS)


def pass_time(seconds: float) -> None:
    """Let time pass, for what has no event: memory that settles, a node where nothing happens."""
    threading.Event().wait(seconds)


def _runs(obj: JsonObject) -> bool:
    return phase(obj) == "Running"
