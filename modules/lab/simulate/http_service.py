"""The server's end of a request that crosses no socket."""

import logging
from typing import Final

import msgspec

from beehive.http.errors import HttpStatusError
from beehive.http.request import Request, request_from
from beehive.http.responses import Reply, Response, Stream
from beehive.http.router import HttpService
from beehive.http.server import RequestHead
from beehive.runtime import Runtime
from modules.cloud.client.transport import ApiRequest, ResponseHead
from modules.cloud.client.transport_errors import KubeProtocolError
from modules.lab.simulate.http_exchange import SimulatedExchange
from modules.lab.simulate.http_stream import Streaming

_SERVER: Final = "the simulated API server"
_TEXT: Final = "text/plain; charset=utf-8"

_log = logging.getLogger(__name__)


class Serving:
    """The server's end of a request that is read as text.

    Args:
        service: answers it.
        runtime: has the clock of a watch.
        exchange: the client's end.
    """

    def __init__(self, service: HttpService, runtime: Runtime, exchange: SimulatedExchange) -> None:
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
