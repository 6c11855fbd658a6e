"""The OCI runtime by its parts: pods with a network of their own, commands, memory, idleness, pulls; containerd beside
it where both can do the same.
"""

import gzip
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

import grpc
import psutil

from beehive.clock import RealClock
from modules.runtimes.oci.images import ImageStore
from protos.cri.v1 import api_pb2 as cri
from tests.bench.rows import Goal, Row, Unit
from tests.bench.subject import breathe, inner_endpoint, pass_time
from tests.end_to_end.machine import Machine
from tests.end_to_end.pods import container, phase, pod
from tests.end_to_end.processes import wait_until
from tests.end_to_end.runtimes import ContainerdUnderTest, OciUnderTest, RuntimeUnderTest
from tests.modules.runtimes.oci.images.registry import TestRegistry
from tests.modules.runtimes.oci.images.tars import directory, file, tar
from tests.modules.runtimes.oci.node import reason_missing as oci_missing
from tests.support.containerd import PrivateContainerd
from tests.support.containerd import reason_missing as containerd_missing
from tests.support.cri_calls import runtime_calls

_MANY: Final = 20
_COMMANDS: Final = 40
_IDLE_SECONDS: Final = 30.0
_SETTLED_SECONDS: Final = 12.0
"""Until relists have reached their normal period."""
_MEGABYTE: Final = 1e6
_LAYER_SEEDS: Final = range(2)
_FILES: Final = 3_200
"""In each layer; 40 KB each: 254 MB in all, 77 after gzip."""


class _Measured(NamedTuple):
    """Seconds, milliseconds."""

    one: list[float]
    many: list[float]
    beside_ends: list[float]
    """With as many pods as the round before, whose pods still end."""
    commands: list[float]


def missing() -> str | None:
    """Why this machine cannot measure it."""
    return oci_missing() or containerd_missing()


def measure(rounds: int) -> list[Row]:
    """All rows, containerd's after those of the OCI runtime."""
    with OciUnderTest() as runtime:
        rows = _node(runtime, rounds, is_own=True)
    with PrivateContainerd(cni=True) as daemon, ContainerdUnderTest(daemon) as other:
        rows += _node(other, rounds, is_own=False)
        rows += _pulls(daemon, rounds)
    return rows


def _node(runtime: RuntimeUnderTest, rounds: int, *, is_own: bool) -> list[Row]:
    measured = _Measured([], [], [], [])
    machine = Machine(runtime)
    extra: list[Row] = []
    try:
        machine.start()
        names = [f"many-{number}" for number in range(_MANY)]
        for number in range(2 * rounds):
            measured.one.append(_up(machine, [f"one-{number}"]))
            _down(machine, [f"one-{number}"])
            _empty(machine)
        for _ in range(rounds):
            measured.many.append(_up(machine, names))
            _down(machine, names)
            measured.beside_ends.append(_up(machine, names))
            _down(machine, names)
            _empty(machine)
        _up(machine, names)
        if is_own:  # before the commands, whose client starts the runtime's gRPC server
            extra = _rest(machine)
        measured.commands.extend(_commands(inner_endpoint(machine, runtime) if is_own else runtime.endpoint))
        _down(machine, names)
    finally:
        machine.close()
    name = runtime.name

    def goal(limit: float) -> tuple[Goal, ...]:
        return (Goal(limit),) if is_own else ()

    return [
        Row.of(f"{name}: 1 pod with CNI, manifest to Running reported", measured.one, Unit.SECONDS, goals=goal(0.07)),
        Row.of(f"{name}: {_MANY} pods with CNI, the last Running", measured.many, Unit.SECONDS, goals=goal(0.7)),
        Row.of("   while the pods of the round before still end", measured.beside_ends, Unit.SECONDS),
        Row.of(f"{name}: ExecSync of `true`", measured.commands, Unit.MILLISECONDS, goals=goal(10)),
        *extra,
    ]


def _up(machine: Machine, names: list[str]) -> float:
    begin = time.perf_counter()
    machine.cloud.apply(*(pod(name, container("exec sleep 3600"), terminationGracePeriodSeconds=0) for name in names))
    for name in names:
        machine.cloud.pods.wait(name, lambda each: phase(each) == "Running", 120.0)
    return time.perf_counter() - begin


def _down(machine: Machine, names: list[str]) -> None:
    """Delete pods in the cloud. Their processes end later: the kubelet gives them two seconds at least."""
    for name in names:
        machine.cloud.delete("Pod", name, 0)
    for name in names:
        machine.cloud.pods.wait_gone(name, 120.0)
    breathe()


def _empty(machine: Machine) -> None:
    """Wait until the runtime has no pods, and rest."""
    wait_until(lambda: machine.runtime.pods(machine.edge.root / "edged") == 0, "the runtime has no pods", 60)
    breathe()


