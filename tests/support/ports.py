"""TCP ports for tests."""

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

import pytest

_FIRST: Final = 12_000
_LAST: Final = 32_000
_TRIES: Final = 1000
_EACH: Final = 2000
"""Ports of one worker of pytest-xdist."""


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


needs_ipv6 = pytest.mark.skipif(not _has_ipv6(), reason="this machine has no IPv6")

_REACHED_SECONDS: Final = 5.0
"""Within which a connection to this machine is made, unless a rule sends it elsewhere."""

_given = 0


def free_port() -> int:
    """Return an unused TCP port of 127.0.0.1 that stays free while its server restarts.

    Ports of `ip_local_port_range` (from 32768 on) would not: the kernel may give one to another process in that moment,
    if only for a connection. These ports are given out one after another; each worker of pytest-xdist has a range, and
    each process begins at another port in it.
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
    """Return whether a server of this port would be reached.

    A host port of a pod is a rule of iptables, which takes connections from the listener there; it stays when a test
    run is killed.
    """
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
            probe.listen()
            socket.create_connection(("127.0.0.1", port), _REACHED_SECONDS).close()
        except OSError:
            return False
    return True


@contextmanager
def full_backlog() -> Iterator[int]:
    """A port that answers no SYN."""
    with socket.socket() as listener, ExitStack() as stack:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        for filler in [stack.enter_context(socket.socket()) for _ in range(4)]:
            filler.setblocking(False)  # noqa: FBT003 - the socket's own signature
            filler.connect_ex(("127.0.0.1", port))
        yield port
