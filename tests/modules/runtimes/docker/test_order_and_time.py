"""The order of Docker's calls, and the time that is waited for it."""

import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self, cast

import pytest

from beehive.simulation import Simulation
from modules.runtimes.docker import client, commands, driver, images, processes, sandboxes, streams
from modules.runtimes.docker.client import Exchange, Pieces
from modules.runtimes.docker.creation import ContainerMaker, remove_container
from modules.runtimes.docker.errors import ConflictError
from modules.runtimes.docker.frames import FrameReader
from modules.runtimes.docker.images import DockerImages
from modules.runtimes.docker.processes import _LAST_SECONDS, execute
from modules.runtimes.docker.sandboxes import DockerSandboxes
from modules.runtimes.docker.streams import DockerStreams
from modules.runtimes.engine.errors import (
    BadRequestError,
    DeadlinePassedError,
    NoSuchObjectError,
    RequestRefusedError,
    RunFailedError,
    StateDirectoryError,
    WrongStateError,
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


def _driver(**fields: Any) -> Any:
    made = driver.DockerDriver.__new__(driver.DockerDriver)
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def test_a_container_that_docker_keeps_has_its_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes on; its output would be lost from then on. The log of one that is gone is closed."""
    closed = list[bool]()
    refused = RequestRefusedError("remove it", "Docker is busy")
    monkeypatch.setattr(driver, "remove_container", Failing(0, refused).call(lambda *_: None))
    made, container = (
        _driver(_docker=None),
        SimpleNamespace(id="c", log=SimpleNamespace(close=lambda: closed.append(True))),
    )
    with pytest.raises(RequestRefusedError):
        made.remove(container)
    assert closed == []
    made.remove(container)
    assert closed == [True]


@pytest.mark.parametrize("error", [ConflictError("stop it", "it does not run"), NoSuchObjectError("stop it", "none")])
def test_a_container_that_ends_by_itself_needs_no_signal(error: RequestRefusedError) -> None:
    _driver(_docker=SimpleNamespace(call=Failing(0, error).call(print))).signal(SimpleNamespace(id="c"), 15)


def test_only_a_running_container_holds_a_sandbox_and_its_end_is_that_of_the_sandbox() -> None:
    """Not one that is paused, restarting, dead, or was never started."""
    states = ("created", "running", "paused", "restarting", "removing", "exited", "dead")
    holders, ended = list[set[str]](), list[object]()
    of_driver: Any = SimpleNamespace(holders_are=holders.append, collect=lambda _: None, holder_ended=ended.append)
    registry = SimpleNamespace(sandboxes=list, find_sandbox=lambda name: name, find_container=lambda _: None)
    made = _driver(_sandboxes=of_driver, _registry=registry)
    made._listed = lambda: [SimpleNamespace(id=each, state=each) for each in states]
    made.collect()
    made.ended("s")
    assert (holders, ended) == ([{"running"}], ["s"])


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


def test_a_sandbox_that_cannot_be_removed_keeps_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever its error is; the network of all that are there stays."""
    removed, kept = list[str](), list[set[str]]()
    network: Any = SimpleNamespace(collect=kept.append, watch=lambda ready: kept.append(set(ready)))
    given: Any = (SimpleNamespace(), SimpleNamespace(), SimpleNamespace(docker=None), network)
    manager = DockerSandboxes(*given)

    def remove(sandbox: Any) -> None:
        removed.append(sandbox.id)
        if sandbox.id == "a":
            raise OSError("busy")

    monkeypatch.setattr(manager, "remove", remove)
    all_: Any = [
        SimpleNamespace(id=each, directory=None, record=SimpleNamespace(stopped=each != "c")) for each in "abc"
    ]
    manager.collect(all_)
    assert (removed, kept) == (["a", "b"], [{"a", "b", "c"}, {"c"}])


def test_ports_of_a_sandbox_that_was_stopped_are_not_the_machines() -> None:
    """Of a pod on the machine's network they would be."""
    registry: Any = SimpleNamespace(sandbox=lambda _: SimpleNamespace(id="s", record=SimpleNamespace(stopped=True)))
    streams = DockerStreams(cast("Any", None), registry, cast("Any", SimpleNamespace(network_namespace=lambda _: None)))
    with pytest.raises(WrongStateError):
        streams.port_forward("s", 1)


def test_a_process_that_has_taken_the_number_of_a_commands_is_not_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "_belongs", lambda *_: False)
    monkeypatch.setattr("signal.pidfd_send_signal", Failing(0).call(print))
    commands._kill(os.getpid(), "c")


