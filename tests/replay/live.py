"""Recordings of a real `edgecore run --record`, on threads, with a real cloud and the process runtime."""

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Final

from modules.processes.edgecore.config import EdgeCoreConfig
from modules.processes.edgecore.config.writing import render
from tests.end_to_end.machine import Machine
from tests.end_to_end.pods import config_map, container, is_ready, mount, pod, restarts_of
from tests.end_to_end.processes import Process, run_program, wait_until
from tests.end_to_end.runtimes import EmbeddedUnderTest, RuntimeUnderTest

ROUNDS: Final = 3
"""Rounds of `pods_come_and_go`."""
A_SECOND: Final = "sleep 1; exit 3"
MILLISECONDS: Final = "exit 3"
"""What a container runs that crashes.

One that lives for a second is seen running by all who read it, and ends after all reads. One that lives
for milliseconds ends while its worker and the PLEG read it.
"""


class RecordedMachine(Machine):
    """A machine whose edgecore is recorded.

    Args:
        runtime: of the node.
        change: changes its configuration.
    """

    def __init__(
        self, runtime: RuntimeUnderTest, change: Callable[[EdgeCoreConfig], EdgeCoreConfig] = lambda config: config
    ) -> None:
        super().__init__(runtime)
        self.is_recorded = True
        """Whether the next process of edgecore is."""
        self._change = change

    @property
    def trace(self) -> Path:
        """Where to."""
        return self.directory / "run.trace"

    def start_edge(self) -> None:
        """Starts it (again, with a log of its own)."""
        file = self.edge.file
        file.write_text(render(self._change(self.edge._config(self.cloud.address))))
        arguments = ["run", "--config", str(file), *(["--record", str(self.trace)] if self.is_recorded else [])]
        log = self.directory / f"edgecore-{len(list(self.directory.glob('edgecore-*.log')))}.log"
        self.edge._process = Process("modules.processes.edgecore", arguments, log)

    def stop_edge(self) -> None:
        """Stops it as systemd does."""
        self.edge.process.signal(signal.SIGTERM)
        assert self.edge.process.wait() == 0


def pods_of_each_kind(crash: str = A_SECOND) -> bytes:
    """Record a running pod, one that crashes and restarts, and one with changing files; all are deleted."""
    machine = _started()
    try:
        cloud, pods = machine.cloud, machine.cloud.pods
        cloud.apply(pod("runs"))
        pods.wait("runs", is_ready)
        volume = {"name": "cm", "configMap": {"name": "settings"}}
        cloud.apply(
            config_map("settings", key="1"),
            pod("files", container(volumeMounts=[mount("cm", "/cm")]), volumes=(volume,)),
            pod("crashes", container(crash)),
        )
        pods.wait("files", is_ready)
        pods.wait("crashes", lambda obj: restarts_of(obj) >= 1)
        wait_until(lambda: "/runs." in _events(machine), "the events of the first second have left")
        cloud.apply(config_map("settings", key="2"))
        for name in ("runs", "files", "crashes"):
            cloud.delete("pod", name, grace=1)
        for name in ("runs", "files", "crashes"):
            pods.wait_gone(name)
        return _stopped(machine)
    finally:
        machine.close()


def pods_come_and_go() -> bytes:
    """Record three pods at a time that are applied, run and are deleted; one of them has to be killed."""
    machine = _started()
    try:
        for number in range(ROUNDS):
            _come_and_go(machine, number)
        return _stopped(machine)
    finally:
        machine.close()


def _come_and_go(machine: RecordedMachine, number: int) -> None:
    names = [f"p{number}-{letter}" for letter in "abc"]
    stubborn = container("trap '' TERM; while true; do sleep 1; done")
    machine.cloud.apply(pod(names[0]), pod(names[1]), pod(names[2], stubborn))
    for name in names:
        machine.cloud.pods.wait(name, is_ready)
    for name in names:
        machine.cloud.delete("pod", name, grace=1 if name == names[2] else None)
    for name in names:
        machine.cloud.pods.wait_gone(name)


def _started() -> RecordedMachine:
    machine = RecordedMachine(EmbeddedUnderTest())
    try:
        machine.cloud.start()
        machine.start_edge()
    except BaseException:
        machine.close()
        raise
    return machine


def _stopped(machine: RecordedMachine) -> bytes:
    """Stop edgecore and return the trace."""
    machine.stop_edge()
    return machine.trace.read_bytes()


def _events(machine: Machine) -> str:
    listed = run_program("edgecore", "store", "list", "event", "--config", str(machine.edge.file))
    listed.check_returncode()
    return listed.stdout
