"""The client of the control socket."""

import socket
from collections.abc import Iterator
from pathlib import Path

import msgspec

from modules.cloud.apiserver.commands import Apply, CommandItem, Delete, Get, Verb
from modules.processes.cloudcore.framing import (
    METRICS,
    TOKEN,
    ControlError,
    ControlReply,
    ControlRequest,
    receive_frame,
    send_frame,
)

_SECONDS = 60.0
_VERBS: dict[type[Apply | Get | Delete], str] = {Apply: Verb.APPLY, Get: Verb.GET, Delete: Verb.DELETE}


class ControlClient:
    """Sends commands to a running cloudcore over its control socket.

    Args:
        path: the control socket.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def run(self, command: Apply | Get | Delete) -> list[CommandItem]:
        """Sends a command, and returns its items.

        Raises:
            ControlError: cloudcore does not run, or refuses the command.
        """
        with self._connected(_SECONDS) as connection:
            return self._call(connection, _VERBS[type(command)], command).items

    def token(self, seconds: float) -> str:
        """Returns a new token for nodes, valid for so many seconds.

        Raises:
            ControlError: cloudcore does not run, or has no certificate authority.
        """
        with self._connected(_SECONDS) as connection:
            return self._exchange(connection, ControlRequest(TOKEN, {"seconds": seconds})).token

    def metrics(self) -> str:
        """Returns cloudcore's metrics in Prometheus' text format.

        Raises:
            ControlError: cloudcore does not run.
        """
        with self._connected(_SECONDS) as connection:
            return self._exchange(connection, ControlRequest(METRICS, {})).metrics

    def watch(self, command: Get) -> Iterator[tuple[str, CommandItem]]:
        """Yields the existing objects as ADDED, then each change, until cloudcore ends.

        Raises:
            ControlError: cloudcore does not run, or the kind is unknown.
        """
        with self._connected(None) as connection:
            reply: ControlReply | None = self._call(connection, "watch", command)
            while reply is not None:
                for item in reply.items:
                    yield reply.change, item
                reply = receive_frame(connection, ControlReply)

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

    def _call(self, connection: socket.socket, verb: str, command: Apply | Get | Delete) -> ControlReply:
        return self._exchange(connection, ControlRequest(verb, msgspec.to_builtins(command)))

    def _exchange(self, connection: socket.socket, call: ControlRequest) -> ControlReply:
        try:
            send_frame(connection, call)
            reply = receive_frame(connection, ControlReply)
        except OSError as error:
            raise ControlError("cannot talk to the stub", str(self._path), str(error)) from error
        if reply is None:
            raise ControlError("cannot talk to the stub", str(self._path), "it closed the connection")
        if reply.error:
            raise ControlError("the stub could not do it", reply.error)
        return reply
