"""Settings of edgestream, the stream tunnel to the cloud (`modules.edgeStream`)."""

from pathlib import Path
from typing import Annotated

from msgspec import field

from modules.processes.edgecore.config.names import WEBSOCKET_SERVER
from modules.processes.edgecore.config.section import Section
from modules.processes.edgecore.config.value_kinds import AbsolutePath, Switch, Whole


class EdgeStreamOptions(Section, frozen=True, kw_only=True):
    """The tunnel of `kubectl logs`, `exec`, `attach` and metrics-server to this node."""

    enable: Annotated[bool, Switch()] = False
    """Whether the node dials the cloud's stream tunnel. Whoever may use it in the cloud can read logs and run commands
    in this node's containers. It opens no port of the node."""

    handshake_timeout: Annotated[int, Whole("seconds", 1, 3600)] = 30
    """Longest wait for the connection to be made, TLS and upgrade included."""

    max_streams: Annotated[int, Whole("streams", 1, 2000)] = 200
    """Logs, commands and port forwardings through the tunnel at a time; others are refused. Each has a thread, and all
    together at most 32 MiB of buffers. KubeEdge has no limit."""

    read_deadline: Annotated[int, Whole("seconds", 1, 3600)] = 15
    """Longest silence of the cloud; a websocket ping asks it every 5 seconds. Then the tunnel counts as dead and is
    made again. KubeEdge ignores the key."""

    server: Annotated[str, WEBSOCKET_SERVER] = "127.0.0.1:10004"
    """Address of cloudcore's tunnel server (cloudStream's tunnelPort). `host:port` uses TLS as edgeHub's websocket
    does; `ws://host:port` never does."""

    tls_tunnel_ca_file: Annotated[Path, AbsolutePath()] = field(
        default=Path("/etc/kubeedge/ca/rootCA.crt"), name="tlsTunnelCAFile"
    )
    """The CA that the tunnel server's certificate is checked against (PEM); edgehub fetches it. KubeEdge checks
    nothing."""

    tls_tunnel_cert_file: Annotated[Path, AbsolutePath()] = Path("/etc/kubeedge/certs/server.crt")
    """The node's certificate (PEM), which edgehub fetches and renews; read for each connection."""

    tls_tunnel_private_key_file: Annotated[Path, AbsolutePath()] = Path("/etc/kubeedge/certs/server.key")
    """The key of that certificate (PEM)."""

    write_deadline: Annotated[int, Whole("seconds", 1, 3600)] = 15
    """How long the cloud may read nothing while bytes wait for it; then the tunnel is made again. KubeEdge ignores the
    key."""
