"""The error of an address on which a server of cloudcore cannot listen, with advice."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from beehive.errors import BeehiveError

_ADVICE: Final = {
    errno.EADDRINUSE: "another process listens there, perhaps another cloudcore: stop it, or choose another port with",
    errno.EACCES: "this user may not: choose a port above 1023 with",
    errno.EADDRNOTAVAIL: "this machine has no such address: choose one of its own, or 0.0.0.0, with",
}


class ListenError(BeehiveError):
    """A server cannot listen on its address."""


@contextmanager
def listening_on(address: str, port: int, option: str) -> Iterator[None]:
    """Turn an OSError in the context into a `ListenError`.

    Args:
        address: the address.
        port: the TCP port.
        option: of the command line, which sets them.

    Raises:
        ListenError: the context raised an OSError.
    """
    try:
        yield
    except OSError as error:
        advice = _ADVICE.get(error.errno or 0, f"{error.strerror or error}; the option is")
        where = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
        raise ListenError("cannot listen on", where, f"{advice} {option}") from error
