"""Connections over TCP to a host that may have several addresses."""

import socket
from collections.abc import Iterator
from typing import Any

import msgspec

from beehive.clock import Clock


class Attempt(msgspec.Struct, frozen=True):
    """One address of a host, and the time for it."""

    family: int
    kind: int
    protocol: int
    address: Any
    seconds: float
    """Its share of the time that is left: an address that does not answer leaves the rest to the others."""


def attempts(host: str, port: int, clock: Clock, seconds: float) -> Iterator[Attempt]:
    """Look a host up, and return its addresses in the resolver's order.

    Args:
        host: a name or an address.
        port: of TCP.
        clock: for the time that is left.
        seconds: for all addresses and the look-up together.

    Raises:
        OSError: the name has no address.
    """
    until = clock.monotonic() + seconds
    found = socket.getaddrinfo(host_bytes(host), port, type=socket.SOCK_STREAM)
    return (
        Attempt(family, kind, protocol, address, (until - clock.monotonic()) / (len(found) - index))
        for index, (family, kind, protocol, _, address) in enumerate(found)
    )


def host_bytes(host: str) -> str | bytes:
    """Return a host as the resolver and TLS take it: bytes if it is ASCII. For each text Python loads its codec of
    international names and Unicode's table (0.4 MB).
    """
    return host.encode() if host.isascii() else host


def connect(host: str, port: int, clock: Clock, seconds: float) -> socket.socket:
    """Return a connection to the first address of a host that answers; blocks. Its time-out is `seconds`.

    Args: as for `attempts`.

    Raises:
        OSError: the name has no address, or none answers in time.
    """
    failure: OSError = TimeoutError("no answer in time")
    for attempt in attempts(host, port, clock, seconds):
        if attempt.seconds <= 0:
            break
        try:
            connection = socket.socket(attempt.family, attempt.kind, attempt.protocol)
        except OSError as error:  # a family that this machine does not have
            failure = error
            continue
        try:
            connection.settimeout(attempt.seconds)
            connection.connect(attempt.address)
            connection.settimeout(seconds)
        except OSError as error:
            connection.close()
            failure = error
        else:
            return connection
    raise failure
