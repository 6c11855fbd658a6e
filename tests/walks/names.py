"""A name server of the walks: it answers each question of an address with one, at the machine's own address."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

_PORT: Final = 53
_ANSWER: Final = bytes((192, 0, 2, 77))
_ADDRESSES: Final = b"\x00\x01\x00\x01"
_HEADER: Final = 12


def own_address() -> str:
    """Return an address of this machine that is not its loopback; empty if it has none."""
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("198.51.100.1", _PORT))
        return str(probe.getsockname()[0])
    return ""


def answer(question: bytes) -> bytes:
    """Return the answer to a query: 192.0.2.77 for an address, nothing else for other types; empty to no query."""
    if len(question) < _HEADER + 5:
        return b""
    end = question.index(b"\0", _HEADER) + 5
    has = question[end - 4 : end] == _ADDRESSES
    head = question[:2] + b"\x81\x80\x00\x01" + (b"\x00\x01" if has else b"\x00\x00") + bytes(4)
    record = b"\xc0\x0c" + _ADDRESSES + b"\x00\x00\x00\x3c\x00\x04" + _ANSWER if has else b""
    return head + question[_HEADER:end] + record


@contextmanager
def name_server(*, is_root: bool) -> Iterator[str]:
    """Yield the address of a running name server; without root one where none runs. Raise OSError if another runs."""
    address = own_address() or "127.0.0.153"
    if not is_root:
        yield address
        return
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind((address, _PORT))
        server.settimeout(0.5)
        ended = threading.Event()

        def serve() -> None:
            while not ended.is_set():
                with suppress(OSError, ValueError):
                    question, client = server.recvfrom(512)
                    server.sendto(answer(question), client)

        thread = threading.Thread(target=serve, name="name server")
        thread.start()
        try:
            yield address
        finally:
            ended.set()
            thread.join()
