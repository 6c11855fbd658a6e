"""The connection to a bus that is refused, broken or malformed."""

import socket
import struct
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.errors import BusError
from edged.shutdown.bus import MAX_MESSAGE, Bus
from tests.support.patience import PATIENCE

AGREED = (b"OK 1234\r\n", b"AGREE_UNIX_FD\r\n")
ENDS = (b"\r\n", b"\r\n", b"Hello\0")
"""Ends of the three parts that a client sends: its user, the file descriptors, its first call."""
HEAD = b"l\x02\x00\x01"
"""Little-endian, an answer, no flags, version 1."""


def connect(path: Path, *said: bytes) -> None:
    """Connect to a bus that says these parts, each after one of the client's, and closes."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def answer() -> None:
            with listener.accept()[0] as guest:
                for end, part in zip(ENDS, said, strict=False):
                    heard = b""
                    while end not in heard:
                        heard += guest.recv(1000)
                    guest.sendall(part)

        thread = threading.Thread(target=answer)
        thread.start()
        try:
            Bus(path).close()
        finally:
            thread.join(PATIENCE)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ((b"REJECTED EXTERNAL\r\n",), "REJECTED"),
        ((b"",), "closed the connection"),
        ((b"x" * 9000,), "Too much data"),
        ((*AGREED, b"HTTP/1.1 200 OK\r\n\r\n"), "read a message of the bus"),
        ((*AGREED, HEAD + struct.pack("<III", MAX_MESSAGE, 1, 0)), f"at most {MAX_MESSAGE}"),
        ((*AGREED, HEAD + struct.pack("<III", 0, 1, 8) + b"\x05\x01u\0\x09\0\0\0"), "closed the connection"),
        ((*AGREED, HEAD + struct.pack("<III", 0, 1, 8) + b"\xff" * 8), "read a message of the bus"),
    ],
    ids=["refused", "closed", "a line without end", "no D-Bus", "too large", "no answer", "malformed"],
)
def test_a_bus_that_fails_is_an_error(tmp_path: Path, said: tuple[bytes, ...], words: str) -> None:
    with pytest.raises(BusError, match=words):
        connect(tmp_path / "bus", *said)


@given(st.binary(max_size=200), st.sampled_from([b"", HEAD + struct.pack("<II", 8, 1)]))
def test_any_bytes_are_an_answer_or_an_error(noise: bytes, begin: bytes) -> None:
    with tempfile.TemporaryDirectory() as directory, suppress(BusError):
        connect(Path(directory) / "bus", *AGREED, begin + noise)
