"""An API server that is reached over HTTP."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final
from urllib.parse import urlencode

from modules.cloud.client.call_requests import collection_path, request_of, result_of
from modules.cloud.client.calls import ApiCall
from modules.cloud.client.http.collection_response import CollectionResponse
from modules.cloud.client.kube_api import CallResponse
from modules.cloud.client.reflector.observations import Observation
from modules.cloud.client.reflector.selection import PAGE_OBJECTS, ListRequest, Selection, WatchRequest
from modules.cloud.client.response_collector import ResponseCollector
from modules.cloud.client.retry import retry_after
from modules.cloud.client.transport import ApiRequest, ApiResponse, Exchange, KubeTransport, ResponseHead

UNREAD_BYTES: Final = 4 * 1024 * 1024
"""Bytes of a watch that wait for the module, above which no more are read from the connection."""

LIST_SECONDS: Final = 60.0
"""Time for a page."""
HEAD_SECONDS: Final = 30.0
"""Time until a watch is accepted; API servers accept one without waiting for a change."""


def collection_request(request: ListRequest | WatchRequest) -> ApiRequest:
    """Return the HTTP request for a page or a watch.

    A list has no resourceVersion, so that it is the newest state, and `limit` counts (it does not with version 0).

    Raises:
        CallError: a name cannot be part of a path.
    """
    if isinstance(request, WatchRequest):
        query = [
            ("watch", "true"),
            ("resourceVersion", request.version),
            ("allowWatchBookmarks", "true"),
            ("timeoutSeconds", str(request.seconds)),
        ]
        return _request(request.selection, query, HEAD_SECONDS, stream=True)
    query = [("limit", str(PAGE_OBJECTS))] if request.paged else []
    if request.token:
        query.append(("continue", request.token))
    return _request(request.selection, query, LIST_SECONDS, stream=False)


def _request(selection: Selection, query: list[tuple[str, str]], seconds: float, *, stream: bool) -> ApiRequest:
    selectors = [("fieldSelector", selection.field_selector), ("labelSelector", selection.label_selector)]
    fields = urlencode([*query, *(each for each in selectors if each[1])])
    path = collection_path(selection.kind.api_version, selection.kind.plural, selection.namespace)
    return ApiRequest(
        method="GET",
        path=f"{path}?{fields}" if fields else path,
        headers=(("Accept", "application/json"),),
        timeout=seconds,
        stream=stream,
    )


class HttpKubeApi:
    """The calls, lists and watches of an API server as HTTP requests (`KubeApi`).

    Args:
        transport: carries the requests; closed with this.
    """

    def __init__(self, transport: KubeTransport) -> None:
        self._transport = transport

    collects = False

    def send(self) -> None:
        """Do nothing: each call is a request of its own."""

    def call(self, call: ApiCall, ended: Callable[[CallResponse | Exception], None]) -> None:
        """Make a call; see `KubeApi`.

        Raises:
            CallError: it has no form as a request.
        """
        self._transport.start(request_of(call), ResponseCollector(partial(_pass_on, call, ended)))

    def read(self, request: ListRequest | WatchRequest, woken: Callable[[], None]) -> "HttpReading":
        """Ask for a page, or begin a watch; see `KubeApi`.

        Raises:
            CallError: a name cannot be part of a path.
        """
        reading = HttpReading(woken, is_watch=isinstance(request, WatchRequest))
        reading.exchange = self._transport.start(collection_request(request), reading)
        return reading

    def close(self) -> None:
        """End all requests."""
        self._transport.close()


class HttpReading:
    """The response to a list or a watch, on its way from the transport's thread to the module's (`Reading`,
    `ResponseListener`). A page wakes the module when it is complete, a watch with each piece; the connection is not
    read further while the module is behind.

    Args:
        woken: see `KubeApi.read`.
        is_watch: whether it is a watch, or else a page of a list.
    """

    def __init__(self, woken: Callable[[], None], *, is_watch: bool) -> None:
        self.exchange: Exchange | None = None
        self._woken = woken
        self._is_watch = is_watch
        self._response = CollectionResponse(is_watch=is_watch)
        self._parts: deque[_Part] = deque()
        """Parts of the response that the module has not taken."""
        self._received = self._taken = 0
        """Bytes of a watch, each counted by one thread."""
        self._is_paused = False

    def on_head(self, head: ResponseHead) -> None:
        """Keep the beginning."""
        self._parts.append(head)

    def on_data(self, data: bytes) -> None:
        """Keep a piece, and wake the module if it is one of a watch."""
        self._parts.append(data)
        if self._is_watch:
            self._received += len(data)
            if self._received - self._taken > UNREAD_BYTES and self.exchange is not None and not self._is_paused:
                self.exchange.pause()  # before the module may resume it: its turn may come between the two lines
                self._is_paused = True
            self._woken()

    def on_end(self) -> None:
        """Keep the end, and wake the module."""
        self._parts.append(None)
        self._woken()

    def on_error(self, error: Exception) -> None:
        """Keep the error, and wake the module."""
        self._parts.append(error)
        self._woken()

    def receive(self) -> Sequence[Observation]:
        """Return the observations in the received parts: of a page all together, of a watch piece by piece."""
        found: list[Observation] = []
        while self._parts:
            part = self._parts.popleft()
            found += self._observations(part)
            if isinstance(part, bytes) and self._is_watch:
                self._read_on(len(part))
                break
        return found

    def cancel(self) -> None:
        """End the request."""
        if self.exchange is not None:
            self.exchange.cancel()
        self._parts.clear()

    def _observations(self, part: "_Part") -> Iterator[Observation]:
        match part:
            case bytes():
                yield from self._response.on_data(part)
            case ResponseHead():
                self._response.on_head(part)
            case None:
                yield from self._response.on_end()
            case _:
                yield from self._response.on_error(part)

    def _read_on(self, taken: int) -> None:
        self._taken += taken
        if self._is_paused and self._received - self._taken <= UNREAD_BYTES // 2 and self.exchange is not None:
            self._is_paused = False
            self.exchange.resume()


_Part = ResponseHead | bytes | Exception | None


"""A part of a response: its beginning, a piece of its body, the reason why it is not complete, or its end."""


def _pass_on(
    call: ApiCall, ended: Callable[[CallResponse | Exception], None], response: ApiResponse | Exception
) -> None:
    if isinstance(response, Exception):
        ended(response)
        return
    result = result_of(response, is_passed_on=call.is_passed_on)
    ended(CallResponse(response.head.status, result, retry_after(response.head)))
