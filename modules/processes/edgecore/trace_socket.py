"""The unix socket `trace.sock` in the root directory, over which `edgecore trace dump` requests the flight recorder.

Only the owner can open it. Unlike SIGUSR2 it returns the name of the file, or the error. Each connection carries one
request, the line `dump`, and one answer, a JSON object on a line.
"""

import errno
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from beehive import Actor
from beehive.decoding import decode_json
from beehive.errors import TraceError
from beehive.http.listening import listen_unix
from beehive.sockets.accepting import accept_connection
from beehive.sockets.ports import ListenError
from beehive.sockets.unix_sockets import connect_unix

SOCKET: Final = "trace.sock"
"""Name of the socket in the root directory."""

QUESTION: Final = b"dump\n"
ANSWER_BYTES: Final = 64 * 1024
_SECONDS = 5.0
_ANSWER_SECONDS = 60.0
_GONE = (errno.ENOENT, errno.ECONNREFUSED)


class ServeTraceSocket(msgspec.Struct, frozen=True):
    """Message to the listener: answer until the socket is shut down."""


class TraceSocketListener(Actor):
    """The actor that answers requests. It waits in `accept` on its own thread, and reads its inbox again when the
    socket is shut down.

    Args:
        listening: the socket.
        dump: writes the flight recorder and returns the answer.
    """

    def __init__(self, listening: socket.socket, dump: Callable[[], dict[str, Any]]) -> None:
        super().__init__()
        self._listening = listening
        self._dump = dump

    def on_receive(self, message: object) -> None:
        """Serve until the socket is shut down."""
        if isinstance(message, ServeTraceSocket):
            while (connection := accept_connection(self._listening)) is not None:
                with connection, suppress(OSError):
                    self._answer(connection)

    def _answer(self, connection: socket.socket) -> None:
        connection.settimeout(_SECONDS)
        if connection.recv(len(QUESTION), socket.MSG_WAITALL) == QUESTION:
            connection.sendall(msgspec.json.encode(self._dump()) + b"\n")


def listen(path: Path) -> socket.socket:
    """Return the listening socket.

    Raises:
        TraceError: the socket cannot be made.
    """
    try:
        return listen_unix(path)
    except ListenError as error:
        raise TraceError("cannot make the socket for traces", str(path), error.hint) from error


def close_trace_socket(listening: socket.socket, path: Path) -> None:
    """Shut the socket down and remove its file."""
    with suppress(OSError):
        listening.shutdown(socket.SHUT_RDWR)
    listening.close()
    path.unlink(missing_ok=True)


def ask(path: Path) -> dict[str, Any]:
    """Request the flight recorder of the process that listens at `path`; return its answer.

    Raises:
        TraceError: no process listens, or it does not answer.
    """
    try:
        with connect_unix(path, _ANSWER_SECONDS) as connection:
            connection.sendall(QUESTION)
            with connection.makefile("rb") as answer:
                line = answer.readline(ANSWER_BYTES)
        decoded: dict[str, Any] = decode_json(line, dict[str, Any])
    except OSError as error:
        hint = "is edgecore running? --root or --config must be those that it was started with"
        raise TraceError("cannot reach edgecore", str(path), hint if error.errno in _GONE else str(error)) from error
    except (msgspec.DecodeError, UnicodeError) as error:
        raise TraceError("edgecore gave no answer", str(path), "see its log") from error
    return decoded
