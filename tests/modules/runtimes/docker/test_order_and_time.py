"""The order of Docker's calls, and the time that is waited for it."""

import os
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self, cast

import pytest

from beehive.simulation import Simulation
from modules.runtimes.docker import driver, processes, sandboxes
from modules.runtimes.docker.client import Exchange
from modules.runtimes.docker.creation import ContainerMaker, remove_container
from modules.runtimes.docker.errors import ConflictError
from modules.runtimes.docker.processes import _LAST_SECONDS, execute
from modules.runtimes.docker.sandboxes import DockerSandboxes
from modules.runtimes.engine.errors import (
    DeadlinePassedError,
    RequestRefusedError,
    RunFailedError,
    StateDirectoryError,
)
from protos.cri.v1 import api_pb2 as cri
from tests.support.failing import Failing, census


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
    """However long the command may take: a process that it has left may keep the streams open for ever. What came with
    the answer's head is output, too.
    """
    waits, kept = list[float | None](), list[bytes]()
    output: Any = processes._Output.__new__(processes._Output)
    output._exchange, output._clock, output._process = SimpleNamespace(early=b"1"), Simulation(0).clock, 5
    output._socket, output._keep = SimpleNamespace(fileno=lambda: 4), kept.append

    def poll(left: float | None) -> list[tuple[int, int]]:
        waits.append(left)
        return [] if len(waits) > 1 else [(5, 1)]

    doubled = SimpleNamespace(register=lambda *_: None, unregister=lambda _: None, poll=poll)
    monkeypatch.setattr(processes, "select", SimpleNamespace(poll=lambda: doubled, POLLIN=1))
    assert output.gather(None)
    assert (kept, waits[0]) == ([b"1"], None)
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


def test_a_container_whose_name_is_in_use_has_another_each_time() -> None:
    """What an earlier attempt has left may have the first one, and the next."""
    asked = list[str]()

    def post(_path: str, _kind: object, attempt: str, _body: object, query: dict[str, str]) -> object:
        asked.append(query["name"])
        if query["name"] == "a":
            raise ConflictError(attempt, "the name is in use")
        return SimpleNamespace(id="c")

    maker = ContainerMaker(cast("Any", SimpleNamespace(post=post)), cast("Any", None), Simulation(0).clock)
    assert [maker.create("a", {}, "create it") for _ in range(2)] == ["c", "c"]
    assert len(set(asked)) == 3


def test_a_removed_container_leaves_no_volume() -> None:
    """Its image may declare some, of which nobody knows the name."""
    queries = list[object]()
    remove_container(cast("Any", SimpleNamespace(call=lambda *arguments: queries.append(arguments[3]))), "c")
    assert queries == [{"force": "1", "v": "1"}]


def test_a_container_that_docker_keeps_has_its_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes on; its output would be lost from then on."""
    closed = list[bool]()
    refused = RequestRefusedError("remove it", "Docker is busy")
    monkeypatch.setattr(driver, "remove_container", Failing(0, refused).call(print))
    made: Any = driver.DockerDriver.__new__(driver.DockerDriver)
    made._docker = None
    with pytest.raises(RequestRefusedError):
        made.remove(SimpleNamespace(id="c", log=SimpleNamespace(close=lambda: closed.append(True))))
    assert closed == []


def test_edgecores_records_are_not_kept_where_docker_removes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(driver, "DockerClient", lambda *_: SimpleNamespace(negotiate=lambda: None))
    monkeypatch.setattr(driver, "_info_of", lambda _: SimpleNamespace(docker_root_dir=str(tmp_path)))
    with pytest.raises(StateDirectoryError, match="overlaps"):
        driver.DockerSettings(cast("Any", None)).lock(tmp_path / "state", Simulation(0).clock)


def test_a_file_with_two_names_takes_its_room_once(tmp_path: Path) -> None:
    """A pod would be evicted for bytes that it does not have."""
    container = SimpleNamespace(writable_layer=str(tmp_path))
    layers = driver.WritableLayers(cast("Any", SimpleNamespace(find_container=lambda _: container)))
    (tmp_path / "file").write_bytes(b"1" * 20_000)
    before = layers.usage(tmp_path).bytes
    (tmp_path / "link").hardlink_to(tmp_path / "file")
    assert layers.usage(tmp_path).bytes == before
