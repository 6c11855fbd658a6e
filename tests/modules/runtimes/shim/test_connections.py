"""A shim's connections to edgecores, and the commands that each of them has asked for."""

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any, cast

import pytest

from modules.runtimes.shim import shim
from modules.runtimes.shim.connections import Connection, Connections, Poller, close_all
from modules.runtimes.shim.protocol import Pid, receive, send, to_memory_file
from modules.runtimes.shim.shim import Commands
from tests.support.failing import Failing, PlannedError, census


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both ends of a connection."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        yield ours, theirs


def test_a_connection_outlives_an_event_without_a_message(ends: tuple[socket.socket, socket.socket]) -> None:
    """Its descriptor may have been another connection's when the event came."""
    poller, asked = Poller(), list[dict[str, Any]]()
    Connection(ends[0], poller, lambda _connection, message, _descriptors: asked.append(message), lambda _: None)
    poller._callbacks[ends[0].fileno()]()
    send(ends[1], {"id": 1, "op": "signal"})
    poller.wait(60)
    assert asked == [{"id": 1, "op": "signal"}]


@pytest.mark.parametrize("way", ["gone", "silent", "garbage"])
def test_a_connection_that_is_of_no_use_is_closed_and_the_others_stay(way: str) -> None:
    """Its other end has closed, or takes no messages, or sends none that can be read."""
    poller, closed = Poller(), list[Connection]()
    with socket.socket(socket.AF_UNIX) as listener:
        connections = Connections(listener, poller, lambda *_: None, closed.append)
        (ours, theirs), (good, reader) = (socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(2))
        useless = connections.add(ours)
        connections.add(good)
        if way == "gone":
            theirs.close()
            poller.wait(60)
        elif way == "garbage":
            theirs.send(b"{")
            poller.wait(60)
        else:
            theirs.shutdown(socket.SHUT_RD)
            useless.send({"event": "running"})
        assert closed == [useless]
        useless.send({"event": "exited"})
        connections.broadcast({"event": "exited"})
        assert receive(reader) == ({"event": "exited"}, [])
        for each in (theirs, good, reader):
            each.close()


def test_all_connections_are_told_although_some_take_no_messages() -> None:
    """These are closed meanwhile."""
    poller, closed = Poller(), list[Connection]()
    with socket.socket(socket.AF_UNIX) as listener, ExitStack() as opened:
        connections = Connections(listener, poller, lambda *_: None, closed.append)
        readers = []
        for number in range(12):
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            connections.add(opened.enter_context(ours))
            opened.enter_context(theirs)
            if number % 2:
                theirs.shutdown(socket.SHUT_RD)
            else:
                readers.append(theirs)
        connections.broadcast({"event": "exited"})
        assert [receive(each) for each in readers] == [({"event": "exited"}, [])] * 6
        assert len(closed) == len(connections._open) == 6


class Asker:
    """An edgecore's connection, with what it was told."""

    def __init__(self) -> None:
        self.told: list[dict[str, Any]] = []

    def send(self, message: dict[str, Any]) -> None:
        """Note a message."""
        self.told.append(message)

    @property
    def connection(self) -> Connection:
        """As the shim knows it."""
        return cast("Connection", self)


def _descriptors() -> list[int]:
    streams = [os.open(os.devnull, os.O_WRONLY) for _ in range(2)]
    return [to_memory_file("arguments", ["true"]), *streams]


def test_commands_are_their_edgecores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two edgecores may number their requests alike: one that is gone, and the next one."""
    killed, numbers = list[int](), count(100)
    monkeypatch.setattr(shim, "launch", lambda *_: Pid(next(numbers)))
    monkeypatch.setattr(shim, "_kill_group", killed.append)
    commands, first, second = Commands("", cast("Any", {"argv": []}), None), Asker(), Asker()
    for asker, request in ((first, 1), (first, 2), (second, 1)):
        commands.start(asker.connection, request, Pid(1), _descriptors())
    commands.kill(second.connection, 1)
    commands.kill_all_of(first.connection)
    assert killed == [102, 100, 101]
    commands.reaped(Pid(102), 137)
    commands.reaped(Pid(102), 0)
    commands.reaped(Pid(7), 0)
    assert (first.told, second.told) == ([], [{"id": 1, "exit_code": 137}])


def test_a_command_whose_descriptors_were_lost_is_not_executed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its requester learns it, and the shim keeps none of them."""
    monkeypatch.setattr(shim, "launch", lambda *_: pytest.fail("it is executed"))
    commands, asker, left = Commands("", cast("Any", {"argv": []}), None), Asker(), _descriptors()[1:]
    commands.start(asker.connection, 5, Pid(1), left)
    assert [(each["id"], "no more files" in each["error"]) for each in asker.told] == [(5, True)]
    for each in left:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(each)


def test_a_later_edgecore_hears_first_that_the_container_runs_and_leaves_nothing(tmp_path: Path) -> None:
    """Nothing is looked at for a connection that is closed: its descriptor may be another's."""
    poller, heard = Poller(), list[dict[str, Any]]()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(tmp_path / "control"))
        listener.listen()
        connections = Connections(listener, poller, lambda *_: None, lambda _: None)
        connections.announce({"event": "running"})
        for _ in range(2):
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as later:
                later.connect(str(tmp_path / "control"))
                poller.wait(60)
                heard.append((receive(later) or ({}, []))[0])
            poller.wait(60)
            assert list(poller._callbacks) == [listener.fileno()]
    assert heard == [{"event": "running"}] * 2


def test_what_was_forgotten_meanwhile_is_not_called(ends: tuple[socket.socket, socket.socket]) -> None:
    """By what was called for another event of the same look."""
    poller, called = Poller(), list[int]()
    descriptors = [each.fileno() for each in ends]

    def forget_the_other(descriptor: int) -> None:
        called.append(descriptor)
        poller.remove(sum(descriptors) - descriptor)

    for descriptor, each in zip(descriptors, ends, strict=True):
        poller.add(descriptor, lambda descriptor=descriptor: forget_the_other(descriptor))  # type: ignore[misc]
        each.send(b"x")
    poller.wait(60)
    assert len(called) == 1


def test_no_command_inherits_what_came_with_a_message(ends: tuple[socket.socket, socket.socket]) -> None:
    with Path(os.devnull).open("rb") as file:
        send(ends[0], {}, [file.fileno()] * 2)
    message, descriptors = receive(ends[1], 2) or ({"": ""}, [])
    assert (message, [os.get_inheritable(each) for each in descriptors]) == ({}, [False, False])
    close_all(descriptors)


def test_arguments_that_find_no_room_leave_no_descriptor(monkeypatch: pytest.MonkeyPatch) -> None:
    before = census()
    monkeypatch.setattr(os, "fdopen", Failing(0).call(print))
    with pytest.raises(PlannedError):
        to_memory_file("arguments", ["true"])
    assert not census().more_than(before)
