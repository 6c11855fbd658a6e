"""Unix sockets by their path: any length, a mode and a group, and no descriptor that is left."""

import os
import socket
import stat
from pathlib import Path

import pytest

from beehive.sockets.unix_sockets import bind_unix, connect_unix


def _descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_a_path_longer_than_a_name_is_bound_and_connected(tmp_path: Path) -> None:
    path = tmp_path / ("long" * 30) / "x.sock"
    path.parent.mkdir()
    with bind_unix(path, 0o660, os.getgid()) as listening, connect_unix(path, 5.0) as client:
        with listening.accept()[0] as accepted:
            client.sendall(b"here")
            assert accepted.recv(4) == b"here"
        assert client.gettimeout() == 5.0
        status = path.stat()
        assert (stat.S_IMODE(status.st_mode), status.st_gid) == (0o660, os.getgid())
    assert [each.name for each in path.parent.iterdir()] == ["x.sock"]


def test_a_failure_leaves_no_descriptor_and_no_file(tmp_path: Path) -> None:
    """Neither that of the socket, nor that of the directory."""
    stale = tmp_path / "stale.sock"
    with socket.socket(socket.AF_UNIX) as former:
        former.bind(str(stale))
    before = _descriptors()
    with pytest.raises(ConnectionRefusedError):
        connect_unix(stale)
    with pytest.raises(FileNotFoundError):
        connect_unix(tmp_path / "missing" / "x.sock")
    (tmp_path / "taken").mkdir()
    with pytest.raises(OSError, match="directory"):
        bind_unix(tmp_path / "taken")
    assert _descriptors() == before
    assert sorted(each.name for each in tmp_path.iterdir()) == ["stale.sock", "taken"]
