"""The server of the page: on 127.0.0.1, for the browser of whoever has started it."""

from typing import Final, Protocol

from beehive.clock import Clock
from beehive.http.http_server import HttpServer
from beehive.http.listening import listen_tcp
from modules.cloud.messages import LinkSession
from modules.page.api import About, FleetApi
from modules.page.devices import DeviceReader
from modules.page.feeds import Feeds, LinkSource
from modules.page.picture import Picture
from modules.page.pod_story import PodStories
from modules.page.service import PageService
from modules.page.sessions import Sessions
from modules.tools.kubectl.rest import RestClient

LOOPBACK: Final = "127.0.0.1"
_IDLE_SECONDS: Final = 30.0
_MOST_BODY: Final = 4096


class PageSource(LinkSource, Protocol):
    """What cloudcore knows of links, also of one node."""

    def history(self, node: str) -> list[LinkSession]:
        """Return the link journal of a node."""


class PageServer:
    """Serves the page for one cloudcore on 127.0.0.1.

    Args:
        client: the Kubernetes API of the cloudcore.
        source: its links.
        clock: for sessions and feeds.
        about: this server, for the page.
        port: 0 takes a free one.

    Raises:
        ListenError: the port cannot be listened on.
    """

    def __init__(self, client: RestClient, source: PageSource, clock: Clock, about: About, port: int = 0) -> None:
        listening = listen_tcp(LOOPBACK, port, "--port")
        self._port = int(listening.getsockname()[1])
        self._sessions = Sessions(clock)
        picture = Picture(clock.now, about.program)
        self._feeds = Feeds(picture, client, source, clock)
        hosts = (f"{LOOPBACK}:{self._port}", f"localhost:{self._port}")
        stories = PodStories(about.program, client)
        devices = DeviceReader(client, clock)
        api = FleetApi(picture, self._feeds, stories, devices, source.history, about, clock.now)
        service = PageService(self._sessions, hosts, api)
        self._server = HttpServer(listening, service, clock, max_body=_MOST_BODY, idle_seconds=_IDLE_SECONDS)
        self._server.start()

    def address(self) -> str:
        """Return an address that a browser can open once, within a minute.

        The token is behind `#`, which a browser sends to nobody and writes into no log of a server.
        """
        return f"http://{LOOPBACK}:{self._port}/page/#{self._sessions.new_token()}"

    def stop(self) -> None:
        """Close the port, and end the feeds."""
        self._feeds.stop()
        self._server.stop()
