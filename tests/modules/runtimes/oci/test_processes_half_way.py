"""What a container's start leaves that fails half-way, and a removal that does not succeed."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import MagicMock, Mock

import pytest

from beehive.simulation import Simulation
from modules.runtimes.engine.errors import RunFailedError
from modules.runtimes.engine.records import ContainerId, ContainerRecord, Exit
from modules.runtimes.oci import processes
from modules.runtimes.oci.bundles import Bundles, holds_of
from modules.runtimes.oci.crun import conmon as parents
from modules.runtimes.oci.crun.conmon import PERSIST, Parent
from modules.runtimes.oci.crun.runtime_command import CommandFailedError
from modules.runtimes.oci.first_process import FirstProcess
from modules.runtimes.oci.model import OciContainer
from modules.runtimes.oci.processes import ContainerProcesses
from protos.cri.v1 import api_pb2 as cri
from tests.support.failing import Attempt, Failing, PlannedError, census, fail_at_each_call

_CALLS = ("make", "create", "start", "started", "add")
"""What a start asks of others; each may fail."""


class Machine:
    """A machine on which a container runs: its first process is `process`, and this one its conmon.

    Args:
        process: a process that lives.
        directory: of the container.
        failing: of the calls.
    """

    def __init__(self, process: int, directory: Path, failing: Failing) -> None:
        self.made: set[str] = set()
        """What there is of the container."""
        self.awaited = list[set[str]]()
        """What there was whenever calls of an OCI runtime that an earlier edgecore had made were waited for."""
        self.watched: list[Any] = []
        self.resists = False
        user = SimpleNamespace(uid=0, gid=0, groups=())
        (directory / PERSIST).mkdir(parents=True, exist_ok=True)

        def create(*_: object) -> Parent:
            self.made.add("process")
            return Parent(process, os.getpid(), os.pidfd_open(process))

        def make(_: object) -> SimpleNamespace:
            self.made.add("root")
            return SimpleNamespace(user=user, config={})

        def delete(_: object) -> None:
            if self.resists:
                raise CommandFailedError("it is busy")
            self.made.discard("process")

        def add(end: Any) -> None:
            try:
                failing.step()
            except BaseException:
                end.close()
                raise
            self.watched.append(end)

        def await_others(_: object) -> None:
            self.awaited.append(set(self.made))

        doubles = SimpleNamespace(
            make=make, create=create, delete=delete, start=lambda *_, **__: None, started=lambda *_: None,
            unmount=lambda _: self.made.discard("root"), forget=lambda _: self.made.add("forgotten"),
            await_others=await_others,
        )  # fmt: skip
        called = failing.calls_of(doubles, *_CALLS)
        self.announcer = MagicMock()
        parts = SimpleNamespace(
            state=SimpleNamespace(journal=MagicMock()), watcher=SimpleNamespace(add=add), clock=Simulation(1).clock,
            announcer=self.announcer,
        )  # fmt: skip
        self.processes = ContainerProcesses(called, called, called, cast("Any", parts))
        request = cri.CreateContainerRequest()
        self.container = OciContainer(ContainerId("c1"), directory, request, ContainerRecord(1))

    def end(self) -> None:
        """Let the container end."""
        self.processes._record_exit(self.container, Exit(0, 1, "Completed", ""))
        for each in self.watched:
            each.close()


@pytest.fixture
def process() -> Iterator[int]:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        yield other.pid


def test_a_log_that_conmon_does_not_make_anew_is_waited_for_ten_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the time of day is."""
    machine, passed = Machine(os.getpid(), tmp_path, Failing(0)), [0.0]

    def wait(_seconds: float) -> bool:
        passed[0] += 3.0
        assert passed[0] < 60.0, "it waits for ever"
        return False

    clock = SimpleNamespace(monotonic=lambda: 100.0 + passed[0], now=lambda: 1_700_000_000.0 + passed[0])
    monkeypatch.setattr(machine.processes, "_clock", clock)
    monkeypatch.setattr(machine.container, "ended", SimpleNamespace(wait=wait))
    monkeypatch.setattr(processes, "clear_way", lambda _: None)
    monkeypatch.setattr(parents, "reopen_log", lambda _: None)
    monkeypatch.setattr(parents, "conmon_pid", lambda _: None)
    with pytest.raises(RunFailedError, match="conmon does not make the new file"):
        machine.processes.reopen_log(machine.container, "reopen the log")
    assert passed == [12.0]


