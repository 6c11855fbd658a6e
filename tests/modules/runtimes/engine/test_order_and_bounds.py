"""The order of the engine's steps, its bounds, and what it lets go at its end."""

import errno
import json
import os
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from beehive.wakeup import Wakeup
from modules.runtimes.engine import command_output, events, model
from modules.runtimes.engine import journal as journal_module
from modules.runtimes.engine import state as state_module
from modules.runtimes.engine.command_output import OUTPUT_LIMIT, CommandRoom, OutputRoom
from modules.runtimes.engine.containers import changed_resources
from modules.runtimes.engine.errors import TooManyError
from modules.runtimes.engine.inspection import container_info
from modules.runtimes.engine.journal import Journal
from modules.runtimes.engine.model import Sandbox
from modules.runtimes.engine.records import BootId, Exit, SandboxId, SandboxRecord
from modules.runtimes.engine.state import StateDirectory
from modules.runtimes.engine.views import container_status
from protos.cri.v1 import api_pb2 as cri
from tests.modules.runtimes.engine.test_engine import Life, MemoryDriver, created, sandbox_request
from tests.modules.runtimes.engine.test_state_crashes import make
from tests.support.failing import Failing, PlannedError, census


@pytest.mark.parametrize(
    ("change", "swap"),
    [
        (cri.LinuxContainerResources(cpu_shares=2), 30),
        (cri.LinuxContainerResources(memory_limit_in_bytes=40), 0),
        (cri.LinuxContainerResources(memory_limit_in_bytes=40, memory_swap_limit_in_bytes=50), 50),
    ],
)
def test_a_limit_of_swap_stays_until_there_is_a_new_one_of_memory(
    change: cri.LinuxContainerResources, swap: int
) -> None:
    before = cri.LinuxContainerResources(memory_limit_in_bytes=20, memory_swap_limit_in_bytes=30)
    assert changed_resources(before, change).memory_swap_limit_in_bytes == swap


