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

import pytest

from beehive.simulation import Simulation
from modules.runtimes.docker import commands, images, log_stream, streams
from modules.runtimes.docker.images import DockerImages
from modules.runtimes.docker.log_stream import catch_up
from protos.cri.v1 import api_pb2 as cri
from tests.modules.runtimes.docker.test_docker_answers import Connection, _watch
from tests.support.failing import Attempt, Failing, census, fail_at_each_call

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
    DockerImages(docker, "/state", Simulation(0).clock).pull(request, lambda _: None)


def _reads_a_log(monkeypatch: pytest.MonkeyPatch, docker: Any) -> None:
    log = SimpleNamespace(resume=lambda: (None, ""), write=Failing(0, _UNEXPECTED).call(lambda *_: None))
    catch_up(docker, "c1", cast("Any", log))


def _compares(_: pytest.MonkeyPatch, docker: Any) -> None:
    watch = _watch(docker.stream, Failing(0, _UNEXPECTED).call(lambda: None), [])
    try:
        watch._follow()
    finally:
        assert watch._exchange is None, "stop would use it"


@pytest.mark.parametrize("operation", [_pulls, _reads_a_log, _compares])
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
    assert opened.stdout is not None
    assert opened.stderr is not None
    assert os.read(opened.stdout, 1) == os.read(opened.stderr, 1) == b""
    opened.close()
    assert not census().more_than(before)
