"""The way of a page to containers: the requests of `edgecore exec -it` and `cloudcore exec -it`."""

import socket
from typing import Final

from beehive.http.client import ClientExchange
from beehive.http.errors import HttpStatusError
from beehive.http.forwarding import Fields
from beehive.on_failure import on_failure
from modules.page.shells import COMMAND, ShellDoor, ShellTarget
from modules.processes.common.pod_commands.client import NodeClient
from modules.processes.common.pod_commands.errors import NodeError
from modules.processes.common.version import VERSION

USER_AGENT: Final = f"edgecore-page/{VERSION}"
_MOST_HEAD: Final = 64 * 1024
_STREAMS: Final = (("input", "1"), ("output", "1"), ("tty", "1"))


def shell_url(server: NodeClient, where: ShellTarget) -> str:
    """Return path and query of the request for a shell, with a server's names."""
    return server.stream_url("exec", *where, [*(("command", word) for word in COMMAND), *_STREAMS])


class SocketDoor(ShellDoor):
    """Access to containers through the socket of a program of this machine, with its owner's rights (`ShellDoor`).

    Args:
        server: the program behind the socket.
    """

    def __init__(self, server: NodeClient) -> None:
        self._server = server

    def check(self, where: ShellTarget) -> None:
        """Allow it: who may open the socket may do everything there."""

    def open(self, where: ShellTarget, fields: Fields) -> socket.socket:
        """See `ShellDoor`."""
        headers = [("Host", "localhost"), ("User-Agent", USER_AGENT), *fields]
        request = ClientExchange(_MOST_HEAD).request("GET", shell_url(self._server, where), headers)
        try:
            connection = self._server.dial()
        except NodeError as error:
            raise HttpStatusError(502, str(error)) from error
        with on_failure(connection.close):
            connection.sendall(request)
        return connection
