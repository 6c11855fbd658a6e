"""When mosquitto's memory gets full, and how a session tells the broker of its end."""

import os
import select
import signal
import socket
import threading
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from beehive import Clock, RealClock
from beehive.wakeup import Wakeup
from modules.edge.eventbus import mosquitto_files, mosquitto_process
from modules.edge.eventbus.internal_broker import DATA, InternalBroker
from modules.edge.eventbus.mosquitto_files import END_SECONDS, STORED, Owner
from modules.edge.eventbus.mosquitto_process import MosquittoProcess
from modules.edge.eventbus.packets import body_of
from modules.edge.eventbus.self_message import send_to_itself
from modules.edge.eventbus.session import BrokerSettings, MqttSession, SessionEvents
from tests.support.patience import PATIENCE


def _broker(directory: Path) -> InternalBroker:
    return InternalBroker(directory=directory, program=Path("m"), host="127.0.0.1", port=1, client_id="secret")


def test_a_shortened_store_is_mosquittos_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a crash in between mosquitto could not read it, and all that waits for clients would be set aside."""
    stored, given = tmp_path / DATA / STORED, list[tuple[str, bytes]]()
    stored.parent.mkdir()
    stored.write_bytes(b"long")
    monkeypatch.setattr(mosquitto_files, "_SMALL", 0)
    monkeypatch.setattr(mosquitto_files, "read_held", lambda _: SimpleNamespace(to_end=lambda *_: []))
    monkeypatch.setattr(mosquitto_files, "without", lambda data, _: data[:1])
    monkeypatch.setattr(os, "chown", lambda path, *_, **__: given.append((path.name, stored.read_bytes())))
    mosquitto_files.shorten_messages(_broker(tmp_path), Owner(1, 1))
    assert (given, stored.read_bytes()) == ([(f".{STORED}.new", b"long")], b"l")


def test_sessions_are_stored_when_the_broker_has_grown_and_looked_at_once_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or when it takes no message. A store takes it seconds, and what was stored is not looked at twice."""
    process, changes, ended = MosquittoProcess(_broker(tmp_path), RealClock()), [1], list[bytes]()
    monkeypatch.setattr(mosquitto_process, "_changed", lambda _: changes[-1])
    monkeypatch.setattr(mosquitto_process, "read_file", lambda *_: b"")
    monkeypatch.setattr(mosquitto_process, "read_held", lambda _: SimpleNamespace(to_end=lambda *_: [b"large"]))
    monkeypatch.setattr(mosquitto_process, "end_session", lambda _path, _clock, client, *_: ended.append(client))

    def store(number: int) -> None:
        assert number == signal.SIGUSR1
        changes.append(changes[-1] + 1)

    running: Any = SimpleNamespace(send_signal=store)
    process._relieve(running, 50, is_urgent=False)
    assert (len(changes), ended) == (1, []), "it has not passed on a message yet"
    process.is_up = True
    seen = []
    for memory, is_urgent in ((50, False), (50, False), (60, False), (40, True), (60, False), (61, False)):
        stores, looks = len(changes), len(ended)
        process._relieve(running, memory, is_urgent=is_urgent)
        seen.append((len(changes) - stores, len(ended) - looks))
    assert seen == [(1, 1), (0, 0), (1, 1), (1, 1), (0, 0), (1, 1)]
    process._wakeup.close()


def test_a_broker_that_is_stopped_stores_no_sessions_before_its_end(tmp_path: Path) -> None:
    """edgecore would wait for it as long as for a store."""
    seconds = iter(range(99))
    clock = cast("Clock", SimpleNamespace(monotonic=lambda: next(seconds)))
    process = MosquittoProcess(_broker(tmp_path), clock)
    process.stop()
    process._wait(lambda: False)
    assert next(seconds) == 2
    process._wakeup.close()


def test_a_line_that_is_always_there_is_not_why_the_broker_has_ended(tmp_path: Path) -> None:
    process, (read, write) = MosquittoProcess(_broker(tmp_path), RealClock()), os.pipe()
    with os.fdopen(read, "rb") as stream, os.fdopen(write, "wb") as output:
        output.write(b"Error: Address already in use\nWarning: Unable to set TCP_NODELAY.\n")
        output.flush()
        assert process._read(stream)
        output.close()
        assert not process._read(stream)
    assert list(process._last) == ["Error: Address already in use"]
    process._wakeup.close()


