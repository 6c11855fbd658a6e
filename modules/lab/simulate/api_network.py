"""The connections between cloudcore and the API server of a simulated cluster, and all their failures."""

from typing import TYPE_CHECKING

import msgspec

from beehive.runtime import Runtime
from modules.cloud.client.http.kube_api import HttpKubeApi
from modules.cloud.client.transport import ApiRequest, ResponseHead, ResponseListener
from modules.cloud.client.transport_errors import KubeConnectError, KubeCutError, KubeTransportError
from modules.lab.simulate.http_exchange import SimulatedExchange
from modules.lab.simulate.world import Process

if TYPE_CHECKING:
    from collections.abc import Callable

    from modules.lab.simulate.api_server import SimulatedApiServer
    from modules.lab.simulate.world import World

_SERVER = "the simulated API server"
_LATENCY = 0.003
_SLOW = 1.0
"""Seconds above which an answer is slow, and noted as such."""
_FAILURES = (500, 502, 503, 504)
"""The answer of an API server, or of a proxy before it, when etcd does not answer in time."""
_NOT_CARRIED_OUT = 0.5
"""Share of the failed writes that have no effect."""
_FOREVER = 1e9
"""Seconds: the client's end has the deadline."""
_LIMIT, _PAGE = "limit=500", "limit=3"
"""The client's limit, and the limit that replaces it, so that lists of a few objects have several pages."""
_JSON = (("content-type", "application/json"),)


class ApiNetwork:
    """The state of the way to the API server; faults change it.

    Args:
        world: source of time and randomness.
        server: the API server.
    """

    def __init__(self, world: "World", server: "SimulatedApiServer") -> None:
        self.world = world
        self.server = server
        self.away = 0
        """Number of active faults that let it refuse connections; below, too, such numbers and sums of shares."""
        self.unreachable = 0
        self.slow = 0.0
        """Additional seconds of each answer, at most."""
        self.cuts = 0.0
        self.loses = 0.0
        self.busy = 0.0
        self.fails = 0.0
        self.cuts_watches = 0.0
        self.silent = 0
        self.expires = 0.0
        self.open: list[ApiConnection] = []
        server.stopped.append(self._server_stopped)

    def connect(self, process: Runtime) -> HttpKubeApi:
        """Return a client for a process of cloudcore."""
        return HttpKubeApi(SimulatedTransport(self, process))

    def delay(self) -> float:
        """Draw the seconds of one way."""
        return _LATENCY + self.world.random.uniform(0, _LATENCY + self.slow)

    def happens(self, share: float) -> bool:
        """Draw whether an event with a probability of `share` happens."""
        return share > 0 and self.world.random.random() < share

    def end_all(self) -> None:
        """End the connections of processes that were killed, without telling their listeners."""
        for connection in list(self.open):
            if not (isinstance(connection.process, Process) and connection.process.alive):
                connection.exchange.cancel()

    def _server_stopped(self) -> None:
        for connection in list(self.open):
            connection.break_off()


class SimulatedTransport:
    """A `KubeTransport` over the network.

    Args:
        network: the way to the server.
        process: of the client; it ends with it.
    """

    def __init__(self, network: ApiNetwork, process: Runtime) -> None:
        self._network = network
        self._process = process
        self._started: list[SimulatedExchange] = []

    def start(self, request: ApiRequest, listener: ResponseListener) -> SimulatedExchange:
        """Send a request."""
        connection = ApiConnection(self._network, self._process, request, listener)
        self._started = [each for each in self._started if not each.is_done]
        self._started.append(connection.exchange)
        connection.begin()
        return connection.exchange

    def close(self) -> None:
        """End all exchanges with an error."""
        for exchange in self._started:
            if not exchange.is_done:
                exchange.fail(_cut("the client was closed"))