def test_a_start_that_fails_leaves_nothing_of_the_container(
    tmp_path: Path, process: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an error that is announced it has ended; after any other it can be started again."""
    monkeypatch.setattr(parents, "find_conmon", lambda _: None)
    for error in (PlannedError(), MemoryError("of this test")):

        def make(failing: Failing, error: BaseException = error) -> Attempt:
            there = Machine(process, tmp_path, failing)

            def run() -> None:
                try:
                    there.processes.start(there.container)
                except BaseException as found:
                    assert isinstance(found, RunFailedError) is isinstance(error, OSError)
                    assert (there.container.exit is not None) is isinstance(error, OSError)
                    assert there.announcer.stopped.called is isinstance(error, OSError)
                    assert bool(there.awaited) is isinstance(error, OSError)
                    for each in there.watched:  # the watcher sees the end of its conmon
                        each.gone()
                    raise

            return Attempt(run, left=lambda: sorted(there.made), undo=there.end, is_repeatable=False)

        assert fail_at_each_call(make, error) == len(_CALLS)


def test_a_container_that_resists_its_removal_keeps_its_images(
    tmp_path: Path, process: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = Machine(process, tmp_path, Failing(None))
    monkeypatch.setattr(parents, "find_conmon", lambda _: os.pidfd_open(process))
    monkeypatch.setattr(parents, "init_pid", lambda _: process)
    monkeypatch.setattr(processes, "is_readable", lambda *_: True)
    there.resists, before = True, census()
    with pytest.raises(RunFailedError):
        there.processes.remove(there.container)
    assert "forgotten" not in there.made
    there.resists = False
    there.processes.remove(there.container)
    assert there.made == {"forgotten"}
    assert not census().more_than(before)


def test_a_conmon_that_ends_while_it_is_looked_at_is_not_held(process: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A container that was being created, at the start of the next edgecore."""
    found = [None, os.pidfd_open(process)]
    monkeypatch.setattr(parents, "find_conmon", lambda _: found.pop())
    monkeypatch.setattr(parents, "init_pid", lambda _: None)
    monkeypatch.setattr(processes, "is_readable", lambda *_: True)
    held = found[1]
    assert processes._settled_conmon(Path("/nowhere"), search=False) is None
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(cast("int", held))


def test_the_status_of_a_first_process_is_closed(process: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if a look at it fails."""
    first = FirstProcess.of(process, "c1", os.getpid())
    assert first is not None
    before, failing = census(), Failing(0)
    monkeypatch.setattr(FirstProcess, "_would_notice", failing.call(lambda *_: True))
    with pytest.raises(PlannedError):
        first.await_notice(signal.SIGTERM, MagicMock(), 1.0)
    failing.forget()
    assert not census().more_than(before)
    first.close()


def test_the_end_of_a_container_is_on_the_disk_before_it_is_told(tmp_path: Path, process: int) -> None:
    there = Machine(process, tmp_path, Failing(-1))
    there.end()
    journal = cast("MagicMock", there.processes._journal)
    assert [name for name, *_ in journal.method_calls] == ["write", "flush"]


def test_no_container_ends_before_it_has_started(tmp_path: Path, process: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time of its end is a file's, which may be a little too early."""
    ended = SimpleNamespace(code=0, at_ns=5, out_of_memory=False)
    monkeypatch.setattr(parents, "ended", lambda _: ended)
    container = SimpleNamespace(directory=tmp_path, has_own_processes=True, run=SimpleNamespace(started_at=7))
    processes_ = Machine(process, tmp_path, Failing(-1)).processes
    assert processes_._end_of(cast("Any", container)).finished_at == 7


def test_a_removed_container_keeps_none_of_its_images() -> None:
    """Those that it has mounted among them."""
    released, record = list[str](), ContainerRecord(1, image_id="i", image_volumes=(("a", "v"), ("b", "w")))
    container = OciContainer(ContainerId("c1"), Path("c1"), cri.CreateContainerRequest(), record)
    held = list(holds_of(container))
    Bundles.forget(cast("Any", SimpleNamespace(_images=SimpleNamespace(release=released.append))), container)
    assert (released, len(held)) == (held, 3)


def test_a_container_that_an_earlier_edgecore_has_started_is_known_after_a_boot(tmp_path: Path, process: int) -> None:
    """It has ended, when nobody knows."""
    there = Machine(process, tmp_path, Failing(None))
    there.processes.start(there.container)
    there.end()
    later = OciContainer(ContainerId("c1"), tmp_path, cri.CreateContainerRequest(), ContainerRecord(1))
    there.processes.adopt(later, rebooted=True)
    assert later.run == there.container.run is not None
    assert later.exit is not None
    assert "the machine was restarted" in later.exit.message


@pytest.mark.parametrize("lives", [False, True])
def test_a_container_starts_whether_its_first_process_is_seen_or_not(
    tmp_path: Path, process: int, monkeypatch: pytest.MonkeyPatch, *, lives: bool
) -> None:
    first = MagicMock() if lives else None
    monkeypatch.setattr(FirstProcess, "of", lambda *_: first)
    there = Machine(process, tmp_path, Failing(None))
    there.processes.start(there.container)
    there.end()
    assert first is None or first.waits_for_start.call_count == 1


@pytest.mark.parametrize("wrong", [{}, {"sandbox_id": "s2"}, {"run": None}, {"exit": Exit(0, 1, "", "")}, None])
def test_a_container_joins_the_processes_of_a_target_that_runs_in_its_pod(wrong: dict[str, Any] | None) -> None:
    config = cri.ContainerConfig()
    options = config.linux.security_context.namespace_options
    options.pid, options.target_id = cri.TARGET, "c2"
    target = SimpleNamespace(**({"sandbox_id": "s1", "run": SimpleNamespace(pid=7), "exit": None} | (wrong or {})))
    registry = SimpleNamespace(
        sandbox=lambda id_: SimpleNamespace(id=id_), find_container=lambda _: None if wrong is None else target
    )
    bundles, container = SimpleNamespace(_registry=registry), SimpleNamespace(config=config, sandbox_id="s1")
    found = Bundles._shared_processes(cast("Any", bundles), cast("Any", container))
    assert found == (Path("/proc/7/ns/pid") if wrong == {} else None)


def test_a_first_process_that_has_ended_takes_no_signal(process: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor one that is held no longer."""
    first, sent = FirstProcess.of(process, "c1", os.getpid()), Mock(side_effect=ProcessLookupError)
    assert first is not None
    monkeypatch.setattr(signal, "pidfd_send_signal", sent)
    first.send(signal.SIGTERM)
    first.close()
    first.send(signal.SIGTERM)
    assert sent.call_count == 1


def test_a_container_has_ended_also_on_a_full_disk(tmp_path: Path, process: int) -> None:
    """The next edgecore comes to the same conclusion."""
    there = Machine(process, tmp_path, Failing(None))
    cast("MagicMock", there.processes._journal).write.side_effect = OSError("no space")
    there.end()
    assert there.container.exit == Exit(0, 1, "Completed", "")
