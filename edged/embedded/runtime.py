"""The embedded runtime as edgecore starts it."""

from pathlib import Path

from beehive.clock import Clock
from edged.embedded.engine import Engine
from edged.embedded.server import Server

_GRACE_SECONDS = 1.0
"""Seconds for calls under way when the runtime stops; the next start finds their containers again."""


class EmbeddedRuntime:
    """A CRI v1 server whose containers are plain processes of this machine, without isolation.

        runtime = EmbeddedRuntime(Path("/var/lib/edged/embedded"), Path("/run/embedded.sock"), clock)
        runtime.start()
        client = CriClient(runtime.endpoint)

    Args:
        root: its state directory, made when missing. The same directory finds the same containers again.
        socket: path of its socket; 107 bytes at most.
        clock: for the times of sandboxes and containers.
    """

    def __init__(self, root: Path, socket: Path, clock: Clock) -> None:
        self._root = root.absolute()
        self._socket = socket.absolute()
        self._clock = clock
        self._engine: Engine | None = None
        self._server: Server | None = None

    @property
    def endpoint(self) -> str:
        """The address for CRI clients."""
        return f"unix://{self._socket}"

    def start(self) -> None:
        """Take over running containers and serve; return when the socket answers. Raises StateDirectoryError."""
        self._engine = Engine(self._root, self._clock)
        try:
            self._server = Server(self._engine, self._socket)
        except BaseException:
            self._engine.close()
            raise
        self._server.start()

    def stop(self) -> None:
        """Stop serving; the containers go on running. Idempotent."""
        server, self._server = self._server, None
        engine, self._engine = self._engine, None
        if server is None or engine is None:
            return
        server.stop(_GRACE_SECONDS)
        engine.close()
        server.join()
