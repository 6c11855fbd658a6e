"""A node under measurement: pods up and down, processor time and memory of edgecore, and the bare calls beside it."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from typing import Final

import psutil

from modules.apimachinery.kinds import JsonObject
from modules.processes.edgecore.config import EdgeCoreConfig
from tests.bench.bare import BareRuntime, requests_of
from tests.end_to_end.machine import Machine
from tests.end_to_end.pods import container, phase, pod
from tests.end_to_end.runtimes import EmbeddedUnderTest, OciUnderTest, RuntimeUnderTest

GRACE: Final = 2
"""Grace period of the pods in seconds. `sleep` ignores SIGTERM as the first process of a container."""

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
        """Apply the manifests of pods; return the seconds until the cloud has the status Running of all."""
        manifests = [sleeper(name) for name in names]
        begin = time.perf_counter()
        self.cloud.apply(*manifests)
        for name in names:
            self.cloud.pods.wait(name, _runs, _LIMIT)
        return time.perf_counter() - begin

    def down(self, names: list[str], grace: int) -> float:
        """Delete pods; return the seconds until the last is removed from the cloud."""
        begin = time.perf_counter()
        for name in names:
            self.cloud.delete("Pod", name, grace)
        for name in names:
            self.cloud.pods.wait_gone(name, _LIMIT)
        return time.perf_counter() - begin

    def processor_seconds(self) -> float:
        """Return the processor time of all threads of edgecore; other load on the machine hardly changes it."""
        times = psutil.Process(self.machine.edge.process.pid).cpu_times()
        return times.user + times.system

    def resident(self) -> float:
        """Return the resident memory in megabytes (10⁶ bytes), the median of some samples after it has settled."""
        pass_time(_SETTLED_SECONDS)
        samples = []
        for _ in range(_SAMPLES):
            samples.append(resident_megabytes(self.machine.edge.process.pid))
            pass_time(0.1)
        return median(samples)


@contextmanager
def bare_runtime(machine: Machine, runtime: RuntimeUnderTest) -> Iterator[BareRuntime]:
    """Return the bare calls on the node's runtime, with edged's configurations."""
    endpoint = runtime.endpoint
    if runtime.name in (EmbeddedUnderTest.name, OciUnderTest.name):
        endpoint = inner_endpoint(machine, runtime)
    directory = machine.directory / "bare"
    directory.mkdir()
    manifest = sleeper("template")
    manifest["metadata"]["uid"] = "template"
    bare = BareRuntime(endpoint, requests_of(manifest, endpoint, directory))
    try:
        yield bare
    finally:
        bare.close()


def inner_endpoint(machine: Machine, runtime: RuntimeUnderTest) -> str:
    """Return the address of a runtime inside edgecore."""
    socket = "oci.sock" if runtime.name == OciUnderTest.name else "embedded.sock"
    return f"unix://{EdgeCoreConfig.below(machine.edge.root).modules.edged.root_directory / socket}"


def sleeper(name: str) -> JsonObject:
    """Return the manifest of a sleeping pod on the host's network."""
    return pod(name, container("exec sleep 3600"), hostNetwork=True, terminationGracePeriodSeconds=GRACE)


def resident_megabytes(pid: int) -> float:
    """Resident memory of a process in megabytes of 10⁶ bytes."""
    return float(psutil.Process(pid).memory_info().rss / 1e6)


def processor_seconds(pid: int) -> float:
    """Processor time of a process in seconds, without that of its children."""
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def breathe() -> None:
    """Pause after each contender: a runtime is still busy with removed pods."""
    pass_time(_BREATH_SECONDS)


def pass_time(seconds: float) -> None:
    """Let time pass without an event to wait for: memory that settles, an idle node."""
    threading.Event().wait(seconds)


def _runs(obj: JsonObject) -> bool:
    return phase(obj) == "Running"
