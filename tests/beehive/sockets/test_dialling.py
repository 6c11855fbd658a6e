"""Connections to a host of several addresses, as one with IPv6 that leads nowhere."""

import socket
from collections.abc import Callable

import pytest

from beehive import RealClock
from beehive.sockets.dialling import attempts, connect
from tests.support.clocks import StandingClock
from tests.support.patience import PATIENCE
from tests.support.ports import free_port, full_backlog


def resolve(monkeypatch: pytest.MonkeyPatch, *ports: int) -> None:
    """Let each name have an address for each of the ports, in this order."""
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port)) for port in ports]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)


def test_each_address_has_its_share_of_the_time_that_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    resolve(monkeypatch, 1, 2, 3)
    clock = StandingClock()
    turns = attempts("cloud", 443, clock, 6.0)
    assert next(turns).seconds == pytest.approx(2.0)
    clock.go(0.5)
    assert next(turns).seconds == pytest.approx(2.75), "the first one refused early"
    clock.go(10.0)
    assert next(turns).seconds <= 0


def test_the_look_up_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = StandingClock()

    def slow(*_: object, **__: object) -> list[object]:
        clock.go(4.0)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 1))]

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    assert next(attempts("cloud", 443, clock, 6.0)).seconds == pytest.approx(2.0)


@pytest.mark.parametrize("host", ["cloud.example", "192.0.2.1", "fe80::1%lo"])
def test_a_host_in_ascii_needs_no_codec_of_international_names(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    asked: list[str | bytes] = []
    monkeypatch.setattr(socket, "getaddrinfo", recording(asked))
    assert list(attempts(host, 443, StandingClock(), 6.0)) == []
    assert list(attempts(f"ö{host}", 443, StandingClock(), 6.0)) == []
    assert asked == [host.encode(), f"ö{host}"]


def recording(asked: list[str | bytes]) -> Callable[..., list[object]]:
    """Return a resolver that notes the hosts and finds no address."""

    def resolver(host: str | bytes, *_: object, **__: object) -> list[object]:
        asked.append(host)
        return []

    return resolver


def test_after_one_that_refuses_and_one_that_is_silent_the_next_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    with full_backlog() as silent, socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        resolve(monkeypatch, free_port(), silent, *[port] * 18)
        with connect("cloud", 443, RealClock(), 2.0) as connection:
            assert connection.getpeername()[1] == port
            assert connection.gettimeout() == 2.0, "the share was for the connection only"


def test_the_failure_of_the_last_address_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    resolve(monkeypatch, free_port(), free_port())
    with pytest.raises(ConnectionRefusedError):
        connect("cloud", 443, RealClock(), PATIENCE)


def test_a_family_that_the_machine_does_not_have_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        found = [
            (family, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port)) for family in (socket.AF_APPLETALK, socket.AF_INET)
        ]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        with connect("cloud", 443, RealClock(), PATIENCE) as connection:
            assert connection.family == socket.AF_INET


def test_without_time_nothing_is_dialled(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        resolve(monkeypatch, server.getsockname()[1])
        with pytest.raises(TimeoutError, match="no answer in time"):
            connect("cloud", 443, StandingClock(), 0.0)
