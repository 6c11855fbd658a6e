"""What is left of calls of Docker that fail half-way."""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import MagicMock, Mock

import pytest

from beehive.http.errors import HttpError
from beehive.simulation import Simulation
from modules.runtimes.docker import client, commands, driver, images, log_stream, processes, streams, watch
from modules.runtimes.docker.answers import Progress, ProgressDetail
from modules.runtimes.docker.images import DockerImages, ReportedLayers
from modules.runtimes.docker.log_stream import LogFollower, catch_up
from modules.runtimes.docker.model import DockerContainer
from modules.runtimes.docker.processes import DockerProcesses
from modules.runtimes.docker.watch import DockerWatch
from modules.runtimes.engine.errors import NoSuchObjectError, RequestRefusedError
from modules.runtimes.engine.records import ContainerId, ContainerRecord
from protos.cri.v1 import api_pb2 as cri
from tests.modules.runtimes.docker.test_docker_answers import Connection, _watch
from tests.support.failing import Attempt, Failing, PlannedError, census, fail_at_each_call

_UNEXPECTED = RuntimeError("of this test")
"""An error that no call announces."""


class _Exchange(Connection):
    """A connection with a socket."""

    def __init__(self, *pieces: bytes) -> None:
        super().__init__(*pieces)
        self.early = b""
        self.socket, self.other = socket.socketpair()

    def close(self) -> None:
        """Close it."""
        super().close()
        self.socket.close()
        self.other.close()


def _pulls(monkeypatch: pytest.MonkeyPatch, docker: Any) -> None:
    monkeypatch.setattr(images, "_followed", Failing(0, _UNEXPECTED).call(images._followed))
    request = cri.PullImageRequest(image=cri.ImageSpec(image="example.org/app:1"))
    pulling = DockerImages(docker, "/state", Simulation(0).clock)
    try:
        pulling.pull(request, lambda _: None)
    finally:
        assert not pulling.pulls.all(), "it would be shown as under way"


def _reads_a_log(monkeypatch: pytest.MonkeyPatch, docker: Any) -> None:
    log = SimpleNamespace(resume=lambda: (None, ""), write=Failing(0, _UNEXPECTED).call(lambda *_: None))
    catch_up(docker, "c1", cast("Any", log))


def _compares(_: pytest.MonkeyPatch, docker: Any) -> None:
    watch = _watch(docker.stream, Failing(0, _UNEXPECTED).call(lambda: None), [])
    try:
        watch._follow()
    finally:
        assert watch._exchange is None, "stop would use it"


def _asks(monkeypatch: pytest.MonkeyPatch, docker: Any) -> None:
    exchange = docker.stream()
    exchange.ask = Failing(0, _UNEXPECTED).call(print)
    monkeypatch.setattr(client, "Exchange", lambda *_: exchange)
    asked = SimpleNamespace(_address="", clock=Simulation(0).clock)
    client.DockerClient._open(cast("Any", asked), "ask", "GET", "/version")


@pytest.mark.parametrize("operation", [_pulls, _reads_a_log, _compares, _asks])
def test_a_connection_is_closed_after_any_error(
    monkeypatch: pytest.MonkeyPatch, operation: Callable[[pytest.MonkeyPatch, Any], None]
) -> None:
    exchange = _Exchange(b"piece")
    with pytest.raises(RuntimeError, match="of this test"):
        operation(monkeypatch, SimpleNamespace(stream=lambda *_: exchange))
    assert exchange.is_closed


@pytest.mark.parametrize("error", [None, _UNEXPECTED])
def test_files_and_processes_are_closed_after_a_failure_of_any_call(tmp_path: Path, error: Exception | None) -> None:
    (tmp_path / "0.log").write_bytes(b"2027-01-01T00:00:00.000000000Z stdout F text\n")
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:

        def make(failing: Failing) -> Attempt:
            def run() -> None:
                with failing.kernel_calls():
                    log_stream._times(tmp_path / "0.log")
                    commands._kill(other.pid, "no container")

            return Attempt(run)

        assert fail_at_each_call(make, error) >= 3


