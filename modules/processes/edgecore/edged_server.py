"""Starts edged's local server: reading requests on a TCP port, all requests on a socket for the node's owner."""

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Any

from beehive import Hive
from beehive.http.browser_guard import BrowserGuard
from beehive.http.http_server import MAX_CONNECTIONS, MAX_STREAMS, HttpServer
from beehive.http.listening import listen_tcp, listen_unix
from beehive.http.router import HttpRoute, Router
from edged.server.routes import acting_routes, reading_routes
from edged.server.snapshots import Snapshots
from edged.server.streaming import StreamingSettings
from modules.processes.edgecore.config import EdgeCoreConfig
from modules.processes.edgecore.config.names import host_name
from modules.processes.edgecore.config.section import Section, keys_of
from modules.processes.edgecore.config.writing import value_of
from modules.processes.edgecore.owner_service import MAX_BODY, OwnerService
from modules.processes.edgecore.socket_path import socket_path


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


def plain(section: Section) -> dict[str, Any]:
    """Return settings as in the file. The section must have no secret; the kubelet's has none."""
    found: dict[str, Any] = {}
    for key in keys_of(type(section)):
        value = value_of(section, key)
        found[key.name] = plain(value) if isinstance(value, Section) else value
    return found


def _start(server: HttpServer, stack: ExitStack) -> None:
    server.start()
    stack.callback(server.stop)
