"""A node on a disk whose flushes take 10 ms, as those of an SD card do, or with a fifth of one processor core, as a
Raspberry Pi Zero has: pods, their configmaps, and a status.

Only edgecore and the programs that it starts are slow; the cloud, on the same machine, and containers are not.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final
from unittest.mock import patch

from edged.cgroups.hierarchies import with_unified_controllers
from edged.cgroups.names import CgroupPath
from edged.cgroups.opening import machine_hierarchies
from edged.cgroups.resource_config import ResourceConfig
from edged.cgroups.tree import CgroupFiles
from tests.bench.pleg import end_of_container
from tests.bench.rows import Row, Unit
from tests.bench.subject import Subject, breathe
from tests.end_to_end.machine import NODE, Machine
from tests.end_to_end.pods import config_map, container, mount, phase, pod
from tests.end_to_end.processes import wait_until
from tests.end_to_end.runtimes import OciUnderTest
from tests.modules.runtimes.oci.node import reason_missing

_SOURCE: Final = Path(__file__).with_name("slow_disk.c")
_MANY: Final = 20
_CONFIGMAPS: Final = 50
_LIMIT: Final = 120.0
_CORES: Final = 0.2
_PERIOD: Final = 100_000
"""Microseconds."""


def missing() -> str | None:
    """Why this machine cannot measure it."""
    return reason_missing() or (None if shutil.which("cc") else "there is no C compiler")


def disk(rounds: int) -> list[Row]:
    """All rows with slow flushes."""
    return [*_rows("", rounds, _start_on_slow_disk), *_rows(" (this machine's disk)", rounds, Machine.start_edge)]


def processor(rounds: int) -> list[Row]:
    """All rows with a share of a core."""
    whole = _rows(" (this machine's cores)", rounds, Machine.start_edge)
    return [*_rows("", rounds, _start_on_slow_processor), *whole]


def _rows(words: str, rounds: int, start: Callable[[Machine], None]) -> list[Row]:
    with OciUnderTest() as runtime:
        machine = Machine(runtime)
        try:
            machine.cloud.start()
            start(machine)
            return list(_measured(machine, words, rounds))
        finally:
            machine.close()


def _measured(machine: Machine, words: str, rounds: int) -> Iterator[Row]:
    machine.cloud.mirror("Node").wait(NODE, lambda _node: True)
    subject = Subject(machine)
    names = [f"many-{number}" for number in range(_MANY)]
    ones, many, mounted, ends = list[float](), list[float](), list[float](), list[float]()
    for number in range(rounds + 1):
        ones.append(_up_and_down(subject, [f"one-{number}"]))
        many.append(_up_and_down(subject, names))
        mounted.append(_configmaps(subject, f"reader-{number}"))
        ends.append(end_of_container(machine, f"ends-{number}"))
        subject.down([f"ends-{number}"], 0)
    for measured in (ones, many, mounted, ends):
        measured.pop(0)
    yield Row.of(f"1 pod, manifest to Running reported{words}", ones, Unit.SECONDS)
    yield Row.of(f"{_MANY} pods, the last Running{words}", many, Unit.SECONDS)
    yield Row.of(f"1 pod with {_CONFIGMAPS} configmaps{words}", mounted, Unit.SECONDS)
    yield Row.of(f"a container's end to Failed in the cloud{words}", ends, Unit.MILLISECONDS)


def _up_and_down(subject: Subject, names: list[str]) -> float:
    taken = subject.up(names)
    subject.down(names, 0)
    machine = subject.machine
    wait_until(lambda: machine.runtime.pods(machine.edge.root / "edged") == 0, "the runtime has no pods", _LIMIT)
    breathe()
    return taken


def _configmaps(subject: Subject, name: str) -> float:
    keys = [f"{name}-{number}" for number in range(_CONFIGMAPS)]
    subject.cloud.apply(*(config_map(key, text="x" * 1000) for key in keys))
    app = container("exec sleep 3600", volumeMounts=[mount(key, f"/config/{key}") for key in keys])
    volumes = tuple({"name": key, "configMap": {"name": key}} for key in keys)
    reader = pod(name, app, hostNetwork=True, terminationGracePeriodSeconds=0, volumes=volumes)
    begin = time.perf_counter()
    subject.cloud.apply(reader)
    subject.cloud.pods.wait(name, lambda each: phase(each) == "Running", _LIMIT)
    taken = time.perf_counter() - begin
    subject.down([name], 0)
    for key in keys:
        subject.cloud.delete("ConfigMap", key)
    breathe()
    return taken


def _start_on_slow_disk(machine: Machine) -> None:
    library = machine.directory / "slow_disk.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(_SOURCE), "-ldl", "-lpthread"], check=True)
    with patch.dict(os.environ, {"LD_PRELOAD": str(library)}):
        machine.start_edge()


def _start_on_slow_processor(machine: Machine) -> None:
    """Start edgecore, and put it into a control group once it runs; `Machine.close` removes that."""
    machine.start_edge()
    group = CgroupPath(f"{machine.edge.cgroup_root}/slow")
    hierarchies = [each for each in with_unified_controllers(machine_hierarchies()) if "cpu" in each.controllers]
    tree = CgroupFiles(hierarchies)
    tree.make(group)
    tree.set(group, ResourceConfig(cpu_quota=round(_CORES * _PERIOD), cpu_period=_PERIOD))
    for each in hierarchies:
        Path(f"{each.mount}{group}/cgroup.procs").write_text(str(machine.edge.process.pid))
