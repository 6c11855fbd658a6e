"""The relay of a gRPC probe's connection."""

import os
import resource
import socket
from collections.abc import Iterator

import pytest

from edged.probes.relay import relayed
from tests.support.failing import PlannedError, census
from tests.support.patience import PATIENCE

_HIGH = 1500
"""A descriptor that select(2) does not know."""


@pytest.fixture
def many_descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard <= _HIGH:
        pytest.skip(f"a process may have {hard} descriptors only")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2 * _HIGH) if hard < 0 else min(hard, 2 * _HIGH), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("many_descriptors")
@pytest.mark.parametrize("descriptor", [0, _HIGH])
def test_bytes_pass_both_ways_until_an_end_closes(descriptor: int) -> None:
    """Also in a process with very many descriptors."""
    pod, connection = socket.socketpair()
    if descriptor:
        high = os.dup2(connection.fileno(), descriptor, inheritable=False)
        connection.close()
        connection = socket.socket(fileno=high)
    with pod, relayed(connection) as address, socket.socket(socket.AF_UNIX) as client:
        for each in (pod, client):
            each.settimeout(PATIENCE)
        client.connect(address.removeprefix("unix:"))
        client.sendall(b"ask")
        assert pod.recv(100) == b"ask"
        pod.sendall(b"answer")
        assert client.recv(100) == b"answer"
        pod.close()
        assert client.recv(100) == b""


def test_a_client_that_never_connects_holds_nothing_up() -> None:
    pod, connection = socket.socketpair()
    with pod:
        with relayed(connection) as address:
            assert os.path.exists(address.removeprefix("unix:"))  # noqa: PTH110 - a text
        assert not os.path.exists(address.removeprefix("unix:"))  # noqa: PTH110
        pod.settimeout(PATIENCE)
        assert pod.recv(100) == b""


def test_a_probe_that_fails_leaves_neither_connection_nor_thread_nor_directory() -> None:
    """The thread would wait for the library's connection for ever."""
    before, (pod, connection) = census(), socket.socketpair()
    with pod, pytest.raises(PlannedError), relayed(connection) as address:
        raise PlannedError
    assert not census().more_than(before)
    assert not os.path.exists(os.path.dirname(address.removeprefix("unix:")))  # noqa: PTH110, PTH120 - a text
