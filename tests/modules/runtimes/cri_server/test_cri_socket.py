"""The file of the runtime's socket."""

import socket
import stat
from pathlib import Path

from modules.runtimes.cri_server.runtime_server import listen_for_cri


def test_a_socket_that_a_killed_process_left_is_replaced(tmp_path: Path) -> None:
    """The new one is its owner's alone, and answers."""
    path = tmp_path / "run" / "cri.sock"
    listen_for_cri(path).close()
    assert path.is_socket()
    with listen_for_cri(path) as listening, socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
        listening.accept()[0].close()
        assert client.recv(1) == b""
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
