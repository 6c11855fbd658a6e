"""A client's request to a pod, and the pod's answer: HTTP over a connection to its port."""

import contextlib
import logging
import select
import socket
from collections.abc import Callable, Generator
from http import HTTPStatus
from typing import Final

from beehive.clock import Clock
from beehive.http.client import ClientExchange, ResponseHead
from beehive.http.errors import HttpError
from beehive.http.request import Request
from beehive.http.responses import Peer, Reply, Response, Stream, StreamHead, Takeover
from modules.apimachinery.errors import ApiStatusError
from modules.cloud.apiserver.endpoints.pod_proxies import PodPort, ProxiedPath
from modules.cloud.cloudstream.proxy_rules import (
    LONGEST_PAGE,
    is_page,
    repeats_elsewhere,
    request_headers,
    response_headers,
    with_links,
)
from modules.cloud.cloudstream.relay import TURNS, RelayedStream, relay
from modules.streams.small_turns import SmallTurns

_log = logging.getLogger(__name__)

SILENT_SECONDS: Final = 300.0
"""Seconds without a byte of the pod, or without one that it takes, after which the request is given up."""
UPGRADE_SECONDS: Final = 30.0
"""Seconds until a pod must have answered an upgrade: meanwhile nobody sees the client go."""
_HEAD_SECONDS: Final = 30.0
"""Seconds until a client must have received the head of a response that switches protocols."""
_HEAD_BYTES: Final = 64 * 1024
_PASSED_BYTES: Final = 4096
"""Bytes of a refused upgrade's text that are passed on."""
_WITH_BODY: Final = ("POST", "PUT", "PATCH")

_GATHERED: Final = 256
"""Pieces of an answer that are passed on together: reading them takes some five milliseconds."""
_PIECES_OF_A_TURN: Final = 4
"""Pieces that take as long to read as a turn."""

Wait = Callable[[int | None, float], bool]
"""Waits for a descriptor, or for none, for so many seconds at most; returns whether the client has gone meanwhile."""


class ClientGoneError(Exception):
    """The client has disconnected."""


