"""What a broker and its session have left when a call fails half-way."""

import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from beehive import Message, RealClock
from beehive.testing import FakeContext, Harness
from modules.edge.eventbus import mosquitto_files, mosquitto_process
from modules.edge.eventbus.counters import EventBusCounters
from modules.edge.eventbus.internal_broker import InternalBroker
from modules.edge.eventbus.module import EventBus, EventBusSettings
from modules.edge.eventbus.mosquitto_process import MosquittoProcess
from modules.edge.eventbus.session import BrokerSettings, MqttSession, SessionEvents
from tests.support.failing import Failing, PlannedError, census, fail_at_each_kernel_call


def test_the_descriptor_of_a_process_that_was_left_is_closed_after_any_failure(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        (tmp_path / mosquitto_files.PID).write_text(f"{other.pid}\n")

        assert fail_at_each_kernel_call(lambda: mosquitto_files.end_left_over(tmp_path)) >= 4
        before, failing = census(), Failing(0, RuntimeError("of this test"))
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(mosquitto_files, "mark", failing.call(mosquitto_files.mark))
            with pytest.raises(RuntimeError, match="of this test"):
                mosquitto_files.end_left_over(tmp_path)
        failing.forget()
        assert not census().more_than(before)


def _broker(directory: Path) -> InternalBroker:
    return InternalBroker(directory=directory, program=Path("mosquitto"), host="127.0.0.1", port=1, client_id="secret")


@pytest.mark.parametrize("error", [PlannedError(), RuntimeError("of this test")])
@pytest.mark.parametrize("step", ["_start", "_follow"])
def test_a_run_of_the_broker_that_fails_ends_the_process_and_closes_what_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, error: Exception
) -> None:
    """`cat` stands for mosquitto: it never ends by itself."""
    before, started = census(), list[subprocess.Popen[bytes]]()
    process = MosquittoProcess(_broker(tmp_path), RealClock())

    def start() -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen(["cat"], stdin=subprocess.PIPE, stderr=subprocess.PIPE))
        return started[0]

    monkeypatch.setattr(process, "_start", start)
    failing = Failing(0, error)
    monkeypatch.setattr(process, step, failing.call(getattr(process, step)))
    if isinstance(error, OSError):
        assert "Input/output error" in process.run(lambda: None)
    else:
        with pytest.raises(RuntimeError, match="of this test"):
            process.run(lambda: None)
    failing.forget()
    for each in started:
        assert each.returncode == -signal.SIGTERM
        assert each.stdin is not None
        each.stdin.close()
    assert len(started) == (step == "_follow")
    assert not census().more_than(before)
    process.stop()


@pytest.mark.parametrize("step", ["_prepare", "_loop"])
def test_a_session_that_fails_closes_its_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    """Also after an error that is nobody's: the module fails with it, and its next instance connects again."""
    with socket.socket(socket.AF_UNIX) as broker:
        broker.bind(str(tmp_path / "broker"))
        broker.listen()
        before, failing = census(), Failing(0, RuntimeError("of this test"))
        session = MqttSession(BrokerSettings(str(tmp_path / "broker"), 0, "n1"), (), RealClock())
        monkeypatch.setattr(session, step, failing.call(getattr(session, step)))
        with pytest.raises(RuntimeError, match="of this test"):
            session.run(cast("SessionEvents", SimpleNamespace()))
        failing.forget()
        assert not census().more_than(before)
        session.close()


def test_a_broker_that_ends_is_started_ever_later_and_without_its_messages_only_as_often_as_it_must(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After a long run soon again; and two starts more have to fail before its messages are set aside once more."""
    context, runs, aside = FakeContext(), list[Any](), list[int]()
    clock = SimpleNamespace(
        monotonic=context.clock.monotonic, random=SimpleNamespace(uniform=lambda _least, most: most)
    )
    module = SimpleNamespace(
        clock=clock, after=context.after, start_actor=lambda *_: SimpleNamespace(tell=runs.append)
    )  # fmt: skip
    process = SimpleNamespace(may_be_stored=True, is_up=False)
    monkeypatch.setattr(mosquitto_process, "MosquittoProcess", lambda *_: process)
    monkeypatch.setattr(mosquitto_files, "set_aside_messages", lambda _: aside.append(len(runs)))
    given: Any = (module, _broker(Path("none")), EventBusCounters(), None)
    supervisor = mosquitto_process.BrokerSupervisor(*given)
    supervisor.start()
    waits = []
    for lasted in (0.0, 0.0, 0.0, mosquitto_process.STEADY, 0.0):
        context.simulation.run_for(lasted)
        ended = context.clock.monotonic()
        supervisor.ended(runs[-1], "of this test")
        number = len(runs)
        while len(runs) == number:
            context.simulation.run_for(0.5)
        waits.append(context.clock.monotonic() - ended)
    assert waits == [1.0, 2.0, 4.0, 1.0, 2.0]
    assert aside == [2, 4]
    number = len(runs)
    supervisor.ended(runs[0], "told late")
    context.simulation.run_for(600.0)
    assert len(runs) == number
    for process.is_up in (True, False):
        supervisor.ended(runs[-1], "of this test")
        context.simulation.run_for(600.0)
    assert aside == [2, 4], "a broker that came up has read them"


def test_subscriptions_that_cannot_be_read_are_read_again_a_little_later() -> None:
    """And not without a pause."""
    asked: list[float] = []
    with Harness() as bee:

        def answer(request: Message) -> Message:
            asked.append(bee.clock.monotonic())
            return request.error(bee.clock, "the disk has gone", source="metamanager")

        bee.answer("metamanager", answer)
        bee.start(EventBus, EventBusSettings("n1", None))
        bee.run_for(11.0)
    assert [round(at - asked[0]) for at in asked] == [0, 5, 10]
