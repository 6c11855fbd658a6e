"""A kill or a power cut at each step of what the state directory writes."""

import os
import shutil
from pathlib import Path

import pytest

from modules.runtimes.engine import state as state_module
from modules.runtimes.engine.records import BootId, SandboxRecord
from modules.runtimes.engine.state import (
    RECORD,
    REQUEST,
    StateDirectory,
    discard,
    entries,
    publish,
    read_container_request,
    read_record,
    write_container_request,
    write_record_soon,
)
from protos.cri.v1 import api_pb2 as cri
from tests.support.crash import Crash, crash_after
from tests.support.failing import Attempt, Failing, fail_at_each_call

FIRST, SECOND = (SandboxRecord(created_at=number, ip="127.0.0.1", boot_id=BootId("b")) for number in (1, 2))
SUBDIRECTORIES = ("work", "root")


def a_request() -> cri.CreateContainerRequest:
    """The request of a container."""
    config = cri.ContainerConfig(metadata=cri.ContainerMetadata(name="c"))
    return cri.CreateContainerRequest(pod_sandbox_id="s", config=config)


def make(state: StateDirectory, name: str = "a") -> None:
    """Publish a container, durably."""
    publish(state.journal, state.containers / name, a_request(), FIRST, SUBDIRECTORIES)
    state.journal.flush()


class Disk:
    """What a power cut leaves of files: what was flushed; of others nothing, or their names."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._flushed: dict[int, int] = {}
        for name in ("fsync", "fdatasync"):
            monkeypatch.setattr(os, name, self._flush)

    def cut(self, root: Path, *, loses_names: bool) -> None:
        """Lose what was not flushed."""
        for path in [path for path in root.rglob("*") if path.is_file()]:
            found = path.stat()
            flushed = self._flushed.get(found.st_ino, 0)
            if flushed == 0 and loses_names:
                path.unlink()
            elif flushed < found.st_size:
                os.truncate(path, flushed + (found.st_size - flushed) // 2 if flushed else 0)

    def _flush(self, descriptor: int) -> None:
        found = os.fstat(descriptor)
        self._flushed[found.st_ino] = found.st_size


@pytest.mark.parametrize("loses_names", [True, False])
@pytest.mark.parametrize("loses_directories", [True, False])
def test_a_power_cut_at_any_step_loses_nothing_that_was_promised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, loses_names: bool, loses_directories: bool
) -> None:
    """A sandbox becomes durable with its first container. What was not promised is whole, or it is set aside."""
    disk, boot = Disk(monkeypatch), ["first"]
    monkeypatch.setattr(state_module, "current_boot_id", lambda: boot[0])
    changed = a_request()
    changed.config.metadata.attempt = 1
    promised: list[cri.CreateContainerRequest] = []

    def life(state: StateDirectory) -> None:
        publish(state.journal, state.sandboxes / "s", cri.RunPodSandboxRequest(), FIRST)
        write_record_soon(state.sandboxes / "s" / RECORD, SECOND)
        make(state)
        promised.append(a_request())
        write_container_request(state.journal, state.containers / "a", changed)
        promised.append(changed)

    has_ended, steps = False, 0
    while not has_ended:
        root, boot[0] = tmp_path / str(steps), "first"
        promised.clear()
        state = StateDirectory(root)
        try:
            with crash_after(steps):
                life(state)
            has_ended = True
        except Crash:
            steps += 1
        state.release()
        disk.cut(root, loses_names=loses_names)
        if loses_directories:
            for directory in ("sandboxes", "containers"):
                shutil.rmtree(root / directory)
        boot[0] = "second"
        state = StateDirectory(root)
        if promised:
            assert read_record(state.sandboxes / "s" / RECORD, SandboxRecord) in (FIRST, SECOND), steps
            assert read_record(state.containers / "a" / RECORD, SandboxRecord) == FIRST, steps
            read = read_container_request(state.containers / "a")
            assert read in (promised[-1], changed), steps
        state.release()
    assert steps > 12


def test_what_is_removed_stays_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a kill at any step of the removal, and a later power cut."""
    boot = ["first"]
    monkeypatch.setattr(state_module, "current_boot_id", lambda: boot[0])
    has_ended, steps = False, 0
    while not has_ended:
        root, boot[0] = tmp_path / str(steps), "first"
        state = StateDirectory(root)
        make(state)
        state.release()
        boot[0] = "second"
        state = StateDirectory(root)
        try:
            with crash_after(steps):
                discard(state.journal, state.containers / "a")
            has_ended = True
        except Crash:
            steps += 1
        state.release()
        state = StateDirectory(root)
        for entry in entries(state.containers):
            discard(state.journal, entry)
        state.release()
        boot[0] = "third"
        state = StateDirectory(root)
        assert entries(state.containers) == [], steps
        state.release()
    assert steps > 1


def test_a_container_is_whole_or_absent_after_a_kill_at_any_step(tmp_path: Path) -> None:
    """While it is made, and while it is removed."""

    def life(state: StateDirectory) -> None:
        make(state)
        discard(state.journal, state.containers / "a")

    has_ended, steps = False, 0
    while not has_ended:
        root = tmp_path / str(steps)
        state = StateDirectory(root)
        try:
            with crash_after(steps):
                life(state)
            has_ended = True
        except Crash:
            steps += 1
        state.release()
        state = StateDirectory(root)
        for entry in entries(state.containers):
            assert read_record(entry / RECORD, SandboxRecord) == FIRST, steps
            assert read_container_request(entry) == a_request(), steps
            assert sorted(os.listdir(entry)) == sorted([RECORD, REQUEST, *SUBDIRECTORIES]), steps  # noqa: PTH208
        assert not [path for path in state.containers.iterdir() if path.name.startswith(".")], steps
        discard(state.journal, state.containers / "a")
        make(state)
        state.release()
    assert steps > 8


def test_a_failed_step_of_a_publication_leaves_no_container_and_no_descriptor(tmp_path: Path) -> None:
    """As the engine makes one: what it cannot publish it discards."""
    state = StateDirectory(tmp_path)

    def attempt(failing: Failing) -> Attempt:
        def operation() -> None:
            try:
                with failing.steps_of_files():
                    make(state)
            except OSError:
                discard(state.journal, state.containers / "a")
                raise

        return Attempt(
            operation,
            left=lambda: os.listdir(state.containers),  # noqa: PTH208
            undo=lambda: discard(state.journal, state.containers / "a"),
        )

    assert fail_at_each_call(attempt) > 8
    state.release()


def test_a_state_directory_that_cannot_be_made_is_not_locked(tmp_path: Path) -> None:
    made: list[StateDirectory] = []

    def attempt(failing: Failing) -> Attempt:
        def operation() -> None:
            with failing.steps_of_files():
                made.append(StateDirectory(tmp_path / "state"))

        return Attempt(operation, undo=lambda: made.pop().release())

    assert fail_at_each_call(attempt) > 5
