"""What is left of the engine's work that fails half-way."""

import os
from contextlib import ExitStack
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from beehive.clock import RealClock
from beehive.simulation import Simulation
from modules.runtimes.engine import command_output, events
from modules.runtimes.engine.command_output import OWN_BYTES, CommandOutput
from modules.runtimes.engine.engine import Engine, purge
from modules.runtimes.engine.events import STREAM_LIMIT, Announcer, EventHub
from modules.runtimes.engine.model import Sandbox
from protos.cri.v1 import api_pb2 as cri
from tests.modules.runtimes.engine.test_engine import Machine, MemoryDriver, MemorySettings
from tests.support.failing import Attempt, Failing, PlannedError, census, fail_at_each_call


def test_a_purge_that_fails_lets_go_of_the_state_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It can be tried again, and an edgecore can be started."""
    clock, settings = Simulation(0).clock, MemorySettings(Machine(Random(0)))  # noqa: S311
    before, failing = census(), Failing(0)
    monkeypatch.setattr(MemoryDriver, "purge", failing.call(MemoryDriver.purge))
    with pytest.raises(PlannedError):
        purge(tmp_path / "state", clock, settings)
    failing.forget()
    assert not census().more_than(before)
    Engine(tmp_path / "state", clock, settings).close()
    purge(tmp_path / "state", clock, settings)
    assert not (tmp_path / "state").exists()


def test_a_reader_that_leaves_between_two_events_leaves_its_place() -> None:
    """As when its client has gone, and the answer is closed."""
    hub = EventHub()
    for _ in range(STREAM_LIMIT + 1):
        stream = hub.subscribe()
        hub.publish(cri.ContainerEventResponse(container_id="c1"))
        told = iter(stream)
        assert next(told).container_id == "c1"
        told.close()  # type: ignore[attr-defined]
    assert not hub.has_readers


def test_events_have_the_statuses_of_containers_where_a_reader_takes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """edged does not: it reads the pods that events name."""
    monkeypatch.setattr(events, "container_status", lambda each: cri.ContainerStatus(id=each))
    registry: Any = SimpleNamespace(find_sandbox=lambda _: None, containers=lambda _: ["c1"])
    hub, sandbox = EventHub(), cast("Sandbox", SimpleNamespace(id="s1"))
    announcer = Announcer(registry, hub, Simulation(0).clock)
    told = iter(hub.subscribe(takes_containers=False))
    for wanted in ([], ["c1"]):
        announcer.sandbox(cri.CONTAINER_CREATED_EVENT, sandbox)
        assert [each.id for each in next(told).containers_statuses] == wanted
        hub.subscribe()


def test_a_command_leaves_no_descriptor_and_no_room() -> None:
    """The room for output is shared by all commands of the process."""

    def make(failing: Failing) -> Attempt:
        def run() -> None:
            with failing.kernel_calls(), ExitStack() as kept_open:
                with ExitStack() as handed_on:
                    output = CommandOutput(kept_open, handed_on, RealClock())
                    for end in output.write_ends:
                        os.write(end, b"x" * OWN_BYTES)
                output.wake()
                output.gather(None)
                assert len(output.stdout) + len(output.stderr) == 2 * OWN_BYTES

        return Attempt(run, left=lambda: command_output._SHARED._left)

    assert fail_at_each_call(make) >= 8
    left = command_output._SHARED._left
    make(Failing(None)).operation()
    assert command_output._SHARED._left == left
