"""The sockets of the local servers."""

from pathlib import Path

import pytest

from beehive.http.listening import listen_tcp, listen_unix
from beehive.sockets.ports import ListenError
from beehive.sockets.unix_sockets import connect_unix
from tests.support.failing import Attempt, Failing, fail_at_each_call


def test_a_socket_is_its_owners_alone_and_takes_the_place_of_a_dead_one(tmp_path: Path) -> None:
    path = tmp_path / ("long" * 30) / "server.sock"
    path.parent.mkdir()
    listen_unix(path).close()
    with listen_unix(path), connect_unix(path):
        assert path.stat().st_mode & 0o777 == 0o600
    assert list(path.parent.iterdir()) == [path]


def test_a_socket_that_cannot_be_made_names_the_setting(tmp_path: Path) -> None:
    with pytest.raises(ListenError, match=r"No such file or directory; see --socket"):
        listen_unix(tmp_path / "missing" / "server.sock", "--socket")


def test_a_port_that_cannot_be_listened_on_leaves_no_socket() -> None:
    def make(failing: Failing) -> Attempt:
        def listen() -> None:
            with failing.kernel_calls():
                listen_tcp("127.0.0.1", 0).close()

        return Attempt(listen)

    assert fail_at_each_call(make) > 2