class ApiConnection:
    """One request on its way, and the pieces of its response, which keep their order (`ResponseListener`).

    Args:
        network: the way.
        process: of the client.
        request: the request.
        listener: takes the response at the client.
    """

    def __init__(self, network: ApiNetwork, process: Runtime, request: ApiRequest, listener: ResponseListener) -> None:
        self.exchange = SimulatedExchange(request, listener, process, _SERVER, self._ended)
        self.process = process
        self._network = network
        self._world = network.world
        self._server_end: SimulatedExchange | None = None
        self._began = self._free_at = network.world.now()
        self._is_dead = False
        """Whether nothing more arrives at the client."""
        self._loses_answer = False
        self._fails_with = 0
        """The status of its answer although it is carried out; 0: the server's own."""

    def begin(self) -> None:
        """Send the request."""
        self._network.open.append(self)
        self._world.at(self._world.now() + self._network.delay(), self._arrive)

    def break_off(self) -> None:
        """Break the connection; the client notices it soon."""
        self._send(lambda: self.exchange.fail(_cut("the connection was closed")))
        self._is_dead = True

    def on_head(self, head: ResponseHead) -> None:
        """Take the beginning of the server's response."""
        if self._loses_answer:
            self.break_off()
            return
        if self._fails_with:
            self._fail(self._fails_with)
            self._is_dead = True
            return
        self._send(lambda: self.exchange.head(head))
        took = self._free_at - self._began
        if took > _SLOW:
            self._log(f"{head.status} after {took:.1f} s to")

    def on_data(self, data: bytes) -> None:
        """Take a piece."""
        network = self._network
        if self.exchange.request.stream and network.silent and not self._is_dead:
            self._log("silent from now on:")
            self._is_dead = True
        if self.exchange.request.stream and network.happens(network.cuts_watches):
            self._log("breaks within an event:")
            half = data[: self._world.random.randrange(len(data))]
            self._send(lambda: self.exchange.data(half))
            self.break_off()
        else:
            self._send(lambda: self.exchange.data(data))

    def on_end(self) -> None:
        """Take the end."""
        self._send(self.exchange.end)

    def on_error(self, error: Exception) -> None:
        """Take the server's failure."""
        self._world.log_line("api", f"a request failed: {error}")
        self.break_off()

    def _arrive(self) -> None:
        network, exchange = self._network, self.exchange
        if exchange.is_done:
            return
        if network.unreachable:
            self._log("no answer to")
            return
        if network.away or network.server.process is None:
            self._log("refused:")
            self._send(lambda: exchange.fail(_refused()))
            return
        exchange.sent()
        if network.happens(network.cuts):
            self._log("breaks before")
            self.break_off()
        elif network.happens(network.busy):
            self._answer(429, "too many requests", (*_JSON, ("retry-after", str(self._world.random.randint(1, 3)))))
        elif network.happens(network.fails):
            self._fails_with = self._world.random.choice(_FAILURES)
            if exchange.request.method == "GET" or self._world.random.random() < _NOT_CARRIED_OUT:
                self._fail(self._fails_with)
            else:
                self._serve()
        else:
            self._serve()

    def _fail(self, status: int) -> None:
        self._answer(status, "etcdserver: request timed out")

    def _serve(self) -> None:
        network, request = self._network, self.exchange.request
        if "continue=" in request.path and network.happens(network.expires):
            self._answer(410, "The provided continue parameter is too old")
            return
        self._loses_answer = not request.stream and network.happens(network.loses)
        served = msgspec.structs.replace(
            request, path=request.path.replace(_LIMIT, _PAGE), timeout=_FOREVER, silence=0.0
        )
        process = network.server.process
        assert process is not None  # noqa: S101 - seen by the caller
        self._log("<-")
        self._server_end = SimulatedExchange(served, self, process, _SERVER)
        network.server.serve(self._server_end)

    def _answer(self, status: int, message: str, headers: tuple[tuple[str, str], ...] = _JSON) -> None:
        """Answer in the server's place."""
        content = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": status, "message": message}
        self._log(f"{status} to")
        self._send(lambda: self.exchange.head(ResponseHead(status, headers)))
        self._send(lambda: self.exchange.data(msgspec.json.encode(content)))
        self._send(self.exchange.end)

    def _log(self, what: str) -> None:
        request = self.exchange.request
        path = request.path.partition("?")[0]
        self._world.log_line("api", f"{what} {request.method} {path}{' (watch)' * request.stream}")

    def _send(self, tell: "Callable[[], None]") -> None:
        if self._is_dead:
            return
        due = self._free_at = max(self._free_at, self._world.now() + self._network.delay())
        self._world.at(due, tell)

    def _ended(self, _exchange: SimulatedExchange) -> None:
        if self in self._network.open:
            self._network.open.remove(self)
        server_end = self._server_end
        if server_end is not None and not server_end.is_done:
            self._world.at(self._world.now() + self._network.delay(), server_end.cancel)


def _cut(why: str) -> KubeTransportError:
    return KubeCutError("no response of the API server", _SERVER, why)


def _refused() -> KubeTransportError:
    return KubeConnectError("cannot connect to the API server", _SERVER, "connection refused")
