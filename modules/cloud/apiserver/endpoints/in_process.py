"""The Kubernetes API without sockets, for a client in the same process."""

import logging
import select
import threading
from typing import Final

import msgspec

from beehive.http.server import RequestHead
from beehive.runtime import Future, Runtime
from edged.server.errors import RequestError
from edged.server.request import Request, request_from
from edged.server.responses import Reply, Response, Stream
from edged.server.router import HttpService
from modules.cloud.apiserver.endpoints.subscriptions import Subscriptions
from modules.cloud.client.in_process import InProcessExchange, settle, wait
from modules.cloud.client.transport import ApiRequest, ResponseHead, ResponseListener
from modules.cloud.client.transport_errors import KubeCutError, KubeProtocolError

_SERVER: Final = "the API server in this process"
_TEXT: Final = "text/plain; charset=utf-8"

_log = logging.getLogger(__name__)


class InProcessTransport:
    """A `KubeTransport` to a service in the same process; each request is served by an actor of its own.

    Args:
        service: the Kubernetes API.
        subscriptions: those of the service: their changes wake its watches.
        runtime: runs the requests, and sets their deadlines.
    """

    def __init__(self, service: HttpService, subscriptions: Subscriptions, runtime: Runtime) -> None:
        self._service = service
        self._subscriptions = subscriptions
        self._runtime = runtime
        self._lock = threading.Lock()
        self._open: dict[InProcessExchange, None] = {}
        self._is_closed = False

    def start(self, request: ApiRequest, listener: ResponseListener) -> InProcessExchange:
        """Let the service answer a request; after `close` the listener hears an error at once."""
        exchange = InProcessExchange(request, listener, self._runtime, _SERVER)
        exchange.ended = lambda: self._forget(exchange)
        with self._lock:
            is_closed = self._is_closed
            if not is_closed:
                self._open[exchange] = None
        if is_closed:
            exchange.fail(self._closed())
            return exchange
        serving = Serving(self._service, self._subscriptions, self._runtime, exchange)
        self._runtime.call(serving.run, name="kube-api")
        return exchange

    def close(self) -> None:
        """End all exchanges with an error."""
        with self._lock:
            self._is_closed = True
            exchanges = list(self._open)
        for exchange in exchanges:
            exchange.fail(self._closed())

    def _closed(self) -> KubeCutError:
        return KubeCutError("no response of the API server", _SERVER, "the client was closed")

    def _forget(self, exchange: InProcessExchange) -> None:
        with self._lock:
            self._open.pop(exchange, None)


class Serving:
    """The server's end of a request.

    Args:
        service: answers it.
        subscriptions: those of the service.
        runtime: makes the futures on which a watch waits.
        exchange: the client's end.
    """

    def __init__(
        self, service: HttpService, subscriptions: Subscriptions, runtime: Runtime, exchange: InProcessExchange
    ) -> None:
        self._service = service
        self._subscriptions = subscriptions
        self._runtime = runtime
        self._exchange = exchange
        self._woken: Future[None] | None = None
        exchange.woken = self._wake

    def run(self) -> None:
        """Answer the request; a watch until its end."""
        exchange = self._exchange
        try:
            request = request_of(exchange.request)
            exchange.is_sent = True
            reply = self._service.serve(request)
        except ValueError as error:
            exchange.fail(KubeProtocolError("the request cannot be sent", _SERVER, str(error)))
        except RequestError as error:
            self._whole(Response(error.status, _TEXT, f"{error}\n".encode()))
        except Exception:  # noqa: BLE001 - the client must hear of it
            _log.exception("%s %s failed", exchange.request.method, exchange.request.path.partition("?")[0])
            self._whole(Response(500, _TEXT, b"see the server's log\n"))
        else:
            self._answer(reply)

    def gone_within(self, seconds: float, wake: int | None = None) -> bool:
        """Wait for the client's end, or a change (`Peer`)."""
        self._exchange.wait_until_read()
        woken = self._woken = self._runtime.future()
        with self._subscriptions.calling(wake, lambda: settle(woken)):
            if not self._exchange.is_done and not (wake is not None and _is_readable(wake)):
                wait(woken, seconds)
        self._woken = None
        return self._exchange.is_done

    def _answer(self, reply: Reply) -> None:
        if isinstance(reply, Response):
            self._whole(reply)
        elif isinstance(reply, Stream):
            self._stream(reply)
        else:
            reply.done()
            self._whole(Response(501, _TEXT, b"no connection can be taken over here\n"))

    def _whole(self, response: Response) -> None:
        exchange = self._exchange
        headers = [("content-type", response.content_type), *((name.lower(), text) for name, text in response.headers)]
        exchange.head(ResponseHead(response.status, tuple(headers)))
        if response.body and exchange.request.method != "HEAD":
            exchange.data(response.body)
        exchange.end()

    def _stream(self, stream: Stream) -> None:
        exchange = self._exchange
        try:
            exchange.head(ResponseHead(200, (("content-type", stream.content_type),)))
            for piece in stream.pieces(self):
                exchange.wait_until_read()
                if exchange.is_done:
                    return
                exchange.data(piece)
            exchange.end()
        finally:
            stream.done()

    def _wake(self) -> None:
        woken = self._woken
        if woken is not None:
            settle(woken)


def request_of(request: ApiRequest) -> Request:
    """Return a request as a server reads it.

    Raises:
        RequestError: its path cannot be read.
        ValueError: it has no form in HTTP.
    """
    lines = (request.method, request.path, *(text for header in request.headers for text in header))
    if any(not text.isprintable() for text in lines) or " " in request.path:
        raise ValueError("a header or the path has a character that HTTP does not allow")
    headers = tuple((name.lower(), value) for name, value in request.headers)
    read = request_from(RequestHead(request.method, request.path, headers, "1.1"), b"")
    return msgspec.structs.replace(read, body=request.body)


def _is_readable(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))