@pytest.mark.parametrize("command", [[], ["a\0b"]])
def test_a_command_that_is_none_is_not_started(command: list[str]) -> None:
    docker: Any = SimpleNamespace(post=Failing(0).call(print))
    container: Any = SimpleNamespace(id="c", state=cri.CONTAINER_RUNNING)
    with pytest.raises(BadRequestError):
        commands.start_command(docker, container, command)


class _Held:
    """A sandbox, and what is told of it."""

    def __init__(self, pid: int) -> None:
        self.told, self.pid = list[object](), pid
        self.sandbox: Any = SimpleNamespace(id="s", directory=None, record=SimpleNamespace(stopped=False))
        self.sandbox.mark_stopped = lambda: setattr(self.sandbox.record, "stopped", True)
        docker = SimpleNamespace(
            get=lambda *_: SimpleNamespace(state=SimpleNamespace(pid=self.pid)), call=lambda *_: None
        )
        self.network = SimpleNamespace(detach=lambda *given: self.told.append(given[-1]))
        registry = SimpleNamespace(sandboxes=lambda: [self.sandbox])
        announcer = SimpleNamespace(sandbox=lambda *_: self.told.append("ended"))
        given: Any = (registry, announcer, SimpleNamespace(docker=docker), self.network)
        self.manager = DockerSandboxes(*given)


def test_a_sandbox_ends_once_and_only_if_docker_says_so_again() -> None:
    """The list may be older than its start."""
    held = _Held(pid=7)
    held.manager.holders_are(set())
    assert held.told == []
    held.pid = 0
    for _ in range(2):
        held.manager.holders_are(set())
        held.manager.holder_ended(held.sandbox)
    assert (held.told, held.sandbox.record.stopped) == (["ended"], True)


def test_a_sandbox_whose_holder_has_ended_has_no_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    """/proc/0 is nobody's."""
    held = _Held(pid=0)
    monkeypatch.setattr(sandboxes, "write_sandbox_files", lambda _: None)
    with pytest.raises(RunFailedError, match="has ended at once"):
        held.manager.start(held.sandbox)
    held.manager.remove(held.sandbox)
    assert held.told == [None]


@pytest.mark.parametrize("pid", [0, 7])
def test_a_command_that_does_not_start_says_why_and_leaves_no_connection(
    monkeypatch: pytest.MonkeyPatch, pid: int
) -> None:
    """Before it, the user is checked as at the start of the container: Docker looks it up again."""
    done = list[str]()
    monkeypatch.setattr(commands, "refuse_numbers_as_names", lambda _docker, name, *_: done.append(name))
    said = iter([b"no such program", b""])
    exchange = SimpleNamespace(
        early=b"",
        close=lambda: done.append("closed"),
        socket=SimpleNamespace(settimeout=abs, recv=lambda _: next(said)),
    )
    docker: Any = SimpleNamespace(
        clock=Simulation(0).clock,
        post=lambda *_: SimpleNamespace(id="e"),
        hijack=lambda *_, **__: exchange,
        get=lambda *_: SimpleNamespace(running=bool(pid), exit_code=None if pid else 127, pid=pid),
    )
    container: Any = SimpleNamespace(id="c", state=cri.CONTAINER_RUNNING, request=cri.CreateContainerRequest())
    container.request = SimpleNamespace(config=cri.ContainerConfig())
    if pid:
        assert commands.start_command(docker, container, ["x"]).pid == pid
    else:
        with pytest.raises(RunFailedError, match="no such program"):
            commands.start_command(docker, container, ["x"])
    assert done == (["c"] if pid else ["c", "closed"])


