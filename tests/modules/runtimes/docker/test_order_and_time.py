"""The order of Docker's calls, and the time that is waited for it."""

import os
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any, Self

import pytest

from beehive.simulation import Simulation
from modules.runtimes.docker import processes, sandboxes
from modules.runtimes.docker.client import Exchange
from modules.runtimes.docker.processes import _LAST_SECONDS, execute
from modules.runtimes.docker.sandboxes import DockerSandboxes
from modules.runtimes.engine.errors import DeadlinePassedError, RunFailedError
from protos.cri.v1 import api_pb2 as cri
from tests.support.failing import census


def test_each_read_of_an_answer_waits_until_the_deadline_of_all() -> None:
    """A Docker that sends a byte now and then would hold a call for ever."""
    waits = list[float]()
    exchange: Any = Exchange.__new__(Exchange)
    exchange._deadline, exchange._clock = 10.0, SimpleNamespace(monotonic=iter([3.0, 7.0, 10.0]).__next__)
    exchange.socket = SimpleNamespace(settimeout=waits.append, recv=lambda _: b"x")
    for _ in range(2):
        exchange._receive()
    with pytest.raises(TimeoutError):
        exchange._receive()
    assert waits == [7.0, 3.0]


def test_a_sandbox_leaves_its_network_before_its_namespace_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plug-ins would not find what they have to undo."""
    done = list[str]()
    network: Any = SimpleNamespace(detach=lambda _id, _directory, netns: done.append(f"detached from {netns}"))
    inspected = SimpleNamespace(state=SimpleNamespace(pid=7))
    docker = SimpleNamespace(get=lambda *_: inspected)
    monkeypatch.setattr(sandboxes, "remove_container", lambda _docker, name: done.append(f"removed {name}"))
    made: Any = SimpleNamespace(id="s", directory=None)
    maker: Any = SimpleNamespace(docker=docker)
    DockerSandboxes(SimpleNamespace(), SimpleNamespace(), maker, network).remove(made)  # type: ignore[arg-type]
    assert done == ["detached from /proc/7/ns/net", "removed s"]


class _Output:
    """The output of a command that does not end in time, or whose connection breaks."""

    def __init__(self, *, ends: bool) -> None:
        self._ends = ends
        self.is_broken = True

    def __call__(self, *_: object) -> Self:
        """Begin."""
        return self

    def gather(self, _deadline: float | None) -> bool:
        """Return whether it has ended."""
        return self._ends


@pytest.mark.parametrize(("ends", "error"), [(False, DeadlinePassedError), (True, RunFailedError)])
def test_a_command_that_nobody_waits_for_any_more_is_killed(
    monkeypatch: pytest.MonkeyPatch, *, ends: bool, error: type[Exception]
) -> None:
    """And its connection is closed."""
    done = list[str]()
    exchange = SimpleNamespace(close=lambda: done.append("closed"))
    command = SimpleNamespace(exchange=exchange, kill=lambda: done.append("killed"))
    monkeypatch.setattr(processes, "start_command", lambda *_: command)
    monkeypatch.setattr(processes, "_Output", _Output(ends=ends))
    docker: Any = SimpleNamespace(clock=Simulation(0).clock)
    container: Any = SimpleNamespace(id="c")
    with pytest.raises(error):
        execute(docker, container, cri.ExecSyncRequest(cmd=["true"], timeout=1), lambda _: True)
    assert done == ["killed", "closed"]


def test_after_a_commands_end_its_last_output_is_waited_for_a_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long the command may take: a process that it has left may keep the streams open for ever."""
    waits = list[float | None]()
    output: Any = processes._Output.__new__(processes._Output)
    output._exchange, output._clock, output._process = SimpleNamespace(early=b""), Simulation(0).clock, 5
    output._socket, output._keep = SimpleNamespace(fileno=lambda: 4), lambda _: None

    def poll(left: float | None) -> list[tuple[int, int]]:
        waits.append(left)
        return [] if len(waits) > 1 else [(5, 1)]

    doubled = SimpleNamespace(register=lambda *_: None, unregister=lambda _: None, poll=poll)
    monkeypatch.setattr(processes, "select", SimpleNamespace(poll=lambda: doubled, POLLIN=1))
    assert output.gather(None)
    assert waits[0] is None
    assert waits[1] == pytest.approx(_LAST_SECONDS * 1000)


@pytest.mark.parametrize("is_there", [True, False])
def test_the_room_for_a_commands_output_is_given_back(monkeypatch: pytest.MonkeyPatch, *, is_there: bool) -> None:
    """All commands of the process share it; also of one that has ended before it is looked at."""
    before, closed = census(), list[bool]()
    room = SimpleNamespace(close=lambda: closed.append(True))
    monkeypatch.setattr(processes, "CommandRoom", lambda: room)
    command: Any = SimpleNamespace(exchange=SimpleNamespace(socket=None), pid=os.getpid() if is_there else 2**22 + 1)
    with ExitStack() as stack:
        processes._Output(command, stack, Simulation(0).clock)
        assert closed == []
    assert closed == [True]
    assert not census().more_than(before)
