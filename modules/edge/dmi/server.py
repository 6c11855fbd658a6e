"""The socket `dmi.sock`, which mappers call; its gRPC server starts with the first of them."""

import grp
import socket
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from beehive.clock import Clock
from beehive.files.advice import advice
from beehive.sockets.activation import ActivatedServer
from beehive.sockets.unix_sockets import bind_unix, connect_unix

if TYPE_CHECKING:
    from beehive.sockets.activation.grpc_server import GrpcServer
    from modules.edge.dmi.grpc_server import Ask

SOCKET_MODE: Final = 0o660
"""Mode of the socket: its owner and its group may connect."""


class DmiSocketError(Exception):
    """The server cannot listen on its socket; the text has advice."""


class DmiServer:
    """The server of DeviceManagerService on a unix socket.

    Args:
        path: of the socket; `dmi.sock` in KubeEdge.
        group: the group that may connect, a name or a number; empty for the process's.
        ask: the module.
        clock: for the end of a gRPC server without connections.
    """

    def __init__(self, path: Path, group: str, ask: "Ask", clock: Clock) -> None:
        self._path = path
        self._group = group
        self._ask = ask
        self._clock = clock
        self._inode = 0
        self._server: ActivatedServer | None = None

    def start(self) -> None:
        """Bind the socket and start to answer calls. Raises DmiSocketError."""
        try:
            self._server = ActivatedServer(self._bind(), self._serve, self._clock)
        except (OSError, KeyError) as error:
            why = advice(error) if isinstance(error, OSError) else str(error)
            raise DmiSocketError(f"mappers cannot register on {self._path}: {why}") from error

    def stop(self) -> None:
        """Refuse new calls, and end the running ones."""
        with suppress(OSError):
            if self._inode and self._path.lstat().st_ino == self._inode:
                self._path.unlink()
        if self._server is not None:
            self._server.stop(None)

    def _serve(self) -> "GrpcServer":
        from modules.edge.dmi.grpc_server import serve  # noqa: PLC0415 - 21 MB, with the first mapper

        return serve(self._ask)

    def _bind(self) -> socket.socket:
        self._path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
        _refuse_served(self._path)
        listening = bind_unix(self._path, SOCKET_MODE, _group_id(self._group) if self._group else None)
        self._inode = self._path.lstat().st_ino
        return listening


def _refuse_served(path: Path) -> None:
    """Raise OSError if another process serves on the socket; a socket left by a killed process is replaced."""
    try:
        connect_unix(path, 1.0).close()
    except OSError:
        return
    raise OSError("another process serves on it: choose another modules.deviceTwin.dmiSockPath")


def _group_id(group: str) -> int:
    if group.isdecimal():
        return int(group)
    try:
        return grp.getgrnam(group).gr_gid
    except KeyError:
        raise OSError(f"there is no group {group!r}: make it, or change modules.deviceTwin.dmiSockGroup") from None
