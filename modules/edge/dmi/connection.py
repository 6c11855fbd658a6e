"""The connection to a mapper's socket, and the actor that calls it."""

import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from google.protobuf.message import Message

from beehive import Actor
from edged.errors import PluginCallError
from edged.plugins.socket import PluginSocket
from modules.edge.dmi.liveness import is_served
from protos.dmi.v1beta1 import MAPPER

CALL_SECONDS: Final = 10.0
"""Time-out of a mapper's answer in seconds (KubeEdge's)."""

_AWAY: Final = frozenset({"UNAVAILABLE", "CANCELLED"})
_LONGEST_TEXT: Final = 300

Stamp = tuple[int, int]
"""Inode and time of change of a socket; they differ if another process has made it."""


class Outcome(NamedTuple):
    """The result of a call."""

    code: str = ""
    """gRPC's name of the failure; empty for a success."""
    text: str = ""
    """The reason that the mapper gave."""
    is_new: bool = False
    """Whether the socket was made again since the last call, which means that the mapper was restarted."""

    @property
    def is_away(self) -> bool:
        """Whether no mapper answers on the socket."""
        return self.code in _AWAY


class SocketLook(NamedTuple):
    """What a look at a mapper's socket has found."""

    is_new: bool
    """Whether the mapper has made a new socket since the last call or first look."""
    is_served: bool
    """Whether a process listens on it."""


class MapperConnection:
    """A channel to a mapper's socket, reopened when the mapper makes a new socket. `close` ends the call under way.

    Args:
        path: of the socket.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._socket: PluginSocket | None = None
        self._stamp: Stamp | None = None
        self._has_looked = False
        """Whether `_stamp` is known; if it is, None means that there was no socket."""
        self._is_closed = False

    def call(self, method: str, request: Message, answer: type[Message]) -> Outcome:
        """Call the mapper, and wait for its answer."""
        was = self._stamp
        opened = self._opened()
        if opened is None:
            return Outcome("UNAVAILABLE", f"there is no socket {self._path}")
        is_new = was is not None and was != self._stamp
        try:
            opened.call(f"{MAPPER}/{method}", request, answer, CALL_SECONDS)
        except PluginCallError as error:
            return Outcome(error.code, error.details[:_LONGEST_TEXT] or "it gives no reason", is_new)
        return Outcome(is_new=is_new)

    def is_new(self) -> bool:
        """Return whether there is a socket, and not the one of the last call or first check."""
        stamp = _stamp(self._path)
        if not self._has_looked:
            self._stamp, self._has_looked = stamp, True
        return stamp is not None and stamp != self._stamp

    def is_served(self) -> bool:
        """Return whether a process listens on the socket; a killed mapper leaves a socket where none does."""
        return is_served(self._path)

    def close(self) -> None:
        """Close the channel for good."""
        with self._lock:
            self._is_closed = True
            if self._socket is not None:
                self._socket.close()

    def _opened(self) -> PluginSocket | None:
        stamp = _stamp(self._path)
        with self._lock:
            if self._socket is not None and stamp != self._stamp:
                self._socket.close()
                self._socket = None
            self._stamp, self._has_looked = stamp, True
            if stamp is None or self._is_closed:
                return None
            if self._socket is None:
                self._socket = PluginSocket(self._path)
            return self._socket


class MapperCall(NamedTuple):
    """A call for `MapperCaller`."""

    method: str
    request: Message
    answer: type[Message]
    done: Callable[[Outcome], None]
    """Called on the caller's thread."""


class LookAtSocket(NamedTuple):
    """The request to look at the mapper's socket."""

    done: Callable[[SocketLook], None]


class MapperCaller(Actor):
    """Calls one mapper, one call at a time, so that a mapper that hangs delays no other.

    Args:
        connection: to the mapper; close it before stopping the actor.
    """

    def __init__(self, connection: MapperConnection) -> None:
        super().__init__()
        self._connection = connection

    def on_receive(self, message: object) -> None:
        """Make a call, or check the socket."""
        if isinstance(message, MapperCall):
            message.done(self._connection.call(message.method, message.request, message.answer))
        elif isinstance(message, LookAtSocket):
            message.done(SocketLook(self._connection.is_new(), self._connection.is_served()))


def _stamp(path: Path) -> Stamp | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return (status.st_ino, status.st_ctime_ns) if stat.S_ISSOCK(status.st_mode) else None
