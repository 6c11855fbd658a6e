"""Settings of the cloud stub.

The stub is a development tool and a test double, set up by its command line; there is no file to be
compatible with, so this is a plain struct with defaults. The names are those of KubeEdge's
`cloudcore.config.kubeedge.io/v1alpha1` where it has one for the same thing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct


class TlsConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Certificates of the cloud and of its nodes."""

    directory: Path = Path("cloudcore-tls")
    """Where the certificate authority is kept; made with mode 0700 when it is not there."""

    https_address: str = "127.0.0.1"
    """Address that certificates are handed out on (`cloudHub.https.address`)."""

    https_port: Annotated[int, Meta(ge=0, le=65535)] = 10002
    """TCP port of the same (`cloudHub.https.port`). 0 takes any free one."""

    names: tuple[Annotated[str, Meta(min_length=1)], ...] = ("127.0.0.1", "localhost")
    """Addresses and DNS names that nodes call the cloud by (`cloudHub.advertiseAddress`, `cloudHub.dnsNames`)."""

    certificate_seconds: Annotated[float, Meta(ge=1, le=100 * 365 * 24 * 3600)] = 365 * 24 * 3600.0
    """How long a node's certificate is good for (`cloudHub.edgeCertSigningDuration`, there in days)."""


class CloudCoreConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything the cloud stub is told at its start."""

    manifests_dir: Path | None = None
    """Directory of YAML and JSON manifests that are applied and watched. Default none: `cloudcore apply`
    only."""

    database: str = ""
    """Keeps objects, what nodes have acknowledged and what they are still to be told: the path of an SQLite file, or
    SQLAlchemy's URL of any database. Several cloudcores may share one. `sqlite://` lives as long as the process.
    Default an SQLite file beside the control socket, with its name and the suffix `.db`."""

    control_socket: Path = Path("cloudcore.sock")
    """Unix socket of `cloudcore apply|get|delete`, made with mode 0600. At most 107 bytes: the kernel's
    limit."""

    listen_address: str = "127.0.0.1"
    """Address the websocket is served on (`cloudHub.websocket.address`). Default the loopback interface and
    not KubeEdge's 0.0.0.0, because TLS is off by default."""

    listen_port: Annotated[int, Meta(ge=0, le=65535)] = 10000
    """TCP port of the websocket (`cloudHub.websocket.port`). 0 takes any free one; the port is printed."""

    tls: TlsConfig | None = None
    """Certificates; default none: the link is not encrypted."""

    keepalive_interval: Annotated[float, Meta(gt=0)] = 30.0
    """Seconds without a keepalive after which a node counts as gone (`cloudHub.keepaliveInterval`). Twice
    the edge's heartbeat of 15 s."""

    ack_resend_interval: Annotated[float, Meta(gt=0)] = 5.0
    """Seconds after which a message that was not acknowledged is sent again. KubeEdge's constant."""

    node_limit: Annotated[int, Meta(ge=1)] = 500
    """Most nodes connected at a time (`cloudHub.nodeLimit`); further ones are refused in the handshake."""

    max_frame_bytes: Annotated[int, Meta(ge=64 * 1024)] = 16 * 1024 * 1024
    """Largest websocket message read, in bytes. KubeEdge has no limit, which lets one peer exhaust the
    memory; pod lists over 1 MiB are real."""

    write_timeout: Annotated[float, Meta(gt=0)] = 30.0
    """Seconds a write to a node may block before the connection is dropped (`cloudHub.writeTimeout`)."""

    default_node: str | None = None
    """Node for pods whose manifest has no `spec.nodeName`. Default none: the only registered node, if there
    is one."""

    @property
    def database_url(self) -> str:
        """The database that is meant."""
        return self.database or str(self.control_socket.with_suffix(".db"))
