"""The server of the page: on 127.0.0.1, for the browser of its user."""

from contextlib import ExitStack
from typing import Final

from beehive.clock import Clock
from beehive.http.http_server import HttpServer
from beehive.http.listening import listen_tcp
from modules.page.service import OwnerEntrance, PageApi, PageService
from modules.page.sessions import Sessions

LOOPBACK: Final = "127.0.0.1"
_IDLE_SECONDS: Final = 30.0
_MOST_BODY: Final = 4096


class PageServer:
    """The server of the page on 127.0.0.1.

    Args:
        api: answers its questions; closed at the end.
        clock: for sessions.
        program: whose command `page` prints addresses.
        port: 0 takes a free one.

    Raises:
        ListenError: the port cannot be listened on.
    """

    def __init__(self, api: PageApi, clock: Clock, program: str, port: int = 0) -> None:
        self._sessions = Sessions(clock)
        self._api = api
        with ExitStack() as failing:
            listening = failing.enter_context(listen_tcp(LOOPBACK, port, "--port"))
            self._port = int(listening.getsockname()[1])
            hosts = (f"{LOOPBACK}:{self._port}", f"localhost:{self._port}")
            service = PageService(OwnerEntrance(self._sessions, api, f"{program} page"), hosts, clock)
            self._server = HttpServer(listening, service, clock, max_body=_MOST_BODY, idle_seconds=_IDLE_SECONDS)
            self._server.start()
            failing.pop_all()

    def address(self) -> str:
        """Return an address that a browser can open once, within a minute.

        The token is behind `#`, which a browser sends to nobody and writes into no log of a server.
        """
        return f"http://{LOOPBACK}:{self._port}/page/#{self._sessions.new_token()}"

    def stop(self) -> None:
        """Close the port and the API."""
        try:
            self._api.close()
        finally:
            self._server.stop()
