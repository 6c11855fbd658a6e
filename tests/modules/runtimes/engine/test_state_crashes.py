"""A kill or a power cut at each step of what the state directory writes."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
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
from tests.support.failing import Attempt, Failing, fail_at_each_call
from tests.support.power_cuts import Cut, Loss, Promise, after_each_cut

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


@pytest.fixture
def boot(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The machine's boot."""
    found = ["first"]
    monkeypatch.setattr(state_module, "current_boot_id", lambda: found[0])
    return found


@contextmanager
def used(root: Path) -> Iterator[StateDirectory]:
    """The state directory of an edgecore, until that ends or is killed."""
    state = StateDirectory(root)
    try:
        yield state
    finally:
        state.release()


def test_a_cut_at_any_step_loses_nothing_that_was_promised(tmp_path: Path, boot: list[str]) -> None:
    """A sandbox becomes durable with its first container. What was not promised is whole, or it is set aside."""
    changed = a_request()
    changed.config.metadata.attempt = 1

    def life(promise: Promise) -> None:
        with used(tmp_path) as state:
            publish(state.journal, state.sandboxes / "s", cri.RunPodSandboxRequest(), FIRST)
            write_record_soon(state.sandboxes / "s" / RECORD, SECOND)
            make(state)
            promise("made")
            write_container_request(state.journal, state.containers / "a", changed)
            promise("changed")

    def check(cut: Cut) -> None:
        boot[0] = "first" if cut.loss is Loss.NOTHING else "second"
        with used(tmp_path) as state:
            if cut.promised:
                assert read_record(state.sandboxes / "s" / RECORD, SandboxRecord) in (FIRST, SECOND)
                assert read_record(state.containers / "a" / RECORD, SandboxRecord) == FIRST
                read = read_container_request(state.containers / "a")
                assert read == changed or (read == a_request() and "changed" not in cut.promised)

    assert after_each_cut(tmp_path, life, check) > 12


@pytest.mark.parametrize("is_damaged", [False, True])
def test_what_is_removed_stays_removed(tmp_path: Path, boot: list[str], *, is_damaged: bool) -> None:
    """After a kill at any step of the removal, and a later power cut; so does what is set aside."""
    with used(tmp_path) as state:
        make(state)

    def life(promise: Promise) -> None:
        boot[0] = "second"
        with used(tmp_path) as state:
            if is_damaged:
                state.set_aside(state.containers / "a", "of this test")
            else:
                discard(state.journal, state.containers / "a")
            promise("removed")

    def check(cut: Cut) -> None:
        for boot[0] in ("second", "third"):
            with used(tmp_path) as state:
                assert (boot[0] == "second" and not cut.promised) or entries(state.containers) == []
                for entry in entries(state.containers):
                    discard(state.journal, entry)

    assert after_each_cut(tmp_path, life, check, losses=(Loss.NOTHING,)) > 1


def test_a_container_is_whole_or_absent_after_a_kill_at_any_step(tmp_path: Path) -> None:
    """While it is made, and while it is removed."""

    def life(_promise: Promise) -> None:
        with used(tmp_path) as state:
            make(state)
            discard(state.journal, state.containers / "a")

    def check(_cut: Cut) -> None:
        with used(tmp_path) as state:
            for entry in entries(state.containers):
                assert read_record(entry / RECORD, SandboxRecord) == FIRST
                assert read_container_request(entry) == a_request()
                assert sorted(os.listdir(entry)) == sorted([RECORD, REQUEST, *SUBDIRECTORIES])  # noqa: PTH208
            assert not [path for path in state.containers.iterdir() if path.name.startswith(".")]
            discard(state.journal, state.containers / "a")
            make(state)

    assert after_each_cut(tmp_path, life, check, losses=(Loss.NOTHING,)) > 8


def test_a_failed_step_of_a_publication_leaves_no_container_and_no_descriptor(tmp_path: Path) -> None:
    """As the engine makes one: what it cannot publish it discards."""
    state = StateDirectory(tmp_path)

    def attempt(failing: Failing) -> Attempt:
        def operation() -> None:
            try:
                with failing.steps_of_files():
                    make(state)
            except BaseException:
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