def test_a_command_leaves_neither_a_descriptor_nor_less_room_for_the_output_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A probe may run one each second."""
    rooms = list[object]()

    def room() -> SimpleNamespace:
        made = SimpleNamespace()
        made.close = lambda: rooms.remove(made)
        rooms.append(made)
        return made

    def make(failing: Failing) -> Attempt:
        command = SimpleNamespace(exchange=_Exchange(), pid=os.getpid(), exit_code=lambda: 0)
        command.exchange.other.close()
        docker, container = SimpleNamespace(clock=Simulation(0).clock), SimpleNamespace(id="c")
        monkeypatch.setattr(processes, "CommandRoom", room)
        monkeypatch.setattr(processes, "start_command", lambda *_: command)
        given: Any = (docker, container, cri.ExecSyncRequest(), lambda _: True)
        run = failing.in_kernel(lambda: processes.execute(*given))
        return Attempt(run, left=lambda: list(rooms), is_repeatable=False)

    assert fail_at_each_call(make) >= 3


def test_streams_that_cannot_be_opened_leave_neither_pipes_nor_a_thread() -> None:
    made: list[_Exchange] = []

    def make(failing: Failing) -> Attempt:
        opened: list[streams._HijackedStreams] = []

        def run() -> None:
            made.append(_Exchange())
            with failing.kernel_calls():
                opened.append(streams._HijackedStreams(cast("Any", made[-1]), tty=False, stdin=False))

        return Attempt(run, undo=lambda: opened.pop().close())

    assert fail_at_each_call(make) == 3
    assert all(each.is_closed for each in made)


def test_a_reader_sees_the_end_of_streams_whose_thread_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the session would wait for ever for an output that nobody copies."""
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    monkeypatch.setattr(streams._HijackedStreams, "_put", Failing(0, _UNEXPECTED).call(lambda *_: None))
    before = census()
    opened = streams._HijackedStreams(cast("Any", _Exchange()), tty=False, stdin=False)
    copying, seen = opened._thread, list[bool]()
    copying.join()
    for each in (opened.stdout, opened.stderr):
        assert each is not None
        os.set_blocking(each, False)
        assert os.read(each, 1) == b""
    join = Mock(
        side_effect=lambda: seen.extend(
            [cast("_Exchange", opened._exchange).is_closed, Path(f"/proc/self/fd/{opened.stdout}").exists()]
        )
    )
    opened._thread = cast("Any", SimpleNamespace(join=join))
    opened.close()
    assert seen == [False, False], "it may still use the connection, or wait for room in a pipe"
    assert not census().more_than(before)


