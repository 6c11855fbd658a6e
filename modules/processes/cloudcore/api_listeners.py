"""The TCP ports of the Kubernetes API, beside the control socket."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from beehive.http.authority import url_of
from beehive.http.http_server import HttpServer
from beehive.http.listening import listen_tcp
from beehive.sockets.ports import ListenError
from modules.apimachinery.errors import unread
from modules.apimachinery.limits import REQUEST_BYTES
from modules.processes.cloudcore.errors import ControlError

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from beehive import Clock
    from beehive.http.router import HttpService
    from beehive.http.unsent_bytes import UnsentBytes
    from modules.cloud.authentication.authenticator import Authenticator
    from modules.cloud.authentication.settings import OidcSettings
    from modules.cloud.client.kubeconfig.model import Selected
    from modules.cloud.identities.known import ServesCertified

    Ends = Callable[[ServesCertified], Callable[[], None]]

_log = logging.getLogger(__name__)

_IDLE_SECONDS: Final = 90.0
"""Seconds that a connection is kept without a request (the idle time-out of Go's HTTP clients)."""
API_CONNECTIONS: Final = 256
"""Connections of clients of the Kubernetes API at a time, beside streams: with HTTP/1.1 client-go opens one for each
request that waits for its answer.
"""
_LOOPBACK: Final = "127.0.0.1"
_LOOPBACKS: Final = {"": _LOOPBACK, "0.0.0.0": _LOOPBACK, "::": "::1"}  # noqa: S104 - not listened on
"""The loopback address, for each address that stands for all."""


class ApiListener:
    """The listener for clients of the Kubernetes API; after a restart of module `control` on the same port.

    Args:
        address: IP address.
        port: 0 takes a free one.
        option: of the command line, for errors.
        context: its TLS; None serves plain HTTP.
        max_streams: at one time.
        ends: has the connections of clients ended that are revoked, until its result is called.
    """

    def __init__(
        self,
        address: str,
        port: int,
        option: str,
        context: ssl.SSLContext | None,
        max_streams: int,
        ends: Ends | None = None,
    ) -> None:
        self._ends = ends
        self._unwatch: Callable[[], None] = lambda: None
        self._address = address
        self._port = port
        self._option = option
        self._context = context
        self._max_streams = max_streams

    @property
    def url(self) -> str:
        """Its URL, once started."""
        return self._url(self._address)

    @property
    def local_url(self) -> str:
        """The URL for clients on this machine, when started; where it listens on all addresses, one of loopback."""
        return self._url(_LOOPBACKS.get(self._address, self._address))

    @property
    def port(self) -> int:
        """The TCP port, when started."""
        return self._port

    def _url(self, address: str) -> str:
        return url_of(address, self._port, tls=self._context is not None)

    def start(self, service: HttpService, clock: Clock, unsent: UnsentBytes | None = None) -> HttpServer:
        """Start to serve.

        Args:
            service: the service.
            clock: for deadlines.
            unsent: the memory for what clients have not taken; None: one of this port alone.

        Raises:
            ControlError: the address cannot be listened on.
        """
        try:
            listening = listen_tcp(self._address, self._port, self._option)
        except ListenError as error:
            raise ControlError(
                "cannot serve the Kubernetes API on", f"{self._address}:{self._port}", error.hint
            ) from error
        server = HttpServer(
            listening,
            service,
            clock,
            max_body=REQUEST_BYTES,
            context=self._context,
            idle_seconds=_IDLE_SECONDS,
            refusal=unread,
            max_connections=API_CONNECTIONS,
            max_streams=self._max_streams,
            unsent=unsent,
        )
        self._port = server.port
        server.start()
        self._unwatch()
        if self._ends is not None:
            self._unwatch = self._ends(server)
        return server


class SecureListener(ApiListener):
    """The HTTPS port, whose clients are authenticated (`--secure-port`).

    Args:
        address: IP address.
        port: 0 takes a free one.
        context: asks for client certificates of the authority.
        authenticator: finds the user of a request.
        max_streams: at one time.
        ends: has the connections of clients ended that are revoked, until its result is called.
        page_names: the page's host names for browsers; none: it is not served.
        page_allows: what the page may do beside reading.
        provider: where the page's users may sign in.
    """

    def __init__(
        self,
        address: str,
        port: int,
        context: ssl.SSLContext,
        authenticator: Authenticator,
        max_streams: int,
        ends: Ends | None = None,
        page_names: tuple[str, ...] = (),
        *,
        page_allows: tuple[str, ...] = (),
        provider: OidcSettings | None = None,
    ) -> None:
        super().__init__(address, port, "--secure-port", context, max_streams, ends)
        self.authenticator = authenticator
        self.page_names = page_names
        self.page_allows = page_allows
        self.provider = provider


class PageListener(ApiListener):
    """The HTTPS port of the page in front of a cluster, where it is all that is served.

    Args:
        address: IP address.
        port: 0 takes a free one.
        context: its TLS.
        max_streams: at one time.
        names: the page's host names for browsers.
        cluster: whose users may sign in.
    """

    def __init__(
        self,
        address: str,
        port: int,
        context: ssl.SSLContext,
        max_streams: int,
        names: tuple[str, ...],
        cluster: Selected,
    ) -> None:
        super().__init__(address, port, "--secure-port", context, max_streams)
        self.names = names
        self.cluster = cluster


class InsecureListener(ApiListener):
    """The plain HTTP port, on the loopback interface, whose clients are all administrators (`--insecure-port`).

    Args:
        port: 0 takes a free one.
        max_streams: at one time.
    """

    def __init__(self, port: int, max_streams: int) -> None:
        super().__init__(_LOOPBACK, port, "--insecure-port", None, max_streams)

    def start(self, service: HttpService, clock: Clock, unsent: UnsentBytes | None = None) -> HttpServer:
        """Start to serve. Raise ControlError when the port cannot be listened on."""
        server = super().start(service, clock, unsent)
        _log.warning("every program of this machine may do everything with the cloud at %s", self.url)
        return server
