"""Ports of the tests' own."""

import os
import socket
from typing import Final

_FIRST: Final = 12_000
_LAST: Final = 32_000
_TRIES: Final = 1000
_EACH: Final = 2000
"""Ports of one worker of pytest-xdist."""

_given = 0


def free_port() -> int:
    """A TCP port of 127.0.0.1 that nobody has, and that stays free while whoever listens on it is started again.

    Of those that the kernel gives to whoever asks for any (`ip_local_port_range`, from 32768 on), another process may
    get it in that moment, if only for a connection of its own. These are given out one after another, in each worker of
    pytest-xdist from a part of its own, and begin elsewhere in each process.
    """
    global _given  # noqa: PLW0603 - the process has one counter, as it has one worker
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    first = _FIRST + worker * _EACH % (_LAST - _FIRST)
    for _ in range(_TRIES):
        port = first + (os.getpid() * 37 + _given) % _EACH
        _given += 1
        if _is_free(port):
            return port
    raise AssertionError(f"no free port among {first} to {first + _EACH}")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
