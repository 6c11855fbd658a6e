"""A runtime inside edgecore as edgecore starts it: an engine, and the server around it."""

import logging
import socket
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from beehive.clock import Clock
from beehive.on_failure import on_failure
from beehive.sockets.activation import ActivatedServer
from beehive.sockets.unix_sockets import bind_unix
from modules.runtimes.cri_server.call_threads import CallThreads
from modules.runtimes.cri_server.local_calls import LocalCall, local_calls
from modules.runtimes.cri_server.methods import CriMethods
from modules.runtimes.engine.driver import RuntimeSettings
from modules.runtimes.engine.engine import Engine
from modules.runtimes.engine.errors import StateDirectoryError

if TYPE_CHECKING:
    from beehive.sockets.activation.grpc_server import GrpcServer

_GRACE_SECONDS = 1.0
"""Seconds for calls under way when the runtime stops; the next start finds their containers again."""
_LOCAL_SECONDS = 5.0
"""Seconds that local calls may take to end, after the processes that they wait for were ended."""

_log = logging.getLogger(__name__)

_ADDRESS_LIMIT: Final = 107


def listen_for_cri(address: Path) -> socket.socket:
    """Return a listening socket that only this user can open; replaces a killed process's socket.

    Raises StateDirectoryError.
    """
    attempt = f'listen on "{address}"'
    if len(bytes(address)) > _ADDRESS_LIMIT:
        reason = f"a unix socket's path holds {_ADDRESS_LIMIT} bytes"
        raise StateDirectoryError(attempt, reason, "configure a shorter path")
    try:
        address.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return bind_unix(address)
    except OSError as error:
        raise StateDirectoryError(attempt, str(error)) from error


class CriServer:
    """A CRI v1 server on a unix socket, whose gRPC server starts with the first client.

    server = CriServer(Path("/var/lib/edged/embedded"), Path("/run/embedded.sock"), clock, ProcessSettings())
    server.start()
    client = CriClient(server.endpoint)

    Args:
        root: its state directory, made when missing. The same directory finds the same containers again.
        socket: path of its socket; 107 bytes at most.
        clock: for the times of sandboxes and containers.
        settings: of the kind of runtime.
    """

    def __init__(self, root: Path, socket: Path, clock: Clock, settings: RuntimeSettings[Any]) -> None:
        self._root = root.absolute()
        self._socket = socket.absolute()
        self._clock = clock
        self._settings = settings
        self._engine: Engine[Any] | None = None
        self._server: ActivatedServer | None = None
        self._threads = CallThreads()
        self.local_calls: dict[str, LocalCall] = {}
        """For clients in this process, while it serves."""

    @property
    def endpoint(self) -> str:
        """The address for CRI clients."""
        return f"unix://{self._socket}"

    def start(self) -> None:
        """Take over running containers and serve; return when the socket answers. Raises ContainerRuntimeError."""
        self._engine = Engine(self._root, self._clock, self._settings)
        with on_failure(self._engine.close):
            methods = CriMethods(self._engine)
            self._server = ActivatedServer(listen_for_cri(self._socket), partial(_serve, methods), self._clock)
        self._threads = CallThreads()
        self.local_calls = local_calls(methods, self._threads)

    def stop(self) -> None:
        """Stop serving; the containers go on running. Idempotent."""
        server, self._server = self._server, None
        engine, self._engine = self._engine, None
        if server is None or engine is None:
            return
        self._socket.unlink(missing_ok=True)
        server.stop(_GRACE_SECONDS)
        engine.close()
        if left := self._threads.close(_LOCAL_SECONDS):
            _log.warning("%d calls to the runtime hang; the next start undoes what they began", left)
        server.join()


def _serve(methods: CriMethods) -> "GrpcServer":
    from modules.runtimes.cri_server.server import serve  # noqa: PLC0415 - 21 MB, with the first client

    return serve(methods)
