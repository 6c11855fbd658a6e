"""A shim's decisions about its container's life, and what a command leaves in the shim."""

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from modules.runtimes.shim import kernel, launch
from modules.runtimes.shim import shim as shim_module
from modules.runtimes.shim.connections import Connection
from modules.runtimes.shim.protocol import EXIT_RECORD, ContainerSpec, Pid, ProcessSpec
from modules.runtimes.shim.shim import Shim
from tests.support.failing import Failing, census


@pytest.fixture
def shim(tmp_path: Path) -> Iterator[Shim]:
    """A shim whose container has not been started."""
    process = ProcessSpec(argv=["true"], env={}, cwd="/", user=None, no_new_privileges=False)
    spec = ContainerSpec(
        directory=str(tmp_path / "container"),
        log="",
        namespacing="",
        steps=[],
        process=process,
        terminal=False,
        stdin=False,
        stdin_once=False,
        oom_score_adj=None,
    )
    (tmp_path / "container").mkdir()
    with ExitStack() as closing:
        ours, control = socket.socketpair()
        listener = socket.socket(socket.AF_UNIX)
        made = Shim(spec, control, listener)
        for each in (ours, control, listener, made._clients.events):
            closing.callback(each.close)
        yield made


def test_a_failing_disk_is_no_reason_to_end_a_container(shim: Shim) -> None:
    """Only the removal of its directory is: nobody could end the container any more."""
    assert not shim._is_forgotten()
    shim._directory.rmdir()
    assert shim._is_forgotten()
    shim._directory.symlink_to(shim._directory)
    assert not shim._is_forgotten()


def test_the_end_is_recorded_before_it_is_told_and_without_processes_that_do_not_die(
    shim: Shim, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An edgecore that is killed in between would find no exit code; processes stuck in the kernel stay for ever."""
    told = list[bool]()
    monkeypatch.setattr(shim._connections, "broadcast", lambda _: told.append((shim._directory / EXIT_RECORD).exists()))
    monkeypatch.setattr(shim_module, "children_of_this_process", lambda: [Pid(1)])
    monkeypatch.setattr(os, "waitpid", lambda *_: (0, 0))
    monkeypatch.setattr(os, "kill", lambda *_: None)
    shim._finish(0)
    assert (told, shim._done) == ([True], True)


@pytest.mark.parametrize("operation", ["exec", "stream", "attach"])
def test_a_request_after_the_end_leaves_no_descriptor(shim: Shim, operation: str) -> None:
    """It is refused, and its client reads the end of its output."""
    answers, before = list[dict[str, Any]](), census()
    shim._exit_code = 0
    asker = cast("Connection", SimpleNamespace(send=answers.append))
    shim._handle(asker, {"id": 7, "op": operation, "terminal": False}, [os.open(os.devnull, os.O_RDONLY)])
    assert answers == [{"id": 7, "error": "the container has just ended"}]
    assert not census().more_than(before)


def test_a_refused_process_leaves_no_descriptor(monkeypatch: pytest.MonkeyPatch) -> None:
    """A probe is tried again and again on a machine without room for a process, and the shim lives on."""
    before = census()
    monkeypatch.setattr(os, "fork", Failing(0, OSError(errno.EAGAIN, "of this test")).call(print))
    spec = ProcessSpec(argv=["true"], env={}, cwd="/", user=None, no_new_privileges=False)
    with pytest.raises(launch.LaunchError, match="cannot start another process"):
        launch.launch(spec, launch.StandardStreams(1, 2), lambda: None)
    assert not census().more_than(before)


def test_a_process_whose_shim_has_died_before_their_bond_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel tells only of later deaths; nobody would write its log or take its exit code."""
    monkeypatch.setattr(kernel, "die_with_parent", lambda _: None)
    monkeypatch.setattr(os, "_exit", Failing(0, SystemExit()).call(print))
    launch._die_with(os.getppid())
    with pytest.raises(SystemExit):
        launch._die_with(os.getpid())
