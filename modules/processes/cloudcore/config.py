"""Settings of cloudcore.

They come from its command line and not from KubeEdge's file, so this is a plain struct with defaults. The names are
as in `cloudcore.config.kubeedge.io/v1alpha1`, where it has the setting.
"""

from pathlib import Path
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from modules.cloud.apiserver.service_defaults import DEFAULT_PORTS, DEFAULT_RANGE
from modules.cloud.authentication.settings import OidcSettings, ServiceAccountSettings
from modules.cloud.coordination.lease_settings import LeaseSettings
from modules.cloud.storage.database import IN_MEMORY

CLIENT_NAMES: Final = ("kube-apiserver-kubelet-client", "kube-apiserver", "system:kube-apiserver")
"""Names in API servers' certificates for calls to kubelets: kubeadm's, and other distributions'."""


class TlsConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Certificates of the cloud and of its nodes."""

    directory: Path = Path("cloudcore-tls")
    """Directory of the certificate authority; made with mode 0700 if missing."""

    https_address: str = "127.0.0.1"
    """Address of the HTTPS server for certificates (`cloudHub.https.address`)."""

    https_port: Annotated[int, Meta(ge=0, le=65535)] = 10002
    """TCP port of the HTTPS server (`cloudHub.https.port`). 0 takes any free one."""

    names: tuple[Annotated[str, Meta(min_length=1)], ...] = ("127.0.0.1", "localhost")
    """Addresses and DNS names of the cloud (`cloudHub.advertiseAddress`, `cloudHub.dnsNames`)."""

    certificate_seconds: Annotated[float, Meta(ge=1, le=100 * 365 * 24 * 3600)] = 30 * 24 * 3600.0
    """Validity of a node's certificate (`cloudHub.edgeCertSigningDuration`, there in days, and 365 of them)."""


class RouterConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """HTTP for callers of nodes (`modules.router`)."""

    address: str = "127.0.0.1"
    """IP address (`router.address`). Default the loopback interface and not KubeEdge's 0.0.0.0."""

    port: Annotated[int, Meta(ge=0, le=65535)] = 9443
    """TCP port (`router.port`). 0 takes any free one; the port is printed."""

    advertise_address: str = ""
    """Host of the port for other cloudcores. Default the address or, where that means every address of the
    machine, the address of the host's name."""

    rest_timeout: Annotated[float, Meta(gt=0)] = 60.0
    """Seconds for a node's answer (`router.restTimeout`)."""


class CloudStreamConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Tunnels for logs of and commands in containers of nodes (`modules.cloudStream`)."""

    tunnel_address: str = "127.0.0.1"
    """IP address of the nodes' tunnels. Default the loopback interface; KubeEdge's is 0.0.0.0."""

    tunnel_port: Annotated[int, Meta(ge=0, le=65535)] = 10004
    """TCP port there (`tunnelPort`). 0 takes any free one."""

    stream_address: str = "127.0.0.1"
    """IP address of the kubelets' endpoints for a cluster's API server."""

    stream_port: Annotated[int, Meta(ge=0, le=65535)] | None = None
    """TCP port there (`streamPort`, 10003). 0 takes any free one. Default none."""

    advertised_port: Annotated[int, Meta(ge=0, le=65535)] = 0
    """Port in the status of nodes, which leads the API server to `stream_port`. Default the same."""

    tls_stream_ca_file: Path | None = None
    """Authority of the API server's client certificate (`tlsStreamCAFile`), which KubeEdge does not check."""

    tls_stream_cert_file: Path | None = None
    """Certificate of the stream server (`tlsStreamCertFile`). Default: the websocket's, with `tls`."""

    tls_stream_private_key_file: Path | None = None
    """Its key (`tlsStreamPrivateKeyFile`)."""

    client_names: tuple[Annotated[str, Meta(min_length=1)], ...] = CLIENT_NAMES
    """Common names of API servers' client certificates."""


class AuditLogConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The audit log, as kube-apiserver's `--audit-log-…`."""

    path: Path
    """File of the requests to the Kubernetes API; made with mode 0600."""

    max_size: Annotated[int, Meta(ge=1, le=10_000)] = 100
    """Megabytes of the file, after which a new one is begun. kube-apiserver's default, too."""

    max_backup: Annotated[int, Meta(ge=1, le=1000)] = 10
    """Full files that are kept. kube-apiserver keeps all."""


class CloudCoreConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings of cloudcore."""

    manifests_dir: Path | None = None
    """Directory of YAML and JSON manifests that are applied and watched. Default none: `cloudcore apply`
    only."""

    database: str = ""
    """Database of the objects and ObjectSyncs: the path of an SQLite file, or SQLAlchemy's URL of any database. Several
    cloudcores may share one. `sqlite://` is in memory. Default an SQLite file beside the control socket, with its name
    and the suffix `.db`."""

    control_socket: Path = Path("cloudcore.sock")
    """Unix socket of `cloudcore apply|get|delete`, made with mode 0600. At most 107 bytes: the kernel's
    limit."""

    listen_address: str = "127.0.0.1"
    """Address of the websocket (`cloudHub.websocket.address`). Default the loopback interface and not KubeEdge's
    0.0.0.0, because TLS is off by default."""

    listen_port: Annotated[int, Meta(ge=0, le=65535)] = 10000
    """TCP port of the websocket (`cloudHub.websocket.port`). 0 takes any free one; the port is printed."""

    metrics_address: str = ""
    """Address of `/metrics`, `/livez`, `/readyz` and `/healthz` over plain HTTP. Default none."""

    metrics_port: Annotated[int, Meta(ge=0, le=65535)] = 0
    """TCP port there. 0 takes any free one; the port is printed."""

    tls: TlsConfig | None = None
    """Certificates; default none: the link is not encrypted."""

    secure_port: Annotated[int, Meta(ge=0, le=65535)] | None = None
    """TCP port of the Kubernetes API over HTTPS (kube-apiserver's `--secure-port`), which needs `tls`. 0 takes any free
    one. Default none: the control socket only."""

    page: bool = False
    """Whether the secure port serves the page below `/page/`, for its users."""

    page_allow: tuple[Literal["exec"], ...] = ()
    """What that page may do beside reading, with its users' rights: `exec` opens shells. Default nothing."""

    insecure_port: Annotated[int, Meta(ge=0, le=65535)] | None = None
    """TCP port of the Kubernetes API over plain HTTP on 127.0.0.1, where every program of this machine is an
    administrator. 0 takes any free one. Default none."""

    bind_address: str = "127.0.0.1"
    """IP address of the Kubernetes API over HTTPS."""

    max_streams: Annotated[int, Meta(ge=4, le=10_000)] = 768
    """Maximum of watches, followed logs and commands on each port of the Kubernetes API at a time. Each has a thread.
    One client may have three quarters of them. Also the maximum of logs and commands of a cluster's API server."""

    router: RouterConfig | None = None
    """Callers of nodes, by Rules. Default none: Rules from nodes to servers only. With `tls` it is HTTPS."""

    cloud_stream: CloudStreamConfig | None = None
    """Tunnels of nodes. Default none: no logs of and no commands in containers from here."""

    token_auth_file: Path | None = None
    """File of static tokens, `token,user,uid,"group1,group2"`. Default none: client certificates only."""

    tokens: ServiceAccountSettings = ServiceAccountSettings()
    """Tokens of service accounts."""

    oidc: OidcSettings | None = None
    """Tokens of an identity provider. Default none."""

    audit_log: AuditLogConfig | None = None
    """Records the requests to the Kubernetes API. Default none."""

    kubeconfig: Path | None = None
    """Kubeconfig of the cluster whose pods run on the nodes. Default none: the embedded API server."""

    context: str = ""
    """Context of the kubeconfig. Default its current one."""

    in_cluster: bool = False
    """Whether cloudcore runs in a pod of that cluster, and uses its service account."""

    state: Literal["database", "cluster"] = "database"
    """Where it is kept what nodes have acknowledged. In the cluster it is one NodeState for each node, and there is no
    database then."""

    lease: LeaseSettings = LeaseSettings()
    """The Lease that makes a cloudcore known to others."""

    keepalive_interval: Annotated[float, Meta(gt=0)] = 30.0
    """Seconds without a keepalive after which a node is disconnected (`cloudHub.keepaliveInterval`). Twice the edge's
    heartbeat of 15 s."""

    ack_resend_interval: Annotated[float, Meta(gt=0)] = 5.0
    """Seconds after which an unacknowledged message is sent again. KubeEdge's constant."""

    node_limit: Annotated[int, Meta(ge=1)] = 500
    """Maximum of connected nodes (`cloudHub.nodeLimit`); further ones are refused in the handshake."""

    max_frame_bytes: Annotated[int, Meta(ge=64 * 1024)] = 16 * 1024 * 1024
    """Largest websocket message, in bytes. KubeEdge has no limit, so one peer can exhaust the memory; pod lists over
    1 MiB occur."""

    write_timeout: Annotated[float, Meta(gt=0)] = 30.0
    """Seconds a write to a node may block before the connection is dropped (`cloudHub.writeTimeout`)."""

    scheduler: Literal["embedded", "none"] = "embedded"
    """Who gives pods without `spec.nodeName` their nodes: the embedded scheduler, or none, for another
    scheduler."""

    controllers: Literal["embedded", "none"] = "embedded"
    """Who makes the pods of Deployments, Jobs and their likes, deletes the dependents of deleted owners and empties
    deleted namespaces: the embedded controllers, or none, beside a kube-controller-manager."""

    service_cluster_ip_range: str = DEFAULT_RANGE
    """Network of the Services' addresses, or two of both families, separated by a comma."""

    service_node_port_range: str = DEFAULT_PORTS
    """First and last port of Services of the type NodePort."""

    device_history: Annotated[int, Meta(ge=0, le=2000)] = 2000
    """Values that are kept of each property of a device; 0 for none."""

    store_unevaluated_validations: bool = False
    """Whether the embedded API server stores CustomResourceDefinitions with rules in CEL, which it does not evaluate.
    Default no: it refuses them."""

    default_node: str | None = None
    """Node for pods whose manifest has no `spec.nodeName`. Default none: the only registered node, if there
    is one."""

    @property
    def database_url(self) -> str:
        """The path or URL of the database; in memory when the state is in the cluster."""
        if self.state == "cluster":
            return IN_MEMORY
        return self.database or str(self.control_socket.with_suffix(".db"))
