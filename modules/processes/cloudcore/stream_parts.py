"""The parts of cloudcore's module cloudStream: the server of tunnels, and the server of streams for a cluster."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

from modules.cloud.cloudstream.errors import StreamServerError
from modules.cloud.cloudstream.stream_service import StreamListener
from modules.cloud.cloudstream.tunnel_server import TunnelServer

if TYPE_CHECKING:
    from collections.abc import Callable

    from beehive.clock import Clock
    from modules.cloud.cloudstream.opening import NodeStreams
    from modules.cloud.cloudstream.tunnels import Tunnels
    from modules.cloud.identities.known import KnownIdentities
    from modules.processes.cloudcore.config import CloudCoreConfig, CloudStreamConfig


def tunnel_server(
    config: CloudCoreConfig, tunnels: Tunnels, clock: Clock, context: ssl.SSLContext | None, identities: KnownIdentities
) -> Callable[[int, Callable[[str], None]], TunnelServer]:
    """Return a function that makes the tunnel server, for the port that it had before; 0 for the configured one."""
    settings = config.cloud_stream
    address, configured = (settings.tunnel_address, settings.tunnel_port) if settings else ("", 0)
    return lambda port, opened: TunnelServer(
        address,
        port or configured,
        config.node_limit,
        tunnels,
        opened,
        clock,
        ssl_context=context,
        identities=identities,
    )


def stream_listener(config: CloudCoreConfig, tunnels: Tunnels, nodes: NodeStreams) -> StreamListener | None:
    """Return the stream server for a cluster's API server, None without one.

    Raises:
        StreamServerError: a certificate file cannot be used.
    """
    settings = config.cloud_stream
    if settings is None or settings.stream_port is None:
        return None
    address = settings.stream_address, settings.stream_port
    return StreamListener(
        address,
        _context(config, settings),
        settings.client_names,
        tunnels,
        nodes,
        settings.advertised_port,
        max_streams=config.max_streams,
    )


def _context(config: CloudCoreConfig, settings: CloudStreamConfig) -> ssl.SSLContext:
    """Return the TLS that demands a certificate of the API server's authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_REQUIRED
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.num_tickets = 0
    authority = settings.tls_stream_ca_file
    certificate, key = settings.tls_stream_cert_file, settings.tls_stream_private_key_file
    if (certificate is None or key is None) and config.tls is not None:
        from modules.cloud.cloudhub.certificates.authority_files import AuthorityFiles  # noqa: PLC0415 - cryptography is 17 MB

        files = AuthorityFiles(config.tls.directory)
        certificate, key = files.server, files.server_key
    try:
        context.load_verify_locations(authority)
    except (OSError, ValueError, TypeError) as error:
        hint = f"--stream-client-ca names the authority of the API server's kubelet client certificate: {error}"
        raise StreamServerError("cannot serve streams: the file cannot be used", str(authority), hint) from error
    try:
        context.load_cert_chain(str(certificate), key)
    except (OSError, ValueError) as error:
        hint = f"--stream-cert and --stream-key name certificate and key, both PEM: {error}"
        raise StreamServerError("cannot serve streams: the file cannot be used", str(certificate), hint) from error
    return context
