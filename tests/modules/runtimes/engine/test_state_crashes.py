"""A kill or a power cut at each step of what the state directory writes."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

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
    write_record,
)
from protos.cri.v1 import api_pb2 as cri
from tests.support.careful_disk import careful_disk
from tests.support.crash import Crash, crash_after
from tests.support.failing import Attempt, Failing, fail_at_each_call

FIRST, SECOND = (SandboxRecord(created_at=number, ip="127.0.0.1", boot_id=BootId("b")) for number in (1, 2))
SUBDIRECTORIES = ("work", "root")


def a_request() -> cri.CreateContainerRequest:
    """The request of a container."""
    config = cri.ContainerConfig(metadata=cri.ContainerMetadata(name="c"))
    return cri.CreateContainerRequest(pod_sandbox_id="s", config=config)


def make(directory: Path) -> None:
    """Publish a container."""
    publish(directory, a_request(), FIRST, SUBDIRECTORIES)


WRITERS: dict[str, Callable[[Path], None]] = {
    "record": lambda directory: write_record(directory / RECORD, SECOND),
    "request": lambda directory: write_container_request(directory, a_request()),
}


def test_a_container_is_on_the_disk_before_it_has_its_name(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path)
    with careful_disk():
        make(state.containers / "a")
    state.release()


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_a_changed_file_is_on_the_disk_before_it_has_its_name(tmp_path: Path, write: Callable[[Path], None]) -> None:
    make(tmp_path / "a")
    with careful_disk():
        write(tmp_path / "a")


def test_a_container_is_whole_or_absent_after_a_kill_at_any_step(tmp_path: Path) -> None:
    """While it is made, and while it is removed."""

    def life(directory: Path) -> None:
        make(directory)
        discard(directory)

    has_ended, steps = False, 0
    while not has_ended:
        root = tmp_path / str(steps)
        StateDirectory(root).release()
        try:
            with crash_after(steps):
                life(root / "containers" / "a")
            has_ended = True
        except Crash:
            steps += 1
        state = StateDirectory(root)
        for entry in entries(state.containers):
            assert read_record(entry / RECORD, SandboxRecord) == FIRST, steps
            assert read_container_request(entry) == a_request(), steps
            assert sorted(os.listdir(entry)) == sorted([RECORD, REQUEST, *SUBDIRECTORIES]), steps  # noqa: PTH208
        assert not [path for path in state.containers.iterdir() if path.name.startswith(".")], steps
        discard(state.containers / "a")
        make(state.containers / "a")
        state.release()
    assert steps > 8


def test_a_failed_step_of_a_publication_leaves_no_container_and_no_descriptor(tmp_path: Path) -> None:
    """As the engine makes one: what it cannot publish it discards."""
    state = StateDirectory(tmp_path)

    def attempt(failing: Failing) -> Attempt:
        def operation() -> None:
            try:
                with failing.steps_of_files():
                    make(state.containers / "a")
            except OSError:
                discard(state.containers / "a")
                raise

        return Attempt(
            operation,
            left=lambda: os.listdir(state.containers),  # noqa: PTH208
            undo=lambda: discard(state.containers / "a"),
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
