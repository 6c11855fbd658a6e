"""The module `health-server`."""

from http import HTTPStatus
from typing import ClassVar, Final

from beehive import State
from beehive.http.http_server import HttpServer
from beehive.http.listening import listen_tcp
from beehive.http.request import Request
from beehive.http.responses import Response, text
from beehive.http.router import HttpRoute, Router
from beehive.module import Module
from modules.processes.cloudcore.counters import Counters
from modules.processes.cloudcore.metrics import exposition
from modules.processes.common.service_manager import dead_modules

OPTION: Final = "--metrics-bind-address"
"""The option that chooses the address, with kube-controller-manager's and controller-runtime's name."""
_PROMETHEUS: Final = "text/plain; version=0.0.4; charset=utf-8"


class HealthServer(Module):
    """The module that serves `/livez`, `/readyz`, `/healthz` and `/metrics` over plain HTTP, for a kubelet's probes and
    Prometheus.

    cloudcore is live while no module has failed, and ready when each is. The paths need no credentials and show neither
    objects nor names of nodes.

    Args:
        address: IPv4 or IPv6 address.
        port: TCP port; 0 takes a free one.
        counters: of cloudcore.
        bound: is given the host and the port when the module listens.
    """

    name: ClassVar[str] = "health-server"
    group: ClassVar[str] = "health-server"

    def __init__(self, address: str, port: int, counters: Counters, bound: list[tuple[str, int]]) -> None:
        super().__init__()
        self._address = address
        self._port = port
        self._counters = counters
        self._bound = bound
        self._server: HttpServer | None = None

    def on_start(self) -> None:
        """Start to listen; after a restart, on the same port.

        Raises:
            ServerError: the address cannot be listened on.
        """
        port = self._bound[0][1] if self._bound else self._port
        self._server = HttpServer(listen_tcp(self._address, port, OPTION), self._router(), self.clock)
        self._bound[:] = [(self._address, self._server.port)]
        self._server.start()

    def on_end(self) -> None:
        """Close the port and all connections."""
        server, self._server = self._server, None
        if server is not None:
            server.stop()

    def _router(self) -> Router:
        live = ("/livez", "/healthz")
        return Router(
            [
                *(HttpRoute(path, lambda _request: verdict(dead_modules(self.hive))) for path in live),
                HttpRoute("/readyz", lambda _request: verdict(self._unready())),
                HttpRoute("/metrics", self._metrics),
            ]
        )

    def _unready(self) -> list[str]:
        states = self.hive.readiness().items()
        return [
            f"module {name} is {one.state} {one.reason}".rstrip() for name, one in states if one.state != State.READY
        ]

    def _metrics(self, _request: Request) -> Response:
        return Response(HTTPStatus.OK, _PROMETHEUS, exposition(self.hive, self._counters).encode())


def verdict(faults: list[str]) -> Response:
    """Return the response of a health check: `ok`, or 503 with a line for each fault."""
    if not faults:
        return text(HTTPStatus.OK, "ok")
    return text(HTTPStatus.SERVICE_UNAVAILABLE, "".join(f"{fault}\n" for fault in faults))