@pytest.mark.parametrize("error", [PlannedError(), _UNEXPECTED])
def test_a_container_whose_user_cannot_be_checked_is_removed_from_docker(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """The reason is that of the failure, also when Docker does not remove it now."""
    removed: list[str] = []

    def call(method: str, path: str, attempt: str, *_: object) -> None:
        removed.append(f"{method} {path}")
        raise RequestRefusedError(attempt, "of this test")

    for name in ("check", "container_body", "container_name", "sandbox_files", "stop_signal"):
        monkeypatch.setattr(driver, name, lambda *_: "")
    monkeypatch.setattr(driver, "refuse_numbers_as_names", Failing(0, error).call(lambda *_: None))
    docker: Any = object.__new__(driver.DockerDriver)
    image = SimpleNamespace(id="sha256:1", repo_digests=(), config=None)
    docker._images = SimpleNamespace(find=lambda *_: image)
    docker._here, docker._clock = None, Simulation(1).clock
    docker._maker = SimpleNamespace(create=lambda *_: "c1")
    docker._docker = SimpleNamespace(call=call)
    with pytest.raises(type(error)):
        docker.create(cri.CreateContainerRequest(), SimpleNamespace(directory=Path()))
    assert removed == ["DELETE /containers/c1"]


class _Watcher:
    """The thread that reads logs; it takes no more than one if it is full."""

    def __init__(self, failing: Failing) -> None:
        self._failing = failing
        self.links: list[LogFollower] = []

    def add(self, link: LogFollower) -> None:
        """Read a log from now on."""
        try:
            self._failing.step()
        except BaseException:
            link.close()
            raise
        self.links.append(link)


@pytest.mark.parametrize("error", [None, _UNEXPECTED])
def test_a_log_that_cannot_be_followed_is_followed_at_the_next_look(tmp_path: Path, error: Exception | None) -> None:
    """And its connection is closed."""

    def make(failing: Failing) -> Attempt:
        watcher, made = _Watcher(failing), list[_Log]()
        request = cri.CreateContainerRequest()
        request.config.log_path = "0.log"
        request.sandbox_config.log_directory = str(tmp_path)
        container = DockerContainer(ContainerId("c"), tmp_path, request, ContainerRecord(1))

        def stream(*_: object) -> _Log:
            made.append(_Log(failing))
            return made[-1]

        container.log.resume()  # it is open as long as the container runs
        docker = SimpleNamespace(stream=stream)
        followed = DockerProcesses(cast("Any", docker), cast("Any", watcher), Simulation(1).clock, cast("Any", None))

        def run() -> None:
            try:
                followed._follow(container)
            finally:
                for each in made:
                    each.other.close()
            assert container.follower is watcher.links[-1]

        def undo() -> None:
            watcher.links[-1].gone()
            assert container.follower is None, "its end is known"
            container.log.close()

        return Attempt(run, undo=undo, left=lambda: container.follower)

    assert fail_at_each_call(make, error) == 2


def test_a_log_that_has_ended_at_once_is_closed_and_not_followed(tmp_path: Path) -> None:
    request = cri.CreateContainerRequest()
    request.config.log_path = "0.log"
    request.sandbox_config.log_directory = str(tmp_path)
    container = DockerContainer(ContainerId("c"), tmp_path, request, ContainerRecord(1))
    opened = _Log(Failing(None), has_ended=True)
    docker = SimpleNamespace(stream=lambda *_: opened)
    followed = DockerProcesses(cast("Any", docker), cast("Any", None), Simulation(1).clock, cast("Any", None))
    followed._follow(container)
    assert opened.is_closed
    assert container.follower is None
    container.log.close()


class _Log(_Exchange):
    """The stream of a log, of which nothing has come; or it has ended."""

    def __init__(self, failing: Failing, *, has_ended: bool = False) -> None:
        super().__init__()
        self._next = b"" if has_ended else None
        self._failing = failing

    def available(self, _reads: int) -> Any:
        """Return the pieces that have come."""
        self._failing.step()
        return SimpleNamespace(next=lambda: self._next)


def test_docker_is_tried_ever_later_until_it_has_been_reached() -> None:
    """And then soon again."""
    reached: list[bool | Exception] = [False, RuntimeError("of one event"), False, True, False, False]
    watch, pauses = _watch(lambda: cast("Any", None), lambda: None, []), list[float]()

    class Stopping:
        """The end of the watch, after all attempts."""

        def is_set(self) -> bool:
            return not reached

        def wait(self, seconds: float) -> None:
            pauses.append(seconds)

    watch._stopping = cast("Any", Stopping())

    def follow() -> bool:
        if isinstance(found := reached.pop(0), Exception):
            raise found
        return found

    watch._follow = follow  # type: ignore[method-assign]
    watch._run()
    assert watch._tried.is_set(), "a start waits for the first attempt only"
    assert pauses == [0.1, 0.2, 0.4, 0.1, 0.2, 0.4]


def test_an_event_without_an_end_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "_LONGEST_LINE", 100)
    given: Any = SimpleNamespace()
    pieces = iter([b"x" * 60, b"x" * 60, b""])
    with pytest.raises(HttpError, match="too long"):
        DockerWatch(given, given, given)._read(cast("Any", SimpleNamespace(piece=pieces.__next__)))


def test_docker_is_looked_for_every_few_seconds_however_long_it_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    given, waits = SimpleNamespace(), list[float]()
    made = DockerWatch(cast("Any", given), cast("Any", given), cast("Any", given))
    monkeypatch.setattr(made, "_follow", lambda: False)
    stopping: Any = SimpleNamespace(is_set=lambda: len(waits) > 20, wait=waits.append)
    made._stopping = stopping
    made._run()
    assert (waits[0], max(waits)) == (0.1, 5.0)


