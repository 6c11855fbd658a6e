"""The command line's end of the control socket."""

import socket
from collections.abc import Iterator
from pathlib import Path

import msgspec

from modules.cloudcore.framing import METRICS, TOKEN, Call, ControlError, Reply, receive_frame, send_frame
from modules.edgecontroller.commands import Apply, Delete, Get, Item, Verb

_SECONDS = 60.0
_VERBS: dict[type[Apply | Get | Delete], str] = {Apply: Verb.APPLY, Get: Verb.GET, Delete: Verb.DELETE}


class Client:
    """Talks to the stub that listens on a socket.

    Args:
        path: the stub's control socket.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def run(self, command: Apply | Get | Delete) -> list[Item]:
        """Has a command carried out.

        Raises:
            ControlError: there is no stub, or it could not carry the command out.
        """
        with self._connected(_SECONDS) as connection:
            return self._call(connection, _VERBS[type(command)], command).items

    def token(self, seconds: float) -> str:
        """A new token for nodes, good for so many seconds.

        Raises:
            ControlError: there is no stub, or it has no certificate authority.
        """
        with self._connected(_SECONDS) as connection:
            return self._exchange(connection, Call(TOKEN, {"seconds": seconds})).token

    def metrics(self) -> str:
        """What the stub counts, in Prometheus' text form.

        Raises:
            ControlError: there is no stub.
        """
        with self._connected(_SECONDS) as connection:
            return self._exchange(connection, Call(METRICS, {})).metrics

    def watch(self, command: Get) -> Iterator[tuple[str, Item]]:
        """What there is, as ADDED, then every change of it, until the stub ends.

        Raises:
            ControlError: there is no stub, or what is watched is of no kind.
        """
        with self._connected(None) as connection:
            reply: Reply | None = self._call(connection, "watch", command)
            while reply is not None:
                for item in reply.items:
                    yield reply.change, item
                reply = receive_frame(connection, Reply)

    def _connected(self, seconds: float | None) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.connect(str(self._path))
        except OSError as error:
            connection.close()
            hint = f"{error.strerror or error}; is `cloudcore run` running, with this --socket?"
            raise ControlError("cannot reach the stub", str(self._path), hint) from error
        connection.settimeout(seconds)
        return connection

    def _call(self, connection: socket.socket, verb: str, command: Apply | Get | Delete) -> Reply:
        return self._exchange(connection, Call(verb, msgspec.to_builtins(command)))

    def _exchange(self, connection: socket.socket, call: Call) -> Reply:
        try:
            send_frame(connection, call)
            reply = receive_frame(connection, Reply)
        except OSError as error:
            raise ControlError("cannot talk to the stub", str(self._path), str(error)) from error
        if reply is None:
            raise ControlError("cannot talk to the stub", str(self._path), "it closed the connection")
        if reply.error:
            raise ControlError("the stub could not do it", reply.error)
        return reply
