"""The Kubernetes API without sockets, for a client in the same process."""

import logging
import threading
from collections.abc import Callable
from http import HTTPStatus
from typing import Final

import msgspec

from beehive.actor import Actor
from beehive.http.errors import HttpStatusError
from beehive.http.request import Request, request_from
from beehive.http.responses import Reply, Response, Stream
from beehive.http.router import HttpService
from beehive.http.server import RequestHead
from beehive.runtime import RunningActor, Runtime
from modules.cloud.apiserver.endpoints.streaming import Streaming
from modules.cloud.client.calls import ApiCall, ApiResult
from modules.cloud.client.in_process import InProcessExchange
from modules.cloud.client.transport import ApiRequest, ResponseHead, ResponseListener
from modules.cloud.client.transport_errors import KubeCutError, KubeProtocolError

_SERVER: Final = "the API server in this process"
_TEXT: Final = "text/plain; charset=utf-8"
_IMPERSONATE: Final = "impersonate-"

MakeCall = Callable[[ApiCall, Callable[[ApiResult], None]], None]
"""Makes a call without waiting; the function is called once with the result, on any thread."""

_log = logging.getLogger(__name__)


class InProcessTransport:
    """A `KubeTransport` to a service in the same process.

    A request with a call goes to the API server as that call. The texts of the others one actor reads, one after the
    other: lists and the beginnings of watches. No thread waits for the changes of a watch, see `Streaming`.

    Args:
        service: the Kubernetes API.
        make: makes the calls of requests that have one.
        runtime: runs the actor, and sets deadlines.
    """

    def __init__(self, service: HttpService, make: MakeCall, runtime: Runtime) -> None:
        self._service = service
        self._make = make
        self._runtime = runtime
        self._lock = threading.Lock()
        self._open: dict[InProcessExchange, None] = {}
        self._reader: RunningActor[_Reader] | None = None
        self._is_closed = False

    def start(self, request: ApiRequest, listener: ResponseListener) -> InProcessExchange:
        """Let the service answer a request; after `close` the listener gets an error at once."""
        exchange = InProcessExchange(request, listener, self._runtime, _SERVER, self._forget)
        with self._lock:
            is_closed = self._is_closed
            if not is_closed:
                self._open[exchange] = None
        if is_closed:
            exchange.fail(self._closed())
        elif request.call is not None and not _is_impersonated(request):
            exchange.sent()
            self._make(request.call, lambda result: _pass_on(result, exchange))
        else:
            self._read(Serving(self._service, self._runtime, exchange))
        return exchange

    def close(self) -> None:
        """End all exchanges with an error."""
        with self._lock:
            self._is_closed = True
            exchanges, reader = list(self._open), self._reader
        for exchange in exchanges:
            exchange.fail(self._closed())
        if reader is not None:
            reader.ask_to_stop()

    def _read(self, serving: "Serving") -> None:
        with self._lock:
            if self._reader is None:
                self._reader = self._runtime.start(_Reader, name="kube-api")
            self._reader.ref.tell(serving.run)

    def _closed(self) -> KubeCutError:
        return KubeCutError("no response of the API server", _SERVER, "the client was closed")

    def _forget(self, exchange: InProcessExchange) -> None:
        with self._lock:
            self._open.pop(exchange, None)


class _Reader(Actor):
    """Calls the functions that it receives."""

    def on_receive(self, message: Callable[[], None]) -> None:
        """Call a function."""
        message()


class Serving:
    """The server's end of a request that is read as text.

    Args:
        service: answers it.
        runtime: has the clock of a watch.
        exchange: the client's end.
    """

    def __init__(self, service: HttpService, runtime: Runtime, exchange: InProcessExchange) -> None:
        self._service = service
        self._runtime = runtime
        self._exchange = exchange

    def run(self) -> None:
        """Answer the request, or begin a watch; it may wait for the API server, but not for changes."""
        exchange = self._exchange
        if exchange.is_done:
            return
        try:
            request = request_of(exchange.request)
            exchange.sent()
            reply = self._service.serve(request)
        except ValueError as error:
            exchange.fail(KubeProtocolError("the request cannot be sent", _SERVER, str(error)))
        except HttpStatusError as error:
            self._whole(Response(error.status, _TEXT, f"{error}\n".encode()))
        except Exception:  # noqa: BLE001 - the client must hear of it
            _log.exception("%s %s failed", exchange.request.method, exchange.request.path.partition("?")[0])
            self._whole(Response(500, _TEXT, b"see the server's log\n"))
        else:
            self._answer(reply)

    def _answer(self, reply: Reply) -> None:
        if isinstance(reply, Response):
            self._whole(reply)
        elif isinstance(reply, Stream) and reply.steps is not None:
            Streaming(reply.content_type, reply.steps, reply.done, self._exchange, self._runtime.clock).begin()
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


def request_of(request: ApiRequest) -> Request:
    """Return a request as a server reads it.

    Raises:
        HttpStatusError: its path cannot be read.
        ValueError: it has no form in HTTP.
    """
    lines = (request.method, request.path, *(text for header in request.headers for text in header))
    if any(not text.isprintable() for text in lines) or " " in request.path:
        raise ValueError("a header or the path has a character that HTTP does not allow")
    headers = tuple((name.lower(), value) for name, value in request.headers)
    read = request_from(RequestHead(request.method, request.path, headers, "1.1"), b"")
    return msgspec.structs.replace(read, body=request.body)


def _is_impersonated(request: ApiRequest) -> bool:
    return any(name.lower().startswith(_IMPERSONATE) for name, _ in request.headers)


def _pass_on(result: ApiResult, exchange: InProcessExchange) -> None:
    """Hand the result of a call to the client, without a text and without warnings, which are for people."""
    refusal, status = result.refusal, HTTPStatus.CREATED if result.created else HTTPStatus.OK
    if refusal is None:
        exchange.head(ResponseHead(status, result=ApiResult(result.object, created=result.created)))
    else:
        kept = {name: value for name, value in refusal.items() if name not in ("kind", "apiVersion")}
        exchange.head(ResponseHead(refusal["code"], result=ApiResult(refusal=kept)))
    exchange.end()
