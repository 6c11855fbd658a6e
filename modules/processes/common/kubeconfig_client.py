"""Clients of the API server of a kubeconfig, with its user's rights."""

from __future__ import annotations

import queue
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Final

from modules.cli.errors import KubectlError, UnreachableError
from modules.cli.rest import RestClient, status_error, target_of
from modules.cloud.client.response_collector import ResponseCollector
from modules.cloud.client.transport import ApiRequest, ApiResponse, ResponseHead

if TYPE_CHECKING:
    from collections.abc import Iterator

    from beehive.clock import Clock
    from modules.cli.rest import Query
    from modules.cloud.client.http.transport import HttpTransport
    from modules.cloud.client.kubeconfig.model import Selected
    from modules.cloud.client.transport import KubeTransport

_HERE: Final = Path("kubeconfig")
_SECONDS: Final = 60.0
_SILENCE: Final = 240.0
"""Seconds without a byte after which a watch counts as broken: the page's watches end after half of it."""
_LONGEST_LINE: Final = 16 * 1024 * 1024
_MOST_AHEAD: Final = 4096
"""Pieces of a watch that wait to be read."""


class KubeconfigClient(RestClient):
    """A client of a kubeconfig's API server.

    Args:
        transport: to the server, as the kubeconfig's user.
        headers: of each request.
    """

    def __init__(self, transport: KubeTransport, headers: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(_HERE)
        self._transport = transport
        self._headers = headers

    def exchange(self, method: str, target: str, body: bytes, content_type: str, most: int) -> bytes:  # noqa: ARG002 - the transport bounds it
        """See `RestClient`."""
        answer = answered(self._transport, method, target, body, content_type, self._headers)
        if answer.head.status >= HTTPStatus.MULTIPLE_CHOICES:
            raise status_error(answer.head.status, answer.body)
        return answer.body

    def lines(self, path: str, query: Query = (), *, ends: float | None = None) -> Iterator[bytes]:  # noqa: ARG002 - of `RestClient`
        """See `RestClient`; the server ends them, and not a time."""
        pieces = _Pieces()
        request = ApiRequest(
            method="GET", path=target_of(path, query), headers=self._headers, timeout=_SECONDS, stream=True,
            silence=_SILENCE,
        )  # fmt: skip
        exchange, rest, refusal = self._transport.start(request, pieces), b"", 0
        try:
            while (piece := pieces.next()) is not None:
                if isinstance(piece, ResponseHead):
                    refusal = piece.status if piece.status >= HTTPStatus.MULTIPLE_CHOICES else 0
                    continue
                *whole, rest = (rest + piece).split(b"\n") if not refusal else (rest + piece,)
                if len(rest) > _LONGEST_LINE:
                    raise KubectlError(f"a line of the answer is longer than {_LONGEST_LINE >> 20} MiB")
                yield from (line for line in whole if line.strip())
        finally:
            exchange.cancel()
        if refusal:
            raise status_error(refusal, rest)


class _Pieces:
    """The pieces of a stream, kept until they are read (`ResponseListener`)."""

    def __init__(self) -> None:
        self._pieces: queue.SimpleQueue[ResponseHead | bytes | Exception | None] = queue.SimpleQueue()

    def next(self) -> ResponseHead | bytes | None:
        """Wait for the next piece and return it, None at the end. Raises UnreachableError."""
        piece = self._pieces.get()
        if isinstance(piece, Exception):
            raise UnreachableError(str(piece)) from piece
        return piece

    def on_head(self, head: ResponseHead) -> None:
        """See `ResponseListener`."""
        self._pieces.put(head)

    def on_data(self, data: bytes) -> None:
        """See `ResponseListener`."""
        if self._pieces.qsize() < _MOST_AHEAD:
            self._pieces.put(data)
        elif self._pieces.qsize() == _MOST_AHEAD:
            self._pieces.put(KubectlError("the watch is slower than its changes"))

    def on_end(self) -> None:
        """See `ResponseListener`."""
        self._pieces.put(None)

    def on_error(self, error: Exception) -> None:
        """See `ResponseListener`."""
        self._pieces.put(error)


def transport_of(kubeconfig: Path, context: str, clock: Clock, agent: str) -> tuple[Selected, HttpTransport]:
    """Return the choice of a kubeconfig and a transport to its server, which the caller closes. Raises BeehiveError."""
    from beehive.runtime import Threads  # noqa: PLC0415 - not for a transport that is there
    from modules.cloud.client.http.factory import http_transport  # noqa: PLC0415
    from modules.cloud.client.kubeconfig import reading  # noqa: PLC0415

    selected = reading.load([kubeconfig]).select(context)
    return selected, http_transport(selected, Threads(clock), agent)


def answered(
    transport: KubeTransport,
    method: str,
    target: str,
    body: bytes,
    media: str,
    headers: tuple[tuple[str, str], ...] = (),
) -> ApiResponse:
    """Return the response to a request. Raises UnreachableError."""
    ends: queue.SimpleQueue[ApiResponse | Exception] = queue.SimpleQueue()
    if body:
        headers = (*headers, ("Content-Type", media))
    request = ApiRequest(method=method, path=target, headers=headers, body=body, timeout=_SECONDS)
    transport.start(request, ResponseCollector(ends.put))
    end = ends.get()
    if isinstance(end, Exception):
        raise UnreachableError(str(end)) from end
    return end