def test_a_broker_that_was_left_is_told_to_end_before_it_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """And has its time to store what it holds."""
    steps = list[object]()
    poll = SimpleNamespace(register=lambda *_: None, poll=steps.append)
    monkeypatch.setattr(mosquitto_files, "select", SimpleNamespace(poll=lambda: poll, POLLIN=select.POLLIN))
    monkeypatch.setattr(signal, "pidfd_send_signal", lambda _process, number: steps.append(number))
    mosquitto_files._end(-1)
    assert steps == [signal.SIGTERM, END_SECONDS * 1000, signal.SIGKILL, END_SECONDS * 1000]


def test_what_is_passed_on_for_a_check_is_kept_nowhere(tmp_path: Path) -> None:
    """Of a retained message mosquitto would store each; and each step waits for the answer to the one before."""
    path, heard, steps = tmp_path / "broker", list[bytes](), list[int]()
    answers = {0x10: "20020000", 0x82: "9003000101", 0x32: "40020002"}
    with socket.socket(socket.AF_UNIX) as listening, closing(Wakeup()) as wakeup, closing(RealClock()) as clock:
        listening.bind(str(path))
        listening.listen()
        thread = threading.Thread(target=send_to_itself, args=(path, clock, PATIENCE, wakeup, 8))
        thread.start()
        broker, _ = listening.accept()
        with broker:
            broker.settimeout(PATIENCE)
            while part := broker.recv(4096):
                heard.append(part)
                steps.append(part[0])
                if answer := answers.get(part[0]):
                    broker.sendall(bytes.fromhex(answer) + part * (steps.count(0x32) > 1))
        thread.join()
    assert steps == [0x10, 0x32, 0x82, 0x32, 0xE0]
    assert [body_of(bytearray(each), 0) for each in heard] == [(2, len(each)) for each in heard], "one at a time"


@pytest.mark.parametrize(("checks", "fails"), [(["", "late", "", "late", ""], False), (["", "late", "late", ""], True)])
def test_only_failures_in_a_row_end_the_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checks: list[str], fails: bool
) -> None:
    """A machine that is busy now and then must not cost all devices their connections."""
    process, begun, left = MosquittoProcess(_broker(tmp_path), RealClock()), list[bool](), [*checks]
    monkeypatch.setattr(mosquitto_process, "CHECK_SECONDS", 0.0)
    monkeypatch.setattr(mosquitto_process, "_memory", lambda _: 0)
    monkeypatch.setattr(process, "_answers", lambda: True)

    def check(_size: int) -> str:
        why = left.pop(0)
        process._stopping = not left
        return why

    monkeypatch.setattr(process, "_check", check)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        running: Any = SimpleNamespace(stderr=ours, pid=0)
        process._follow(running, lambda: begun.append(True))
    assert (begun, bool(process._problem), bool(left)) == ([True], fails, fails)
    process._wakeup.close()


def test_a_session_that_is_closed_takes_leave_of_the_broker(tmp_path: Path) -> None:
    """A connection that ends without that is one that broke (MQTT 3.1.1, §3.14)."""
    path = tmp_path / "broker"
    session, heard = MqttSession(BrokerSettings(str(path), 0, "n1"), ("a/b",), RealClock()), b""
    events = cast("SessionEvents", SimpleNamespace(connected=session.close))
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        thread = threading.Thread(target=session.run, args=(events,))
        thread.start()
        broker, _ = listening.accept()
    with broker:
        broker.settimeout(PATIENCE)
        assert broker.recv(4096)[:1] == b"\x10"
        broker.sendall(b"\x20\x02\x00\x00")
        subscription = broker.recv(4096)
        broker.sendall(b"\x90\x03" + subscription[2:4] + b"\x01")
        while part := broker.recv(4096):
            heard += part
    thread.join()
    assert heard == b"\xe0\x00"