def test_a_command_that_writes_without_end_has_as_much_kept_as_there_is_room() -> None:
    output: Any = processes._Output.__new__(processes._Output)
    output._reader, output.kept = FrameReader(), {"stdout": bytearray(), "stderr": bytearray()}
    output._room = SimpleNamespace(grant=lambda _: 3)
    output._keep(b"\1\0\0\0\0\0\0\5hello\2\0\0\0\0\0\0\2no")
    assert output.kept == {"stdout": b"hel", "stderr": b"no"}


def test_a_busy_stream_lets_the_others_go_on() -> None:
    """After some reads."""
    exchange: Any = SimpleNamespace(read_body=lambda receive, _: receive())
    pieces = Pieces(exchange, cast("Any", SimpleNamespace(recv=lambda _: b"x")), 2)
    assert [pieces.next() for _ in range(4)] == [b"x", b"x", None, None]


def test_errors_of_docker_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """In what is read of them, and of a pull also in what is passed on."""
    limits = list[int]()

    def body(limit: int) -> bytes:
        limits.append(limit)
        return b'{"message": "no"}'

    exchange: Any = SimpleNamespace(ask=lambda *_: SimpleNamespace(status=500), body=body, close=lambda: None)
    monkeypatch.setattr(client, "Exchange", lambda *_: exchange)
    with pytest.raises(RunFailedError):
        client.DockerClient(Path("d.sock"), Simulation(0).clock).call("GET", "/x", "look")
    assert limits == [64 * 1024]


def test_a_pull_asks_for_the_digest_ends_with_its_call_and_fails_with_a_short_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A tag beside the digest may name another image by now."""
    asked, ends, cuts = list[dict[str, str]](), list[Callable[[], None]](), list[object]()
    exchange = SimpleNamespace(socket=SimpleNamespace(settimeout=abs), close=lambda: None)

    def stream(_method: str, _path: str, _attempt: str, query: dict[str, str], _headers: object) -> Any:
        asked.append(query)
        return exchange

    monkeypatch.setattr(images, "_followed", lambda *_: "no" * 9999)
    monkeypatch.setattr(images, "_cut", cuts.append)
    digest = "sha256:" + "a" * 64
    request = cri.PullImageRequest(image=cri.ImageSpec(image=f"example.org/app:1@{digest}"))
    with pytest.raises(RunFailedError) as failed:
        DockerImages(cast("Any", SimpleNamespace(stream=stream)), "/state", Simulation(0).clock).pull(
            request, ends.append
        )
    assert (asked[0]["tag"], len(failed.value.reason)) == (digest, 2000)
    ends[0]()
    assert cuts == [exchange]


@pytest.mark.parametrize(("stdin", "has_stdin", "asked"), [(True, True, "1"), (True, False, "0"), (False, True, "0")])
def test_only_a_running_container_is_attached_to_with_input_if_it_has_some(
    monkeypatch: pytest.MonkeyPatch, *, stdin: bool, has_stdin: bool, asked: str
) -> None:
    queries = list[dict[str, str]]()
    docker: Any = SimpleNamespace(hijack=lambda _path, _attempt, query: queries.append(query))
    container = SimpleNamespace(id="c", state=cri.CONTAINER_EXITED, config=cri.ContainerConfig(stdin=has_stdin))
    monkeypatch.setattr(streams, "_AttachedContainer", lambda *_, stdin: stdin)
    made: Any = DockerStreams(docker, cast("Any", SimpleNamespace(container=lambda _: container)), cast("Any", None))
    with pytest.raises(WrongStateError):
        made.attach("c", tty=False, stdin=stdin)
    container.state = cri.CONTAINER_RUNNING
    assert made.attach("c", tty=False, stdin=stdin) == (asked == "1")
    assert [each["stdin"] for each in queries] == [asked]
