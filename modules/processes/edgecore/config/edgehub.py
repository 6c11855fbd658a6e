"""Settings of edgehub, the link to the cloud (`modules.edgeHub`)."""

from pathlib import Path
from typing import Annotated

from msgspec import field

from modules.processes.edgecore.config.names import HTTPS_URL, PROJECT_ID, WEBSOCKET_SERVER
from modules.processes.edgecore.config.section import Section
from modules.processes.edgecore.config.value_kinds import (
    AbsolutePath,
    Secret,
    SecretText,
    Size,
    Switch,
    TextList,
    Whole,
)


class WebSocket(Section, frozen=True, kw_only=True):
    """The websocket to cloudcore, the only transport of this edgecore."""

    backup_servers: Annotated[tuple[str, ...], TextList(WEBSOCKET_SERVER, 16)] = ()
    """Addresses of other cloudcores that serve the same nodes, tried in turn when a connection ends or fails. Ours:
    KubeEdge has one address, of a load balancer."""

    enable: Annotated[bool, Switch()] = True
    """Whether the websocket is used. It must be, as long as edgeHub is enabled."""

    handshake_timeout: Annotated[int, Whole("seconds", 1, 3600)] = 30
    """Longest wait for the connection to be made, TLS and upgrade included."""

    read_deadline: Annotated[int, Whole("seconds", 1, 3600)] = 10
    """Longest silence of the cloud; a websocket ping asks it after half of this. Then the connection counts as dead and
    is made again. KubeEdge's default is 15, and it notices a silent loss only when it writes."""

    server: Annotated[str, WEBSOCKET_SERVER] = "127.0.0.1:10000"
    """Address of cloudcore's websocket. `host:port` and `wss://host:port` use TLS; `ws://host:port` does not and is for
    a cloudcore on the same machine only. A scheme is ours."""

    write_deadline: Annotated[int, Whole("seconds", 1, 3600)] = 10
    """Longest a write may block before the connection counts as dead. KubeEdge's default is 15."""


class Quic(Section, frozen=True, kw_only=True):
    """KubeEdge's other transport. It is gQUIC of 2018, which no Python library speaks."""

    enable: Annotated[bool, Switch()] = False
    """Must be false: use the websocket."""


class EdgeHub(Section, frozen=True, kw_only=True):
    """The link to the cloud."""

    compression: Annotated[bool, Switch()] = False
    """Whether messages are compressed (permessage-deflate), if the cloud agrees: ours does, KubeEdge's does not. Ours.
    Costs 50 KiB of memory and some processor time."""

    enable: Annotated[bool, Switch()] = True
    """Whether edgecore connects to a cloud. Without it the node runs the objects in its store."""

    heartbeat: Annotated[int, Whole("seconds", 1, 3600)] = 15
    """Time between two keepalives. The cloud ends the session after 30 s without one, so more than 15 leaves no room
    for a lost message."""

    http_server: Annotated[str, HTTPS_URL] = "https://127.0.0.1:10002"
    """Where the node fetches the CA and its own certificate, and renews it. Only used when the websocket has TLS; then
    it must be https."""

    max_frame_bytes: Annotated[int, Size(64 * 1024, 1024**3)] = 16 * 1024**2
    """Largest message from the cloud that is read; a larger one is discarded while it arrives, and logged. Ours:
    KubeEdge has no limit. Pod lists over 1 MiB are real."""

    message_burst: Annotated[int, Whole("messages", 0, 1_000_000)] = 60
    """Messages to the cloud in a burst, before messageQPS holds them back."""

    message_qps: Annotated[int, Whole("messages a second", 0, 1_000_000)] = field(default=30, name="messageQPS")
    """Rate of messages to the cloud over time; keepalives do not count. 0: no limit."""

    project_id: Annotated[str, PROJECT_ID] = field(default="e632aba927ea4ac2b575ec1603d56f10", name="projectID")
    """Part of the websocket's URL and headers, which KubeEdge's cloud ignores."""

    quic: Quic = Quic()
    """The other transport."""

    rotate_certificates: Annotated[bool, Switch()] = True
    """Whether the node's certificate is renewed between 70 and 90 % of its life. The link is then made again, and loses
    nothing."""

    tls_ca_file: Annotated[Path, AbsolutePath()] = Path("/etc/kubeedge/ca/rootCA.crt")
    """The CA that the cloud's certificate is checked against (PEM), fetched together with the node's certificate."""

    tls_cert_file: Annotated[Path, AbsolutePath()] = Path("/etc/kubeedge/certs/server.crt")
    """The node's certificate (PEM). When it is missing, expired or of another node, edgecore fetches one with the token
    before it connects."""

    tls_private_key_file: Annotated[Path, AbsolutePath()] = Path("/etc/kubeedge/certs/server.key")
    """The key of the node's certificate (PEM), made on the node and readable by its owner alone."""

    token: Annotated[SecretText, Secret()] = SecretText()
    """Token for the node's first certificate, from `cloudcore token` or `keadm gettoken`; `edgecore join` uses one
    without writing it here. A secret: never logged."""

    websocket: WebSocket = WebSocket()
    """The transport."""