def _commands(endpoint: str) -> Iterator[float]:
    """Milliseconds of commands in one container."""
    options = (("grpc.default_authority", "localhost"),)
    with grpc.insecure_channel(endpoint.replace("unix://", "unix:"), options) as channel:
        calls = runtime_calls(channel)
        listed = calls["ListContainers"](cri.ListContainersRequest()).containers
        running = next(each.id for each in listed if each.state == cri.CONTAINER_RUNNING)
        for _ in range(_COMMANDS):
            begin = time.perf_counter()
            calls["ExecSync"](cri.ExecSyncRequest(container_id=running, cmd=["true"], timeout=30))
            yield (time.perf_counter() - begin) * 1000


def _is_of(process: psutil.Process, root: str) -> bool:
    """Return whether a process is a node's; one that ends meanwhile is not."""
    try:
        return root in " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return False


def _rest(machine: Machine) -> list[Row]:
    """A node with its pods that does nothing: memory of all its processes but the containers' own, processor time."""
    pass_time(_SETTLED_SECONDS)
    agent = psutil.Process(machine.edge.process.pid)
    parents = [each for each in psutil.process_iter(["name"]) if each.info["name"] == "conmon"]
    parents = [each for each in parents if _is_of(each, str(machine.edge.root))]
    own = [agent, *agent.children(recursive=True)]
    of_parents = sum(map(proportional, parents))
    whole = sum(map(proportional, {each.pid: each for each in (*own, *parents)}.values()))
    before, began = _processor(own + parents), time.perf_counter()
    pass_time(_IDLE_SECONDS)
    idle = 100 * (_processor(own + parents) - before) / (time.perf_counter() - began)
    return [
        Row(f"oci: node with {_MANY} pods, all processes (PSS)", whole, Unit.MEGABYTES, goals=(Goal(80),)),
        Row("oci: of that, for each container", of_parents / max(1, len(parents)), Unit.MEGABYTES, goals=(Goal(0.5),)),
        Row(f"oci: idle with {_MANY} pods, of a core", idle, Unit.PERCENT, goals=(Goal(0.5),)),
    ]


def proportional(process: psutil.Process) -> float:
    """Return the memory of a process in megabytes, shared pages by halves, thirds … (PSS); 0 if it has ended."""
    with suppress(OSError):
        for line in Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024 / _MEGABYTE
    return 0.0


def _processor(processes: list[psutil.Process]) -> float:
    return sum(each.cpu_times().user + each.cpu_times().system for each in processes)


def _pulls(daemon: PrivateContainerd, rounds: int) -> list[Row]:
    """Pull and unpack an image from a registry of this machine, by both; by containerd once, as it keeps the layers."""
    with TestRegistry() as registry, TemporaryDirectory(prefix="bench-", dir="/var/tmp") as scratch:
        registry.add([_layer(seed) for seed in _LAYER_SEEDS], pack=lambda layer: gzip.compress(layer, 6))
        name = f"{registry.address}/team/app:1"
        packed = sum(len(registry.blobs[each]) for each in registry.layer_digests()) / _MEGABYTE
        theirs = [_seconds(lambda: daemon.ctr("images", "pull", "--plain-http", name))]
        own, processor, peaks = [], [], []
        for number in range(rounds):
            with _watching_workers() as seen:
                before = os.times()
                own.append(_seconds(lambda number=number: _pull(Path(scratch, str(number)), name)))  # type: ignore[misc]
                after = os.times()
            peaks.append(seen())
            processor.append(
                after.children_user + after.children_system - before.children_user - before.children_system
            )
    return [
        Row.of(f"oci: pull and unpack {packed:.0f} MB; floor: ctr", own, Unit.SECONDS, floors=theirs, goals=(Goal(3),)),
        Row.of("   of that, processor time of the puller", processor, Unit.SECONDS),
        Row.of("oci: memory of the puller, at most", peaks, Unit.MEGABYTES, goals=(Goal(35),)),
    ]


def _pull(root: Path, name: str) -> None:
    clock = RealClock()
    ImageStore(root, clock, Path("/nonexistent")).pull(cri.PullImageRequest(image=cri.ImageSpec(image=name)))
    clock.close()


def _seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def _layer(seed: int) -> bytes:
    """Files that gzip compresses to about a third."""
    draw = random.Random(seed)  # noqa: S311 - the same each time
    words = [draw.randbytes(12) for _ in range(1200)]
    folders = [directory(f"d{number}") for number in range(40)]
    files = (file(f"d{number % 40}/f{number}", b"".join(draw.choices(words, k=3_300))) for number in range(_FILES))
    return tar(*folders, *files)


@contextmanager
def _watching_workers() -> Iterator[Callable[[], float]]:
    """Measure the memory of this process' children; the result is the largest sum, in megabytes (PSS)."""
    done, found = threading.Event(), [0.0]
    this = psutil.Process()

    def watch() -> None:
        while not done.wait(0.02):
            with suppress(psutil.Error):
                workers = [
                    each for each in this.children(recursive=True) if "images/worker" in " ".join(each.cmdline())
                ]
                found.append(sum(map(proportional, workers)))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield lambda: max(found)
    finally:
        done.set()
        thread.join()
