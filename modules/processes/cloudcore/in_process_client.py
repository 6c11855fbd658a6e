"""Clients of an API server in this process: they call its HTTP service, without a connection."""

from __future__ import annotations

import select
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from beehive.http.errors import HttpStatusError
from beehive.http.forwarding import Fields
from beehive.http.request import Request, request_from
from beehive.http.responses import Response, Stream, Takeover
from beehive.http.router import HttpService
from beehive.http.server import RequestHead
from modules.cli.errors import KubectlError
from modules.cli.rest import JSON, RestClient, status_error, target_of
from modules.processes.cloudcore.control_client import ControlClient

if TYPE_CHECKING:
    from modules.cli.rest import Query

_LOOK_SECONDS: Final = 1.0
"""Longest wait of a stream until it notes that it is to end."""
_HERE: Final = Path("this process")


class Credentials(NamedTuple):
    """The credentials of a request; none for the service of an administrator."""

    authorization: str = ""
    """The header."""
    certificate: Mapping[str, Any] | None = None
    """The verified client certificate."""


class LocalPeer:
    """The client of streams in this process (`Peer`), until it is closed."""

    def __init__(self) -> None:
        self._ended = threading.Event()

    def close(self) -> None:
        """End the streams, as soon as they look."""
        self._ended.set()

    def gone_within(self, seconds: float, wake: int | None = None) -> bool:
        """See `Peer`; a stream without a descriptor waits."""
        if wake is None:
            return self._ended.wait(seconds)
        if not self._ended.is_set():
            poll = select.poll()
            poll.register(wake, select.POLLIN)
            poll.poll(min(seconds, _LOOK_SECONDS) * 1000)
        return self._ended.is_set()


class InProcessClient(RestClient):
    """A client of a service of the Kubernetes API.

    Args:
        service: the service.
        credentials: of the user whose requests they are.
        peer: ends the watches.
    """

    def __init__(self, service: HttpService, credentials: Credentials, peer: LocalPeer) -> None:
        super().__init__(_HERE)
        self._service = service
        self._credentials = credentials
        self._peer = peer

    def exchange(self, method: str, target: str, body: bytes, content_type: str, most: int) -> bytes:
        """See `RestClient`."""
        data = bytearray()
        with self._pieces(method, target, body, content_type) as pieces:
            for piece in pieces:
                data += piece
                if len(data) > most:
                    break
        return bytes(data)

    def lines(self, path: str, query: Query = (), *, ends: float | None = None) -> Iterator[bytes]:  # noqa: ARG002 - of `RestClient`
        """See `RestClient`; the peer ends them, and not a time."""
        with self._pieces("GET", target_of(path, query), b"", JSON) as pieces:
            for piece in pieces:
                yield from piece.splitlines()

    @contextmanager
    def _pieces(self, method: str, target: str, body: bytes, content_type: str) -> Iterator[Iterator[bytes]]:
        """Yield the pieces of an answer. Raises KubectlError."""
        reply = answered(self._service, method, target, self._credentials, body, content_type)
        if isinstance(reply, Response):
            if reply.status >= 300:
                raise status_error(reply.status, reply.body)
            yield iter((reply.body,))
            return
        try:
            yield reply.pieces(self._peer)
        finally:
            reply.done()


class InProcessControl(ControlClient):
    """A client of a service for cloudcore's own facts.

    Args:
        service: the service.
        credentials: of the user whose requests they are.
    """

    def __init__(self, service: HttpService, credentials: Credentials) -> None:
        super().__init__(_HERE)
        self._service = service
        self._credentials = credentials

    def request(self, method: str, target: str, body: bytes = b"", media: str = JSON) -> tuple[int, bytes]:
        """See `ControlClient`."""
        reply = answered(self._service, method, target, self._credentials, body, media)
        if isinstance(reply, Stream):
            reply.done()
            raise KubectlError("cloudcore's own facts are no streams")
        return reply.status, reply.body


def answered(
    service: HttpService, method: str, target: str, credentials: Credentials, body: bytes, media: str
) -> Response | Stream:
    """Return the reply of a service to a request. Raises KubectlError if the service takes the connection over."""
    try:
        reply = service.serve(request_of(method, target, credentials, body, media))
    except HttpStatusError as refusal:
        return Response(refusal.status, "text/plain", str(refusal).encode())
    if isinstance(reply, Takeover):
        reply.done()
        raise KubectlError("the server wants to take the connection over")
    return reply


def request_of(
    method: str, target: str, credentials: Credentials, body: bytes = b"", media: str = JSON, fields: Fields = ()
) -> Request:
    """Return a request in a user's name, with further headers. Raises HttpStatusError if it names nothing."""
    headers = [
        ("host", "localhost"),
        ("accept", JSON),
        ("content-type", media),
        ("user-agent", "edgecore-page"),
        *fields,
    ]
    if credentials.authorization:
        headers.append(("authorization", credentials.authorization))
    request = request_from(RequestHead(method, target, tuple(headers), "1.1"), b"")
    return msgspec.structs.replace(request, body=body, certificate=credentials.certificate)
