"""Where a running edgecore is asked for its flight recorder: a unix socket of the owner's alone in the root directory.

A socket and not only SIGUSR2, because who asks wants to know which file it became, or why it became none. One question
a connection, a line each way: `dump`, and a JSON object.
"""

import errno
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from beehive import Actor
from beehive.trace.errors import TraceError
from edged.server.errors import ServerError
from edged.server.listening import accepted, listen_unix, short_name

SOCKET: Final = "trace.sock"
"""Name of the socket in the root directory."""

QUESTION: Final = b"dump\n"
ANSWER_BYTES: Final = 64 * 1024
_SECONDS = 5.0
_ANSWER_SECONDS = 60.0
_GONE = (errno.ENOENT, errno.ECONNREFUSED)


class Serve(NamedTuple):
    """Told to the listener: answer until the socket is shut down."""


class Listener(Actor):
    """Answers. It waits in `accept` on its own thread and looks into its inbox only when the socket was shut down.

    Args:
        listening: the socket.
        dump: writes the flight recorder; its result is the answer.
    """

    def __init__(self, listening: socket.socket, dump: Callable[[], dict[str, Any]]) -> None:
        super().__init__()
        self._listening = listening
        self._dump = dump

    def on_receive(self, message: object) -> None:
        """Serve."""
        if isinstance(message, Serve):
            while (connection := accepted(self._listening)) is not None:
                with connection, suppress(OSError):
                    self._answer(connection)

    def _answer(self, connection: socket.socket) -> None:
        connection.settimeout(_SECONDS)
        if connection.recv(len(QUESTION), socket.MSG_WAITALL) == QUESTION:
            connection.sendall(msgspec.json.encode(self._dump()) + b"\n")


def listen(path: Path) -> socket.socket:
    """The socket.

    Raises:
        TraceError: it cannot be made.
    """
    try:
        return listen_unix(path)
    except ServerError as error:
        raise TraceError("cannot make the socket for traces", str(path), error.hint) from error


def hang_up(listening: socket.socket, path: Path) -> None:
    """Answer nobody any more."""
    with suppress(OSError):
        listening.shutdown(socket.SHUT_RDWR)
    listening.close()
    path.unlink(missing_ok=True)


def ask(path: Path) -> dict[str, Any]:
    """Have the process that listens there write its flight recorder; its answer.

    Raises:
        TraceError: none listens, or it does not answer.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(_ANSWER_SECONDS)
        try:
            with short_name(path) as name:
                connection.connect(name)
            connection.sendall(QUESTION)
            with connection.makefile("rb") as answer:
                line = answer.readline(ANSWER_BYTES)
            decoded: dict[str, Any] = msgspec.json.decode(line, type=dict[str, Any])
        except OSError as error:
            hint = "is edgecore running? --root or --config must be those that it was started with"
            raise TraceError(
                "cannot reach edgecore", str(path), hint if error.errno in _GONE else str(error)
            ) from error
        except (msgspec.DecodeError, UnicodeError) as error:
            raise TraceError("edgecore gave no answer", str(path), "see its log") from error
    return decoded