class ProxiedRequest:
    """One request to a pod.

    Args:
        connection: to its port; the owner closes it.
        port: of the pod.
        path: of the request.
        request: of the client, with its whole body.
        clock: for the deadlines.
        turns: of all streams, for an answer in small pieces.
    """

    def __init__(
        self,
        connection: RelayedStream,
        port: PodPort,
        path: ProxiedPath,
        request: Request,
        clock: Clock,
        turns: SmallTurns = TURNS,
    ) -> None:
        self._turns = turns
        self._connection = connection
        self._port = port
        self._path = path
        self._method = request.method
        self._clock = clock
        self._exchange = ClientExchange(_HEAD_BYTES)
        headers = list(request_headers(request.headers, port, path))
        if protocol := request.header("upgrade"):
            headers += [("Connection", "Upgrade"), ("Upgrade", protocol)]
        elif request.method in _WITH_BODY and not request.body:
            headers.append(("Content-Length", "0"))
        self._unsent = memoryview(self._exchange.request(request.method, path.target, headers, request.body))

    def head(self, wait: Wait, seconds: float = SILENT_SECONDS) -> ResponseHead:
        """Send the request, and return the head of the answer.

        Raises:
            ApiStatusError: the pod cannot be reached, its answer cannot be read, or would repeat a write elsewhere.
            ClientGoneError: nobody waits for it.
        """
        try:
            head = self._exchange.read_head(lambda: self._receive(wait, seconds))
        except HttpError as error:
            why = self._connection.failure or f"its answer cannot be read: {error.reason}"
            raise _unreachable(self._port, why) from error
        except TimeoutError as error:
            why = f"pod {self._port.pod} has not answered within {seconds:g} s"
            raise ApiStatusError(HTTPStatus.GATEWAY_TIMEOUT, why) from error
        except OSError as error:
            raise _unreachable(self._port, str(error)) from error
        if repeats_elsewhere(
            self._method, head.status, response_headers(head.fields, self._port, self._path), self._path
        ):
            why = f"pod {self._port.pod} redirects a {self._method} to a place outside of it, where it is not repeated"
            raise ApiStatusError(HTTPStatus.BAD_GATEWAY, why)
        return head

    @property
    def rest(self) -> bytes:
        """The bytes after the head of an answer that switches protocols."""
        return self._exchange.rest

    def response(self, head: ResponseHead) -> StreamHead:
        """Return the head of the answer for the client."""
        headers = list(response_headers(head.fields, self._port, self._path))
        length = head.headers.get("content-length")
        if length and not head.headers.get("transfer-encoding"):  # chunks count beside a length (RFC 9112 §6.3)
            headers += [] if self._is_changed(head) else [("Content-Length", length)]
        return StreamHead(head.status, tuple(headers))

    def pieces(self, head: ResponseHead, wait: Wait) -> Generator[bytes, None, None]:
        """Yield the body of the answer for the client, with changed links if it is a page.

        Raises:
            ConnectionAbortedError: it breaks off, or the client has disconnected.
        """
        page = bytearray()
        is_changed = self._is_changed(head)
        try:
            for piece in self._gathered(wait):
                if not is_changed:
                    yield piece
                    continue
                page += piece
                if len(page) > LONGEST_PAGE:
                    is_changed = False
                    yield bytes(page)
        except ClientGoneError:
            raise ConnectionAbortedError("the client has disconnected") from None
        except (HttpError, OSError) as error:
            why = self._connection.failure or str(error)
            _log.warning("the answer of pod %s/%s breaks off: %s", self._port.namespace, self._port.pod, why)
            raise ConnectionAbortedError(why) from error
        if is_changed:
            yield with_links(bytes(page), self._path.prefix)

    def _gathered(self, wait: Wait) -> Generator[bytes, None, None]:
        """Yield the body as the pod sends it, small pieces together, and no faster than its turns allow.

        Raises:
            ClientGoneError, HttpError, OSError: see `head`.
        """
        while True:
            piece, count = self._exchange.read_pieces(lambda: self._receive(wait, SILENT_SECONDS), _GATHERED)
            if not piece:
                return
            yield piece
            seconds = self._turns.charge(len(piece), self._clock.monotonic(), -(-count // _PIECES_OF_A_TURN))
            if seconds and wait(None, seconds):
                raise ClientGoneError

    def _is_changed(self, head: ResponseHead) -> bool:
        return is_page(head.fields)

    def _receive(self, wait: Wait, seconds: float) -> bytes:
        """Send the unsent bytes, and return the next ones of the pod, b"" at their end.

        Raises:
            ClientGoneError, TimeoutError, OSError: see `head`.
        """
        deadline = self._clock.monotonic() + seconds
        while True:
            now = self._clock.monotonic()
            data = self._connection.receive(now)  # first: a handshake of TLS may end with it
            while self._unsent and (room := self._connection.room):
                self._connection.send(self._unsent[:room].tobytes())
                self._unsent = self._unsent[room:]
                deadline = now + seconds
            if data:
                return data
            if self._connection.is_over:
                return b""
            if now >= deadline:
                raise TimeoutError(f"nothing was said for {seconds:g} s")
            if wait(self._connection.fileno(), deadline - now):
                raise ClientGoneError


def proxied(
    connect: Callable[[], RelayedStream], port: PodPort, path: ProxiedPath, request: Request, clock: Clock
) -> Reply:
    """Return the reply of a pod.

    Args:
        connect: connects to its port; raises ApiStatusError.
        port: of the pod.
        path: of the request.
        request: of the client.
        clock: for the deadlines.

    Raises:
        ApiStatusError: see `ProxiedRequest.head`.
    """
    connection = connect()
    with contextlib.ExitStack() as undone:
        undone.callback(connection.close)
        try:
            asked = ProxiedRequest(connection, port, path, request, clock)
        except HttpError as error:
            raise ApiStatusError(HTTPStatus.BAD_REQUEST, f"the request cannot be sent: {error.reason}") from error
        reply = (
            _switched(asked, connection, request, clock) if request.header("upgrade") else _streamed(asked, connection)
        )
        undone.pop_all()
        return reply


def _streamed(asked: ProxiedRequest, connection: RelayedStream) -> Stream:
    """Return the reply to a request without an upgrade; its head is awaited where the client can be seen to go."""
    heads: list[ResponseHead] = []

    def begin(peer: Peer) -> StreamHead | Response:
        try:
            head = asked.head(_wait_of(peer))
        except ApiStatusError as error:
            return error.response()
        except ClientGoneError:
            raise ConnectionAbortedError("the client has disconnected") from None
        heads.append(head)
        return asked.response(head)

    return Stream("", lambda peer: asked.pieces(heads[0], _wait_of(peer)), connection.close, begin=begin)


def _switched(asked: ProxiedRequest, connection: RelayedStream, request: Request, clock: Clock) -> Reply:
    """Return the reply to an upgrade. Only after `101 Switching Protocols` do bytes pass as they come."""
    wait = _wait_until(clock.monotonic() + UPGRADE_SECONDS, clock)
    head = asked.head(wait, UPGRADE_SECONDS)
    response = asked.response(head)
    if head.status != HTTPStatus.SWITCHING_PROTOCOLS:
        body = bytearray()
        for piece in asked.pieces(head, wait):
            body += piece
            if len(body) >= _PASSED_BYTES:
                break
        connection.close()
        kept = [each for each in response.headers if each[0].lower() not in ("content-length", "content-type")]
        content_type = head.headers.get("content-type", "")
        return Response(head.status, content_type, bytes(body[:_PASSED_BYTES]), headers=tuple(kept))

    def carry_on(client: socket.socket) -> None:
        lines = ["HTTP/1.1 101 Switching Protocols", "Connection: Upgrade", f"Upgrade: {head.headers.get('upgrade')}"]
        lines += [f"{name}: {value}" for name, value in response.headers]
        client.settimeout(_HEAD_SECONDS)
        client.sendall(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + asked.rest)
        relay(client, connection, request.rest, clock)

    return Takeover(carry_on, connection.close)


def _wait_of(peer: Peer) -> Wait:
    return lambda descriptor, seconds: peer.gone_within(seconds, descriptor)


def _wait_until(deadline: float, clock: Clock) -> Wait:
    """Return a function that waits where the client cannot be seen; after the deadline it raises TimeoutError."""

    def wait(descriptor: int | None, seconds: float) -> bool:
        left = deadline - clock.monotonic()
        if left <= 0:
            raise TimeoutError("the answer has taken too long")
        poll = select.poll()
        if descriptor is not None:
            poll.register(descriptor, select.POLLIN)
        poll.poll(min(seconds, left) * 1000)
        return False

    return wait


def _unreachable(port: PodPort, why: str) -> ApiStatusError:
    text = f"error trying to reach service: pod {port.namespace}/{port.pod}, port {port.port}: {why}"
    return ApiStatusError(HTTPStatus.SERVICE_UNAVAILABLE, text)
