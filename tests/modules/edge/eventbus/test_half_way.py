"""What a broker and its session have left when a call fails half-way."""

import os
import pwd
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import pytest

from beehive import Message, RealClock
from beehive.files.descriptors import OwnedFd
from beehive.testing import FakeContext, Harness
from modules.edge.eventbus import mosquitto_files, mosquitto_process
from modules.edge.eventbus.counters import EventBusCounters
from modules.edge.eventbus.internal_broker import InternalBroker
from modules.edge.eventbus.module import EventBus, EventBusSettings
from modules.edge.eventbus.mosquitto_process import MosquittoProcess
from modules.edge.eventbus.mosquitto_sessions import UnreadableError
from modules.edge.eventbus.session import BrokerSettings, MqttSession, SessionEvents
from tests.support.clocks import StandingClock
from tests.support.failing import Failing, PlannedError, census, fail_at_each_kernel_call
from tests.support.patience import PATIENCE


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
    process, ended = MosquittoProcess(_broker(tmp_path), RealClock()), list[Path]()
    monkeypatch.setattr(mosquitto_files, "end_left_over", ended.append)

    def start() -> subprocess.Popen[bytes]:
        assert ended == [tmp_path], "two of them would write the same files"
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


def test_a_secret_name_that_was_not_written_is_made_again(tmp_path: Path) -> None:
    (tmp_path / "client-id").touch()
    assert mosquitto_files.client_id(tmp_path) == mosquitto_files.client_id(tmp_path) != ""


def test_a_broker_that_does_not_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mosquitto_files, "END_SECONDS", 0.1)
    script = "trap '' TERM; echo ready; while :; do sleep 0.1; done"
    with subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        with OwnedFd(os.pidfd_open(process.pid)) as descriptor:
            mosquitto_files._end(descriptor)
        assert process.wait(PATIENCE) == -signal.SIGKILL


@pytest.mark.parametrize(
    ("script", "may_be"),
    [("kill -9 $$", True), ("echo 'Out of memory' >&2; exit 1", True), ("exit 1", False), ("exit 0", False)],
)
def test_a_broker_that_dies_at_the_start_may_do_so_because_of_its_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, may_be: bool
) -> None:
    process = MosquittoProcess(_broker(tmp_path), RealClock())
    monkeypatch.setattr(
        process,
        "_start",
        lambda: subprocess.Popen(["sh", "-c", script], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE),
    )
    process.run(lambda: None)
    assert process.may_be_stored is may_be


def test_a_broker_that_complains_without_end_has_some_lines_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    process = MosquittoProcess(_broker(Path("none")), StandingClock())
    read, write = os.pipe()
    with os.fdopen(read, "rb") as stream, os.fdopen(write, "wb") as end:
        end.write(b"no\n" * 1000)
        end.flush()
        assert process._read(stream)
    assert len(caplog.records) == 20
    process._wakeup.close()


def test_stored_messages_that_cannot_be_read_do_not_keep_a_broker_from_starting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(mosquitto_files, "shorten_messages", Mock(side_effect=UnreadableError("of this test")))
    monkeypatch.setattr("modules.edge.eventbus.mosquitto_process.subprocess.Popen", Mock())
    process = MosquittoProcess(_broker(tmp_path), RealClock())
    process._start()
    assert "left as they are: of this test" in caplog.text
    process._wakeup.close()


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
    process.stop, number = lambda: None, len(runs)
    supervisor.stop()
    supervisor.ended(runs[-1], "stopped by this node")
    context.simulation.run_for(600.0)
    assert len(runs) == number


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


@pytest.mark.parametrize(
    ("made", "end", "told"),
    [
        (lambda: MqttSession(BrokerSettings("127.0.0.1", 1, "n1"), (), RealClock()), "close", "_closing"),
        (lambda: MosquittoProcess(_broker(Path("none")), RealClock()), "stop", "_stopping"),
    ],
)
def test_a_thread_that_is_woken_to_end_knows_it(
    made: Callable[[], Any], end: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise it sleeps on: it looks as soon as it is woken."""
    one, seen = made(), list[bool]()
    one._wakeup.close()
    monkeypatch.setattr(one, "_wakeup", SimpleNamespace(wake=lambda: seen.append(getattr(one, told))))
    getattr(one, end)()
    assert seen == [True]


def test_a_broker_that_works_is_not_looked_at_with_each_line_that_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock stands still: it is not time for the next look."""
    process, look = MosquittoProcess(_broker(Path("none")), StandingClock()), Mock(return_value="")
    monkeypatch.setattr(process, "_answers", lambda: True)
    monkeypatch.setattr(process, "_check", look)
    read, write = os.pipe()
    os.write(write, b"a line\n")
    os.close(write)
    with os.fdopen(read, "rb") as stream:
        process._follow(cast("Any", SimpleNamespace(stderr=stream, pid=os.getpid())), lambda: None)
    assert look.call_count == 1
    process._wakeup.close()


@pytest.mark.parametrize(
    ("is_root", "users", "uid"),
    [(False, ("mosquitto",), None), (True, ("mosquitto", "nobody"), 1), (True, ("nobody",), 2), (True, (), 65534)],
)
def test_the_user_of_the_broker(
    users: tuple[str, ...], uid: int | None, monkeypatch: pytest.MonkeyPatch, *, is_root: bool
) -> None:
    known = {"mosquitto": 1, "nobody": 2}

    def of_name(name: str) -> SimpleNamespace:
        if name not in users:
            raise KeyError(name)
        return SimpleNamespace(pw_uid=known[name], pw_gid=known[name])

    monkeypatch.setattr(mosquitto_files, "is_machine_root", lambda: is_root)
    monkeypatch.setattr(pwd, "getpwnam", of_name)
    wanted = (os.geteuid(), os.getegid()) if uid is None else (uid, uid)
    assert mosquitto_files.owner() == wanted


@pytest.mark.parametrize(("is_up", "most"), [(True, 2), (False, 5)])
def test_a_broker_that_reads_its_store_has_time_before_it_is_ended(
    monkeypatch: pytest.MonkeyPatch, *, is_up: bool, most: int
) -> None:
    """Of two failed checks, a start with many messages has both."""
    clock, checks = StandingClock(), list[int]()
    process = MosquittoProcess(_broker(Path("none")), clock)
    process.is_up = is_up

    def check(size: int) -> str:
        checks.append(size)
        clock.go(10.0)
        return "no answer"

    monkeypatch.setattr(process, "_check", check)
    monkeypatch.setattr(process, "_answers", lambda: True)
    read, write = os.pipe()
    with os.fdopen(read, "rb") as stream, os.fdopen(write, "wb"):
        process._follow(cast("Any", SimpleNamespace(stderr=stream, pid=0)), lambda: None)
    assert (len(checks), process._problem) == (most, "it passes no message on: no answer")
    process._wakeup.close()
