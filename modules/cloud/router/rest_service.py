"""The HTTP service for callers in the cloud: `/NODE/NAMESPACE/PATH…`."""

import re
import ssl
from collections.abc import Callable
from http import HTTPStatus
from typing import Final, Protocol

import msgspec

from beehive.clock import Clock
from beehive.http.authority import url_of
from beehive.http.browser_guard import OTHER_SITE, is_sent_by_another_site
from beehive.http.errors import HttpStatusError
from beehive.http.forwarding import Fields, passed_on
from beehive.http.http_server import MAX_STREAMS, HttpServer
from beehive.http.listening import listen_tcp
from beehive.http.request import Request
from beehive.http.responses import Reply, Response, text
from beehive.http.router import Admitted, AdmittingService
from modules.apimachinery.errors import ApiStatusError
from modules.cloud.authentication.authenticator import is_by_token
from modules.cloud.identities.known import NOT_YET, KnownIdentities
from modules.cloud.router.callers import CallApi, Callers, is_cloudcore
from modules.cloud.router.paths import CallerPath, read_path

METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
MOST_BODY: Final = 8 * 1024 * 1024
"""Bytes of a request: as base64 it fits into a node's largest message, 16 MiB (KubeEdge takes 12 MiB)."""
_CONNECTIONS: Final = 256
"""Connections of callers at a time: each waits for the answer of a node."""
_IDLE_SECONDS: Final = 60.0
"""Seconds that an idle connection is kept."""
_SECONDS: Final = re.compile(r"[0-9]{1,6}(\.[0-9]{1,3})?", re.ASCII)
_BODILESS: Final = (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)
_CREDENTIALS: Final = "authorization"
_CONTENT_TYPE: Final = "content-type"
_AS_A_DOCUMENT: Final = (("Content-Security-Policy", "sandbox"), ("X-Content-Type-Options", "nosniff"))
"""Headers of each answer: a browser that shows it runs no code of the node with this server's origin."""
_NOT_PASSED_ON: Final = frozenset({_CONTENT_TYPE, "set-cookie", *(name.lower() for name, _ in _AS_A_DOCUMENT)})
SECONDS_HEADER: Final = "x-cloudcore-seconds"
"""In a request of another cloudcore: seconds until its caller gets an answer."""

NODE_HEADER: Final = "x-cloudcore-node"
"""In a request of another cloudcore for a node's own server, whose stream tunnel is here: the node."""


class PassedStreams(Protocol):
    """The service of nodes' servers to other cloudcores."""

    def reply(self, node: str, request: Request) -> Reply:
        """Return the reply to a kubelet's request."""


class RestCall(msgspec.Struct, frozen=True):
    """A caller's request."""

    method: str
    path: CallerPath
    headers: Fields
    """Without the caller's credentials, which are no business of an application on a node."""
    body: bytes
    seconds: float | None = None
    """Seconds until a cloudcore that has passed the request on wants an answer; None for a caller's own request."""


class RestAnswer(msgspec.Struct, frozen=True):
    """The response to it."""

    status: int
    body: bytes
    headers: Fields = (("Content-Type", "text/plain; charset=utf-8"),)


def own_response(status: HTTPStatus, why: str) -> RestAnswer:
    """Return a response of the router itself."""
    return RestAnswer(status, f"{why}\n".encode())


