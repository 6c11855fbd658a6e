"""Starts edged's local server: reading requests on a TCP port, all requests on a socket for the node's owner."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from beehive import Hive
from beehive.http.browser_guard import BrowserGuard
from beehive.http.http_server import MAX_CONNECTIONS, MAX_STREAMS, HttpServer
from beehive.http.listening import listen_tcp, listen_unix
from beehive.http.router import HttpRoute, Router
from edged.server.routes import acting_routes, reading_routes
from edged.server.snapshots import Snapshots
from edged.server.streaming import StreamingSettings
from modules.processes.common.version import KUBELET_VERSION
from modules.processes.edgecore.config import EdgeCoreConfig
from modules.processes.edgecore.config.names import host_name
from modules.processes.edgecore.config.section import plain
from modules.processes.edgecore.socket_path import socket_path

if TYPE_CHECKING:
    from beehive.http.request import Request
    from beehive.http.responses import Reply
    from beehive.http.router import HttpService
    from modules.edge.metaserver.on_demand import ApiOnDemand

MAX_BODY: Final = 3 * 1024 * 1024
"""Largest object in a write request, in bytes (an API server's limit)."""

_API: Final = ("api", "apis", "version")
"""First parts of the API's paths; no path of a kubelet has one of them."""


class OwnerService:
    """The service that passes requests to the API or to the kubelet's paths (`HttpService`).

    The API's code is imported with its first request: a node without requests does not carry it.

    Args:
        config: of the node; names its database.
        hive: has the clock, and the hub for requests to the cloud.
        snapshots: statuses of pods and node.
        paths: serves the kubelet's paths.
    """

    def __init__(self, config: EdgeCoreConfig, hive: Hive, snapshots: Snapshots, paths: HttpService) -> None:
        self._config = config
        self._hive = hive
        self._snapshots = snapshots
        self._paths = paths
        self._lock = threading.Lock()
        self._api: ApiOnDemand | None = None

    def serve(self, request: Request) -> Reply:
        """Return the reply. RequestErrors of the kubelet's paths are raised."""
        if request.parts[:1] and request.parts[0] in _API:
            return self._made_api().serve(request)
        return self._paths.serve(request)

    def close(self) -> None:
        """Release the API."""
        if self._api is not None:
            self._api.close()

    def _made_api(self) -> ApiOnDemand:
        from modules.processes.edgecore.owner_api import make_api  # noqa: PLC0415

        with self._lock:
            if self._api is None:
                self._api = make_api(self._config, self._hive, self._snapshots, KUBELET_VERSION)
            return self._api


def serve(
    config: EdgeCoreConfig,
    hive: Hive,
    snapshots: Snapshots,
    metrics: Callable[[], bytes],
    stack: ExitStack,
    owners: Iterable[HttpRoute] = (),
) -> None:
    """Serve until the stack ends; `owners` are further routes of the owner's socket.

    Raises:
        ServerError: the address or the socket cannot be listened on.
    """
    edged = config.modules.edged
    kubelet = edged.tailored_kubelet_config
    reading = reading_routes(
        snapshots,
        hive,
        hive.clock,
        metrics=metrics,
        configuration=plain(kubelet),
        sync_period=kubelet.sync_frequency,
        debugging=kubelet.enable_debugging_handlers,
    )
    redirect = edged.redirect_container_streaming and not config.modules.edge_stream.enable  # API servers take no 302
    streaming = StreamingSettings(redirect=redirect, idle=kubelet.streaming_connection_idle_timeout)
    acting = acting_routes(snapshots, hive.clock, streaming, debugging=kubelet.enable_debugging_handlers)
    if kubelet.read_only_port:
        routes = reading + (acting if edged.streaming_on_read_only_port else [])
        guarded = BrowserGuard(Router(routes), {config.node_name, host_name()})
        _start(HttpServer(listen_tcp(kubelet.address, kubelet.read_only_port), guarded, hive.clock), stack)
    if edged.enable:
        path = socket_path(config)
        stack.callback(path.unlink, missing_ok=True)
        service = OwnerService(config, hive, snapshots, Router([*reading, *acting, *owners]))
        stack.callback(service.close)
        from_tunnel = config.modules.edge_stream.max_streams if config.modules.edge_stream.enable else 0
        server = HttpServer(
            listen_unix(path),
            service,
            hive.clock,
            max_body=MAX_BODY,
            max_connections=MAX_CONNECTIONS + from_tunnel,  # all of them may be opened together
            max_streams=MAX_STREAMS + from_tunnel,
        )
        _start(server, stack)


def _start(server: HttpServer, stack: ExitStack) -> None:
    server.start()
    stack.callback(server.stop)
