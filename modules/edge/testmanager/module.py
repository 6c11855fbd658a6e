"""The module testManager: an HTTP server on the node under test through which a test creates objects."""

import logging
from pathlib import Path
from typing import Final

import msgspec

from beehive import Message, Module, ModuleName, handles
from beehive.http.http_server import HttpServer
from beehive.http.listening import listen_tcp
from modules.edge.testmanager.api import ObjectApi
from modules.edge.testmanager.token import read_token

_log = logging.getLogger(__name__)

ADDRESS: Final = "127.0.0.1"
"""KubeEdge listens on all addresses, without a token."""

MAX_BODY: Final = 3 * 1024 * 1024
"""Largest object in a request, in bytes (an API server's limit)."""


class ManagerSettings(msgspec.Struct, frozen=True):
    """Settings of testmanager."""

    token_file: Path
    port: int


class NodeTestManager(Module):
    """Serves the HTTP API while it runs (KubeEdge's `testManager`). No module sends it messages.

    It belongs to no group: KubeEdge's is in `meta`, and receives each object of the cloud beside metamanager.

    Args:
        settings: of testmanager.
    """

    name = ModuleName.TESTMANAGER

    def __init__(self, settings: ManagerSettings) -> None:
        super().__init__()
        self._settings = settings
        self._server: HttpServer | None = None

    def on_start(self) -> None:
        """Start to serve. A ServerError fails the start."""
        token = read_token(self._settings.token_file)
        listening = listen_tcp(ADDRESS, self._settings.port, "modules.dbTest.port")
        self._server = HttpServer(listening, ObjectApi(self.hive, token), self.clock, max_body=MAX_BODY)
        self._server.start()
        _log.warning("testmanager takes pods at http://%s:%d from whoever has the token in %s",
                     ADDRESS, self._server.port, self._settings.token_file)  # fmt: skip

    def on_stop(self) -> None:
        """Close the port."""
        self._close()

    def on_failure(self, *_error: object) -> None:
        """Close the port; the restarted module opens it again."""
        self._close()

    @handles()
    def ignore(self, message: Message) -> None:
        """Log a message; none is expected."""
        _log.warning("not for testmanager: %s %s", message.route.operation, message.route.resource[:200])

    def _close(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.stop()
