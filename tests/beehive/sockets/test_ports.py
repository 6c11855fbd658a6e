"""An address that cannot be listened on: the error names its user and what to change."""

import errno
import os
import socket
from pathlib import Path

import pytest

from beehive.files.advice import advice
from beehive.sockets import ports
from beehive.sockets.ports import ListenError, holder, listen_errors, listen_hint, listeners
from tests.support.ports import free_port


def test_the_holder_of_a_port_is_named() -> None:
    """Here it is this process; the setting that chooses another port is named, too."""
    port = free_port()
    with socket.create_server(("127.0.0.1", port)):
        assert holder(port).startswith(f"process {os.getpid()} (")
        words = rf"127.0.0.1:{port} .*process {os.getpid()} .*--listen chooses another"
        with pytest.raises(ListenError, match=words), listen_errors("127.0.0.1", port, "--listen"):
            socket.create_server(("127.0.0.1", port))
    assert holder(port) == ""


def test_a_connection_is_no_listener() -> None:
    """The far end of a connection to the port does not hold it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client:
            own = client.getsockname()[1]
            assert holder(own) == ""


@pytest.mark.parametrize(("family", "address"), [(socket.AF_INET, "127.0.0.9"), (socket.AF_INET6, "::1")])
@pytest.mark.parametrize(("protocol", "kind"), [("tcp", socket.SOCK_STREAM), ("udp", socket.SOCK_DGRAM)])
def test_listeners_have_their_addresses(family: int, address: str, protocol: str, kind: int) -> None:
    """Of both IP versions and protocols; a socket of UDP with one peer takes nothing of others."""
    with socket.socket(family, kind) as server, socket.socket(family, socket.SOCK_DGRAM) as other:
        server.bind((address, 0))
        port = server.getsockname()[1]
        if kind == socket.SOCK_STREAM:
            server.listen()
        other.connect((address, port))
        own = other.getsockname()[1]
        found = [each for each in listeners(protocol) if each.port in (port, own)]
        assert [(str(each.address), each.port) for each in found] == [(address, port)]


def test_without_proc_nobody_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest of the advice remains."""
    monkeypatch.setattr(ports, "_PROC", tmp_path)
    hint = listen_hint(OSError(errno.EADDRINUSE, "in use"), 1, "--listen")
    assert hint == "the port is taken by another process; stop that one, or --listen chooses another"


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.EADDRNOTAVAIL, "no interface of this machine has this address"),
        (errno.EACCES, "only root may listen on ports below 1024"),
        (errno.EAFNOSUPPORT, "not supported"),
    ],
)
def test_other_reasons(number: int, words: str) -> None:
    """Each reason names the setting that chooses another address."""
    hint = listen_hint(OSError(number, os.strerror(number)), 80, "--listen")
    assert words in hint
    assert hint.endswith("; --listen chooses another")


def test_advice_for_files() -> None:
    """Known errors say what to do; the others have the system's words."""
    assert advice(OSError(errno.ENOSPC, "x")).startswith("no space is left on the device: free some")
    assert advice(OSError(errno.EROFS, "x")).startswith("the file system is read-only")
    assert advice(OSError(errno.ELOOP, "too many links")) == "too many links"
    assert advice(OSError("plain")) == "plain"