class RestService(AdmittingService):
    """The service for admitted callers (`HttpService`), on the threads of their connections.

    Args:
        callers: decides who may call.
        ask: returns the router's answer; may block.
        api: makes API calls; blocks.
        identities: knows the refused client certificates; None: none is.
        streams: serves other cloudcores; None: no streams are served.
    """

    def __init__(
        self,
        callers: Callers,
        ask: Callable[[RestCall], RestAnswer],
        api: CallApi,
        identities: KnownIdentities | None = None,
        streams: PassedStreams | None = None,
    ) -> None:
        self._streams = streams
        self._callers = callers
        self._identities = identities
        self._ask = ask
        self._api = api

    def admit(self, request: Request) -> Admitted | Reply:
        """See `AdmittingService`. Raise HttpStatusError if the caller may not call."""
        why = self._identities.refusal(request.certificate) if self._identities is not None else ""
        if why:
            raise HttpStatusError(HTTPStatus.SERVICE_UNAVAILABLE if why == NOT_YET else HTTPStatus.UNAUTHORIZED, why)
        if is_cloudcore(request):
            return Admitted(self._reply)
        if is_sent_by_another_site(request) and not is_by_token(request):
            raise HttpStatusError(HTTPStatus.FORBIDDEN, OTHER_SITE)
        try:
            self._callers.check(request, self._api)
        except ApiStatusError as error:
            raise HttpStatusError(error.code, error.message) from error
        return Admitted(self._reply)

    def _reply(self, request: Request) -> Reply:
        """Return the reply to an admitted caller."""
        node = request.header(NODE_HEADER) if is_cloudcore(request) else ""
        if node and self._streams is not None:
            return self._streams.reply(node, request)
        if request.method not in METHODS:
            return text(HTTPStatus.METHOD_NOT_ALLOWED, f"the methods are {', '.join(METHODS)}\n")
        if request.header("upgrade"):
            return text(HTTPStatus.NOT_IMPLEMENTED, "a call of a node cannot change its protocol\n")
        path = read_path(request.target)
        if path is None:
            why = "a path such as /NODE/NAMESPACE/PATH is wanted, without empty parts, dots and quoted slashes\n"
            return text(HTTPStatus.BAD_REQUEST, why)
        seconds = _seconds(request.header(SECONDS_HEADER)) if is_cloudcore(request) else None
        headers = passed_on(request.headers, _CREDENTIALS, SECONDS_HEADER, NODE_HEADER)
        return response_of(self._ask(RestCall(request.method, path, headers, request.body, seconds)))


def _seconds(text: str) -> float:
    """Return a number of seconds; 0 if the text is no such number."""
    return float(text) if _SECONDS.fullmatch(text) else 0.0


def response_of(answer: RestAnswer) -> Response:
    """Return an answer as the server sends it. A node's headers are not trusted to be valid, and set no cookie: it
    would count for all nodes, whose answers come from the same host.
    """
    headers = passed_on(answer.headers)
    content_type = next((value for name, value in headers if name.lower() == _CONTENT_TYPE), "")
    others = (*(each for each in headers if each[0].lower() not in _NOT_PASSED_ON), *_AS_A_DOCUMENT)
    body = b"" if answer.status in _BODILESS else answer.body
    return Response(answer.status, content_type or "application/octet-stream", body, headers=others)


class RestListener:
    """The listener for callers; after a restart of the router on the same port.

    Args:
        address: IP address.
        port: 0 takes a free one.
        callers: decides who may call.
        context: its TLS; None serves plain HTTP.
        identities: knows the refused client certificates; None: none is.
        streams: serves streams of nodes to other cloudcores; None: it does not.
        max_streams: of them at a time; one cloudcore has three quarters at most.
    """

    def __init__(
        self,
        address: str,
        port: int,
        callers: Callers,
        context: ssl.SSLContext | None = None,
        identities: KnownIdentities | None = None,
        streams: PassedStreams | None = None,
        *,
        max_streams: int = MAX_STREAMS,
    ) -> None:
        self._identities = identities
        self._streams = streams
        self._max_streams = max_streams
        self._unwatch: Callable[[], None] = lambda: None
        self._address = address
        self._context = context
        self.callers = callers
        self.port = port
        """The TCP port, when started."""

    @property
    def url(self) -> str:
        """Its URL, once started."""
        return url_of(self._address, self.port, tls=self._context is not None)

    def start(self, ask: Callable[[RestCall], RestAnswer], api: CallApi, clock: Clock) -> HttpServer:
        """Start to serve. Raise ListenError when the address cannot be listened on."""
        listening = listen_tcp(self._address, self.port, "--router-listen")
        service = RestService(self.callers, ask, api, self._identities, self._streams)
        server = HttpServer(
            listening,
            service,
            clock,
            max_body=MOST_BODY,
            context=self._context,
            idle_seconds=_IDLE_SECONDS,
            max_connections=_CONNECTIONS,
            max_streams=self._max_streams,
        )
        self.port = server.port
        server.start()
        self._unwatch()
        if self._identities is not None:
            self._unwatch = self._identities.end_connections(server)
        return server