def test_the_time_until_a_container_notices_its_signal_is_of_its_grace_period(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pod would be away later than was promised."""
    life, waits = Life(1, tmp_path / "state"), list[float]()
    container = life.engine.registry.container(created(life, monkeypatch))
    containers: Any = life.engine.containers
    containers._clock = SimpleNamespace(monotonic=iter([0.0, 7.0]).__next__)
    ended: Any = SimpleNamespace(wait=waits.append, set=list)
    container.ended = ended
    containers._ask_to_end(container, 10.0)
    assert waits == [3.0]
    life.engine.close()


@pytest.mark.parametrize(("seconds", "signals"), [(0.0, [9]), (0.5, [15, 9]), (1.0, [15, 9])])
def test_a_container_is_asked_to_end_if_it_has_any_time_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, signals: list[int]
) -> None:
    life, sent = Life(1, tmp_path / "state"), list[int]()
    made = created(life, monkeypatch)
    life.engine.containers.start(made)
    container = life.engine.registry.container(made)
    ended: Any = SimpleNamespace(wait=lambda _: container.exit, set=list)
    container.ended = ended

    def signal(_driver: object, _container: object, number: int) -> None:
        sent.append(number)
        if number == 9:
            container.exit = Exit(137, 0, "Error", "")
            ended.wait = lambda _: True

    monkeypatch.setattr(MemoryDriver, "signal", signal)
    life.engine.containers.stop(made, seconds)
    assert sent == signals
    life.machine.end(made, 137)
    life.engine.close()


def test_output_is_waited_for_until_the_commands_time_has_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    """And no longer, however long the machine has been up."""
    waits = list[float]()

    def poll(left: float) -> list[tuple[int, int]]:
        waits.append(left)
        return []

    monkeypatch.setattr(
        command_output, "select", SimpleNamespace(poll=lambda: SimpleNamespace(register=max, poll=poll), POLLIN=1)
    )
    clock: Any = SimpleNamespace(monotonic=iter([5000.0, 5000.5, 7000.0, 7009.0]).__next__)
    with ExitStack() as closing:
        output = command_output.CommandOutput(closing, closing, clock)
        output.gather(2.0)
        output.gather(2.0)
    assert waits == [1500.0, 0.0]


def test_a_container_that_has_not_ended_has_no_exit_code_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor a time or a reason: 0 is what it has by CRI."""
    life = Life(1, tmp_path / "state")
    status = container_status(life.engine.registry.container(created(life, monkeypatch)))
    assert (status.exit_code, status.finished_at, status.reason, status.message) == (0, 0, "", "")
    life.engine.close()


def test_information_for_people_has_the_names_of_cri(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """crictl's users look for them."""
    life = Life(1, tmp_path / "state")
    container = life.engine.registry.container(created(life, monkeypatch))
    container.config.log_path = "0.log"
    assert json.loads(container_info(container, {})["info"])["config"]["log_path"] == "0.log"
    life.engine.close()


def test_those_who_wait_for_a_container_go_on_when_the_engine_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process would not end before the grace period, or the container."""
    life = Life(1, tmp_path / "state")
    container = life.engine.registry.container(created(life, monkeypatch))
    life.engine.close()
    assert (container.ended.is_set(), container.decided.is_set(), container.exit) == (True, True, None)


def test_directories_of_a_container_are_private_and_leave_no_descriptor(tmp_path: Path) -> None:
    """What a container works in is nobody else's, whatever the umask of edgecore."""
    before, umask = census(), os.umask(0)
    try:
        state = StateDirectory(tmp_path)
        make(state)
    finally:
        os.umask(umask)
    state.release()
    assert {(tmp_path / "containers/a" / name).stat().st_mode & 0o777 for name in ("work", "root")} == {0o700}
    assert not census().more_than(before)


def test_what_is_set_aside_is_forgotten_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A power cut between the two would bring the damaged container back."""
    state, kept = StateDirectory(tmp_path), list[bool]()
    make(state)
    monkeypatch.setattr(state_module, "set_aside", lambda *_: kept.append("containers/a" in state.journal._live))
    state.set_aside(state.containers / "a", "of this test")
    assert kept == [False]
    state.release()


def test_a_container_is_in_the_journal_when_it_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The journal would bring back one that could not be made."""
    state, there = StateDirectory(tmp_path), list[bool]()
    monkeypatch.setattr(state.journal, "add", lambda directory, _: there.append(directory.is_dir()))
    make(state)
    assert there == [True]
    state.release()


def test_a_container_is_removed_with_what_an_earlier_attempt_has_left(tmp_path: Path) -> None:
    """Its directory cannot get the name then that hides it."""
    state = StateDirectory(tmp_path)
    make(state)
    (state.containers / f"{state_module._HIDDEN}a" / "work").mkdir(parents=True)
    state_module.discard(state.journal, state.containers / "a")
    assert list(state.containers.iterdir()) == []
    state.release()


@pytest.mark.parametrize("step", ["write_file", "sync_directory"])
def test_a_journal_that_is_not_known_to_be_durable_is_written_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Until that passes, no flush does: the kernel has given up what it could not write, or has no name for it."""
    journal = Journal(tmp_path, "first")
    for name in ("a", "b"):
        (tmp_path / "containers" / name).mkdir(parents=True)
        journal.write(tmp_path / "containers" / name / "one", b"1" * 100)
    journal.remove(tmp_path / "containers/b")
    journal._limit = 0 if step == "write_file" else journal._size - 1
    with monkeypatch.context() as broken:
        broken.setattr(journal_module, step, Failing(0, OSError(errno.EIO, "of this test")).call(print))
        with pytest.raises(OSError, match="of this test"):
            journal.flush()
    synced = list[Path]()
    monkeypatch.setattr(journal_module, "sync_directory", synced.append)
    journal.flush()
    assert synced == [tmp_path]
    journal.close()


def test_what_could_not_be_written_is_not_in_the_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A power cut would bring limits into force that were refused."""
    journal, directory = Journal(tmp_path, "first"), tmp_path / "containers/a"
    directory.mkdir(parents=True)
    monkeypatch.setattr(journal_module, "replace_soon", Failing(0).call(print))
    with pytest.raises(PlannedError):
        journal.write(directory / "one", b"1")
    assert not journal._live
    journal.close()


def test_a_command_has_no_more_output_than_a_message_takes() -> None:
    """In how many pieces it ever comes, and however much room there is for others."""
    room = CommandRoom(OutputRoom())
    assert [room.grant(OUTPUT_LIMIT - 1), room.grant(3), room.grant(3)] == [OUTPUT_LIMIT - 1, 1, 0]


def test_who_wakes_a_command_that_is_over_writes_to_nothing() -> None:
    """Its descriptor may be another one's by then."""
    wakeup = Wakeup()
    wakeup.close()
    other = os.eventfd(0, os.EFD_NONBLOCK)
    wakeup.wake()
    with pytest.raises(BlockingIOError):
        os.eventfd_read(other)
    os.close(other)


def test_a_sandbox_is_not_ready_before_that_is_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If its network cannot be released either, it is listed until it is removed."""
    sandbox = Sandbox(
        SandboxId("s"), tmp_path, sandbox_request("a", 0), SandboxRecord(1, "", BootId("b"), stopped=True)
    )
    monkeypatch.setattr(model, "write_record_soon", Failing(0).call(print))
    with pytest.raises(PlannedError):
        sandbox.mark_ready(SandboxRecord(1, "192.0.2.1", BootId("b")))
    assert sandbox.state == cri.SANDBOX_NOTREADY


def test_a_reader_of_events_that_is_too_far_behind_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """It gets those that it could have, and has to list."""
    monkeypatch.setattr(events, "_BACKLOG", 2)
    hub = events.EventHub()
    stream = hub.subscribe()
    for each in "abcd":
        hub.publish(cri.ContainerEventResponse(container_id=each))
    assert stream._queue.qsize() == 3, "with the end, which is there once"
    found = list[str]()
    with pytest.raises(TooManyError, match="behind"):
        found.extend(event.container_id for event in stream)
    assert (found, hub.has_readers) == (["a", "b"], False)


def test_a_request_that_cannot_be_read_for_want_of_descriptors_is_not_taken_for_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shortage = OSError(errno.EMFILE, "Too many open files")
    monkeypatch.setattr(state_module, "read_file", Failing(0, shortage).call(print))
    with pytest.raises(OSError, match="Too many"):
        state_module.read_request(tmp_path / "request.pb", cri.CreateContainerRequest())
