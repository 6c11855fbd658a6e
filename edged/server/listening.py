"""The addresses that the local servers listen on: TCP, or a unix socket that only its owner can open.

A path longer than a socket's name may be (107 bytes) is reached through the descriptor of its directory.
"""

import errno
import logging
import os
import select
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from edged.server.errors import ServerError

_log = logging.getLogger(__name__)

_BACKLOG: Final = 64
_FULL: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_FULL_SECONDS: Final = 1.0


def listen_tcp(address: str, port: int, setting: str = "readOnlyPort") -> socket.socket:
    """A socket that listens on an IP address; port 0 takes a free one. `setting` is named when it cannot.

    Raises:
        ServerError: the address cannot be had.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((address, port))
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        hint = f"{error.strerror}; is a kubelet or another edgecore there? {setting} is the setting"
        raise ServerError("cannot serve on", f"{address}:{port}", hint) from error
    return listening


def listen_unix(path: Path, setting: str = "rootDirectory") -> socket.socket:
    """A socket of the owner's alone (mode 0600), in the place of one that a killed process left.

    Made under another name and renamed when its mode is right: it is never open to others, and the process's umask,
    which all threads share, stays as it is. `setting` is named when it cannot be made.

    Raises:
        ServerError: it cannot be made.
    """
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    making = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        making.unlink(missing_ok=True)
        with short_name(making) as name:
            listening.bind(name)
        making.chmod(0o600)
        listening.listen(_BACKLOG)
        making.rename(path)
    except OSError as error:
        listening.close()
        with suppress(OSError):
            making.unlink(missing_ok=True)
        raise ServerError("cannot serve on the socket", str(path), f"{error.strerror}; see {setting}") from error
    return listening


def accepted(listening: socket.socket, wait: float = _FULL_SECONDS) -> socket.socket | None:
    """The next connection; None when the socket was shut down or closed.

    Who connects while the process may open no more files waits in the backlog: it is tried again after `wait` seconds,
    and at once when the socket is shut down.
    """
    while True:
        try:
            return listening.accept()[0]
        except OSError as error:
            if error.errno in _FULL:
                _log.warning("no connection can be accepted on %s: %s", listening.getsockname(), error.strerror)
                _wait_for_end(listening, wait)
            elif error.errno != errno.ECONNABORTED:
                return None


def _wait_for_end(listening: socket.socket, seconds: float) -> None:
    poll = select.poll()
    with suppress(OSError, ValueError):  # it was closed meanwhile
        poll.register(listening, 0)  # nothing but its end, which is always told
        poll.poll(seconds * 1000)


@contextmanager
def short_name(path: Path) -> Iterator[str]:
    """A name of the path that fits a socket's address."""
    directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)