def test_a_pull_without_progress_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its connection, and its place, are not kept for ever."""
    exchange, times = _Exchange(), list[float | None]()

    def followed(given: _Exchange, _: object) -> str:
        times.append(given.socket.gettimeout())
        return "refused"

    monkeypatch.setattr(images, "_followed", followed)
    request = cri.PullImageRequest(image=cri.ImageSpec(image="example.org/app:1"))
    docker: Any = SimpleNamespace(stream=lambda *_: exchange)
    with pytest.raises(RequestRefusedError, match="refused"):
        DockerImages(docker, "/state", Simulation(0).clock).pull(request, lambda _: None)
    assert times == [images._SILENCE_SECONDS]


def test_a_log_with_gaps_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    log = log_stream.ContainerLog("c1", "", tty=False)
    log._file = Mock(**{"write.side_effect": OSError("full")})
    for _ in range(3):
        log._write("stdout", b"2026-01-01T00:00:00Z", b"x\n")
    assert len(caplog.records) == 1


def test_layers_that_are_reported_are_bounded() -> None:
    told = list[Any]()
    layers = ReportedLayers(told.append)
    for number in range(2000):
        layers.update(Progress(status="Downloading", id=str(number), detail=ProgressDetail(1, 2)))
    assert len(told) == images._MOST_LAYERS
    layers.update(Progress(status="Download complete", id="0"))
    assert len(told) == images._MOST_LAYERS + 1


def test_what_is_kept_for_root_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    docker: Any = SimpleNamespace(get=lambda *_: SimpleNamespace(docker_root_dir="/"))
    disk = SimpleNamespace(f_blocks=100, f_bfree=60, f_bavail=50, f_frsize=4, f_files=9, f_ffree=5)
    monkeypatch.setattr(os, "statvfs", lambda _: disk)
    found = DockerImages(docker, "/state", Simulation(0).clock).file_system(cri.ImageFsInfoRequest())
    assert [(each.used_bytes.value, each.inodes_used.value) for each in found.image_filesystems] == [(160, 4)]


@pytest.mark.parametrize(
    ("fails", "closed"),
    [
        ("DockerImages", ["network"]),
        ("StreamingServer", ["watch", "network"]),
        ("UsageMeter", ["streams", "watch", "network"]),
        ("", ["streams", "watch", "network"]),
    ],
)
def test_a_driver_closes_what_it_has_opened(monkeypatch: pytest.MonkeyPatch, fails: str, closed: list[str]) -> None:
    """In the end, or at once if it cannot be made."""
    done = list[str]()
    made = {
        "DockerWatch": Mock(stop=lambda: done.append("watch")),
        "StreamingServer": Mock(stop=lambda: done.append("streams")),
    }
    parts = ("Client", "Images", "Processes", "Sandboxes", "Streams", "Watch")
    for name in (*(f"Docker{part}" for part in parts), "ContainerMaker", "StreamingServer", "UsageMeter"):
        monkeypatch.setattr(driver, name, Mock(return_value=made.get(name, Mock())))
    for name in ("_info_of", "Machine", "Here"):
        monkeypatch.setattr(driver, name, Mock())
    settings: Any = SimpleNamespace(network=SimpleNamespace(close=lambda: done.append("network")), socket="", logs=None)
    if fails:
        monkeypatch.setattr(driver, fails, Failing(0).call(print))
        with pytest.raises(PlannedError):
            driver.DockerDriver(Mock(), settings)
    else:
        driver.DockerDriver(Mock(), settings).close()
    assert done == closed


def test_the_connection_of_a_log_is_closed_before_its_end_is_told() -> None:
    """Its end may be followed by the next connection, or by an error."""
    exchange = _Exchange()
    follower = LogFollower(cast("Any", exchange), 1, cast("Any", None), Failing(0).call(print))
    with pytest.raises(PlannedError):
        follower.gone()
    assert exchange.is_closed


def test_an_object_that_docker_no_longer_has_is_empty() -> None:
    """It is asked for the details of a status, whose object was there a moment ago."""
    docker = SimpleNamespace(get=Mock(side_effect=NoSuchObjectError("look", "there is no such image")))
    assert driver.DockerDriver._asked(cast("Any", SimpleNamespace(_docker=docker)), "/images/a/json") == {}


def test_a_process_that_has_just_ended_is_in_no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others of it are found."""
    ended, lives = os.getppid(), os.getpid()

    def session_of(pid: int) -> int:
        if pid == ended:
            raise ProcessLookupError
        return 7 if pid == lives else 1

    monkeypatch.setattr(os, "getsid", session_of)
    assert commands._session(7) == [lives]
    assert commands._session(8) == []


def test_a_line_of_progress_that_is_none_is_left_out() -> None:
    """Such as one of a later version of Docker."""
    pieces = iter([b'no JSON\n{"id":"a"}\n{"id":', b'5}\n\xff\n{"id":"b"}\n', b""])
    found = images._progress(cast("Any", SimpleNamespace(piece=lambda: next(pieces))))
    assert [each.id for each in found] == ["a", "b"]


def test_the_end_of_a_log_is_written_before_it_is_closed_and_before_the_end_is_noted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done = list[str]()
    container: Any = MagicMock(exit=None, log=SimpleNamespace(close=lambda: done.append("close")))
    container.finished.side_effect = lambda _: done.append("end")
    monkeypatch.setattr(processes, "catch_up", lambda *_: done.append("catch up"))
    DockerProcesses(Mock(), Mock(), Simulation(0).clock, Mock())._end(container, Mock())
    assert done == ["catch up", "close", "end"]
