"""What the start and the end of a pod cost edged, and what its records cost a runtime inside edgecore.

edged is alone on the bus, in virtual time, with a runtime in memory; the runtime's engine has a driver in memory. So
the counts need no root, and are the same on every machine.
"""

import logging
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

from beehive.simulation import Simulation
from modules.runtimes.engine.engine import Engine
from protos.cri.v1 import api_pb2 as cri
from tests.counts.calls import Calls, Counted
from tests.edged.conftest import Bench, pod
from tests.modules.runtimes.engine.test_engine import Machine, MemorySettings, sandbox_request
from tests.support.collector import without_collections

_MANY: Final = 20
_OTHERS: Final = (9, 99)
"""Pods that are on the node already."""
_NAMES: Final = {
    "open": "files", "mkdir": "directories", "rename": "renames", "replace": "renames", "fsync": "flushes",
    "fdatasync": "flushes",
}  # fmt: skip
"""Functions of the module posix by what they are counted as."""
_BY_DEPTH: Final = "splitroot"
"""pathlib calls it for each directory above a file: more often in a deeper directory of temporary files."""


class _Files:
    """Counts the files that are opened, and the like."""

    def __init__(self) -> None:
        self.numbers: Counter[str] = Counter()

    def called(self, function: Any) -> None:
        """Take a call of a C function."""
        if function.__module__ in ("posix", "_io") and function.__name__ in _NAMES:
            self.numbers[_NAMES[function.__name__]] += 1


class EdgedCalls(Calls):
    """Counts the calls of edged, its files, and its calls of the runtime."""

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench.bee.simulation)
        self._runtime = bench.runtime
        self._files = _Files()

    @contextmanager
    def counted(self) -> Iterator[Counted]:
        """See `Calls`."""
        self._files, before = _Files(), self._runtime.calls.total()
        with super().counted() as counted:
            yield counted
        counted.numbers |= self._files.numbers
        counted.numbers["cri"] = self._runtime.calls.total() - before

    def _called(self, frame: FrameType, what: str, function: Any) -> None:
        if what == "c_call" and self._is_counting:
            self._files.called(function)
        if frame.f_code.co_name != _BY_DEPTH:
            super()._called(frame, what, function)


@contextmanager
def _counted_here() -> Iterator[Counted]:
    """Count the calls of this thread in the block."""
    functions: Counter[CodeType] = Counter()
    files, counted = _Files(), Counted()

    def called(frame: FrameType, what: str, function: Any) -> None:
        if what == "c_call":
            files.called(function)
        elif what == "call" and frame.f_code.co_name != _BY_DEPTH and "/tests/" not in frame.f_code.co_filename:
            functions[frame.f_code] += 1

    before = sys.getprofile()
    sys.setprofile(called)
    try:
        yield counted
    finally:
        sys.setprofile(before)
    counted.numbers |= {"calls": functions.total(), **files.numbers}
    counted._functions = functions


def _of_edged(directory: Path) -> Iterator[tuple[str, Counted]]:
    bench = Bench(directory)
    calls = EdgedCalls(bench)
    bench.start()
    for count, words in ((1, ""), (1, "on its own"), (_MANY, f"of {_MANY} at once")):
        pods = [pod(f"{words[:2]}{count}-{number}") for number in range(count)]
        with calls.counted() as started:
            for each in pods:
                bench.post("insert", each)
            bench.run(1.0)
        assert len(bench.runtime.running()) == count
        going = {"deletionTimestamp": "2027-01-15T08:00:30Z", "deletionGracePeriodSeconds": 2, "resourceVersion": "2"}
        with calls.counted() as ended:
            for each in pods:
                bench.post("update", {**each, "metadata": {**each["metadata"], **going}})
            bench.run(3.0)
        assert len(bench.meta.deletions) >= count
        with calls.counted() as removed:
            for each in pods:
                bench.post("delete", {**each, "metadata": {**each["metadata"], **going}})
            bench.run(1.0)
        assert not bench.runtime.sandboxes
        if words:  # the first pod of a process costs more
            yield f"node: edged starts a pod, {words}", started.shared(count)
            yield f"node: edged ends a pod, {words}", ended.shared(count)
            yield f"node: edged removes a pod, {words}", removed.shared(count)
    bench.stop()


def _of_the_last(directory: Path) -> Iterator[tuple[str, Counted]]:
    bench = Bench(directory)
    calls = EdgedCalls(bench)
    bench.start()
    there = 0
    for others in _OTHERS:
        for number in range(there, others):
            bench.post("insert", pod(f"{number}"))
        bench.run(60.0)
        with calls.counted() as started:
            bench.post("insert", pod(f"{others}"))
            bench.run(0.2)  # without a relist, which reads all pods
        there = others + 1
        assert len(bench.runtime.running()) == there
        yield f"node: edged starts a pod beside {others}", started
    bench.stop()


class _Steadfast(Machine):
    """A machine on which nothing fails."""

    def fails(self, what: str) -> None:
        """Raise no error."""


def _of_engine(directory: Path) -> Iterator[tuple[str, Counted]]:
    simulation = Simulation(1)
    engine = Engine(directory / "state", simulation.clock, MemorySettings(_Steadfast(simulation.clock.random)))

    def request(name: str, sandbox: str) -> cri.CreateContainerRequest:
        config = cri.ContainerConfig(metadata=cri.ContainerMetadata(name=name))
        return cri.CreateContainerRequest(pod_sandbox_id=sandbox, config=config)

    def counted(work: Callable[[], Any]) -> tuple[Counted, Any]:
        with _counted_here() as found:
            result = work()
        return found, result

    for name in ("first", "counted"):
        made, sandbox = counted(lambda name=name: engine.sandboxes.run(sandbox_request(name, 0)))  # type: ignore[misc]
        held, container = counted(lambda sandbox=sandbox: engine.containers.create(request("app", sandbox)))  # type: ignore[misc]
        engine.containers.start(container)
        stopped, _ = counted(lambda container=container: engine.containers.stop(container, 0))  # type: ignore[misc]
        removed, _ = counted(lambda sandbox=sandbox: engine.sandboxes.remove(sandbox))  # type: ignore[misc]
        if name == "counted":
            yield "node: the engine of a runtime stores a sandbox", made
            yield "node: the engine of a runtime stores a container", held
            yield "node: the engine of a runtime stops a container", stopped
            yield "node: the engine of a runtime removes a pod", removed
    engine.close()


def measure(directory: Path) -> Mapping[str, Counted]:
    """Return what each step costs, in an empty directory; without logs and collections of garbage, which pytest, and a
    process with a longer life, have more of.
    """
    logged = logging.root.manager.disable
    logging.disable()
    try:
        with without_collections():
            return {
                **dict(_of_edged(directory / "edged")),
                **dict(_of_the_last(directory / "last")),
                **dict(_of_engine(directory / "runtime")),
            }
    finally:
        logging.disable(logged)
