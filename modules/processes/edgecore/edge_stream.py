"""Adds the module edgestream to a node; imported only where it is enabled.

The tunnel is a websocket link like edgehub's, with the node's certificate. Its streams go to the owner's socket of this
edgecore, so that exec and attach are open on no port of the node.
"""

import errno
import ssl
from collections.abc import Callable
from functools import partial
from pathlib import Path

from beehive import Hive
from beehive.exposition import CollectorRegistry
from beehive.sockets.unix_sockets import connect_unix
from edged.node.machine import default_addresses
from edgehub.settings import EdgeHubSettings
from edgehub.tls import client_context
from edgehub.websocket import WebsocketLink
from modules.edge.edgestream.counters import StreamCounters, stream_metrics
from modules.edge.edgestream.module import EdgeStream
from modules.edge.edgestream.tunnel import DialNode
from modules.processes.edgecore.config import EdgeCoreConfig
from modules.processes.edgecore.config.edge_stream import EdgeStreamOptions
from modules.processes.edgecore.socket_path import socket_path
from modules.streams import credit
from modules.streams.frames import MAX_FRAME


def add_edge_stream(hive: Hive, config: EdgeCoreConfig, registry: CollectorRegistry) -> None:
    """Add edgestream with the settings of `modules.edgeStream`."""
    settings = tunnel_settings(config)
    make_context = _context(config.modules.edge_stream)

    def make_link() -> WebsocketLink:
        return WebsocketLink(settings, hive.clock, make_context, tunnel_headers(config))

    counters = StreamCounters()
    most = config.modules.edge_stream.max_streams
    has_edged = config.modules.edged.enable
    hive.add(EdgeStream, make_link, node_dialler(socket_path(config)), counters, most_streams=most, has_edged=has_edged)
    registry.register(partial(stream_metrics, counters))


def tunnel_settings(config: EdgeCoreConfig) -> EdgeHubSettings:
    """Return the settings of the tunnel's link. It has TLS if edgehub's has: without, there is no certificate."""
    options = config.modules.edge_stream
    scheme = config.websocket_url.partition("://")[0]
    server = options.server if "://" in options.server else f"{scheme}://{options.server}"
    return EdgeHubSettings(
        url=f"{server}/v1/kubeedge/connect",
        node=config.node_name,
        handshake_timeout=options.handshake_timeout,
        read_deadline=options.read_deadline,
        write_deadline=options.write_deadline,
        max_frame_bytes=MAX_FRAME,
    )


def tunnel_headers(config: EdgeCoreConfig) -> dict[str, str]:
    """Return the headers that tell KubeEdge's cloud the node, and those for ours, which grants it credit and shares its
    streams among users; its address may change from dial to dial.
    """
    address = config.modules.edged.node_ip or default_addresses()[0]
    return {
        "SessionHostNameOverride": config.node_name,
        "SessionInternalIP": address,
        credit.HEADER: credit.VERSION,
        credit.LIMIT_HEADER: str(config.modules.edge_stream.max_streams),
    }


def node_dialler(path: Path) -> DialNode:
    """Return the function that connects to the owner's socket of this edgecore without waiting."""
    return partial(connect_unix, path, 0)


def _context(options: EdgeStreamOptions) -> Callable[[], ssl.SSLContext]:
    """Return a factory that reads the files for each connection, so that the next one uses a renewed certificate."""
    files = (options.tls_tunnel_ca_file, options.tls_tunnel_cert_file, options.tls_tunnel_private_key_file)

    def make() -> ssl.SSLContext:
        for path in files:
            if not path.exists():
                raise FileNotFoundError(errno.ENOENT, "edgehub has not fetched it yet", str(path))
        return client_context(*files)

    return make
