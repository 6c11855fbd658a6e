"""A runtime's server that cannot be started."""

import threading
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import ANY, Mock

import grpc
import pytest

from beehive.simulation import Simulation
from modules.runtimes.cri_server import local_calls, runtime_server, server
from modules.runtimes.cri_server.call_threads import CallThreads, TooManyCallsError
from modules.runtimes.cri_server.runtime_server import CriServer
from modules.runtimes.engine.engine import Engine
from modules.runtimes.engine.errors import BadRequestError
from tests.modules.runtimes.engine.test_engine import Machine, MemorySettings
from tests.support.failing import Failing, PlannedError, census


@pytest.mark.parametrize("step", ["CriMethods", "listen_for_cri"])
def test_a_server_that_cannot_be_started_lets_go_of_its_state_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """edgecore tries again, in this process or in the next."""
    clock, settings = Simulation(0).clock, MemorySettings(Machine(Random(0)))  # noqa: S311
    server = CriServer(tmp_path / "state", tmp_path / "cri.sock", clock, settings)
    before = census()
    monkeypatch.setattr(runtime_server, "CriMethods", lambda _engine: None)
    monkeypatch.setattr(runtime_server, step, Failing(0).call(lambda _: None))
    with pytest.raises(PlannedError):
        server.start()
    assert not census().more_than(before)
    Engine(tmp_path / "state", clock, settings).close()


def _listing(method: Callable[[Any], Any]) -> Any:
    return server._listing("RuntimeService", {"ListContainers": method})["StreamContainers"]


@pytest.mark.parametrize("behaviour", [server._answering, server._watching_client, server._streaming, _listing])
def test_a_refusal_has_its_status_whatever_the_form_of_the_call(behaviour: Callable[[Any], Any]) -> None:
    context, refusing = Mock(), Failing(0, BadRequestError("run a pod", "it has no name"))
    answer = behaviour(refusing.call(print))(None, context)
    assert [*(answer or ())] == []
    context.abort.assert_called_once_with(grpc.StatusCode.INVALID_ARGUMENT, ANY)


def test_a_call_that_gets_no_thread_takes_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading.Thread, "start", Failing(0, RuntimeError("can't start new thread")).call(print))
    threads: Any = CallThreads()
    with pytest.raises(TooManyCallsError):
        threads._begin(Mock())
    assert not threads._running


def test_the_end_of_a_call_is_told_also_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise what it has begun would go on."""
    end = Mock()
    monkeypatch.setattr(local_calls, "_End", lambda: end)
    monkeypatch.setattr(local_calls, "_slow_call", lambda *_: Failing(0).call(print))
    with pytest.raises(PlannedError):
        local_calls._ending_call(Mock(), Mock())(None)
    assert end.come.called
