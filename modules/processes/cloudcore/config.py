"""Settings of cloudcore.

They come from its command line and not from KubeEdge's file, so this is a plain struct with defaults. A field with a
`Flag` is an option of `cloudcore run`. The names are as in `cloudcore.config.kubeedge.io/v1alpha1`, where it has the
setting; the options of a kube-apiserver have the names that they have there.
"""

from pathlib import Path
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from modules.cloud.apiserver.service_defaults import DEFAULT_PORTS, DEFAULT_RANGE
from modules.cloud.authentication.settings import OidcSettings, ServiceAccountSettings
from modules.cloud.coordination.lease_settings import LeaseSettings
from modules.cloud.storage.database import IN_MEMORY
from modules.processes.cloudcore.flags import ADDRESS, Flag, Flags, comma_separated, pairs_in
from modules.processes.common.durations import seconds_option
from modules.processes.common.page_options import ALLOW_HELP

CLIENT_NAMES: Final = ("kube-apiserver-kubelet-client", "kube-apiserver", "system:kube-apiserver")
"""Names in API servers' certificates for calls to kubelets: kubeadm's, and other distributions'."""
HTTPS_PORT: Final = 10002
TUNNEL_PORT: Final = 10004
STREAM_PORT: Final = 10003
_SECURE: Final = "the Kubernetes API on a port, for kubectl"
_CLUSTER: Final = "a cluster in place of the embedded API server"
_Port = Annotated[int, Meta(ge=0, le=65535)]


def _with_address(text: str) -> str:
    """Return ADDRESS:PORT; `:8080` is every address."""
    return f"0.0.0.0{text}" if text.startswith(":") else text  # noqa: S104 - as the docstring says


def _without_brackets(address: str) -> str:
    return address.strip("[]")


def _audiences(text: str) -> tuple[str, ...]:
    return tuple(filter(None, comma_separated(text)))


def _labels(text: str) -> dict[str, str]:
    return pairs_in([each for each in text.split(",") if each])


class TlsConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Certificates of the cloud and of its nodes."""

    directory: Annotated[
        Path, Flag("--tls-dir", "DIR", "keeps the certificate authority (default: tls below --root)")
    ] = Path("cloudcore-tls")
    """Directory of the certificate authority; made with mode 0700 if missing."""

    https_address: Annotated[
        str,
        Flag(
            "--https-listen",
            ADDRESS,
            f"address where nodes get certificates (default: the address of --listen, port {HTTPS_PORT})",
            port="https_port",
        ),
    ] = "127.0.0.1"
    """Address of the HTTPS server for certificates (`cloudHub.https.address`)."""

    https_port: _Port = HTTPS_PORT
    """TCP port of the HTTPS server (`cloudHub.https.port`). 0 takes any free one."""

    names: Annotated[
        tuple[Annotated[str, Meta(min_length=1)], ...],
        Flag("--advertise-address", "IP", "nodes call the cloud by it; repeatable"),
        Flag("--dns-name", "NAME", "nodes call the cloud by it; repeatable"),
    ] = ("127.0.0.1", "localhost")
    """Addresses and DNS names of the cloud (`cloudHub.advertiseAddress`, `cloudHub.dnsNames`)."""

    certificate_seconds: Annotated[
        float,
        Meta(ge=1, le=100 * 365 * 24 * 3600),
        Flag(
            "--certificate-lifetime",
            "DURATION",
            "life of a node's certificate, which it renews in time (default 720h, 30 days)",
            read=seconds_option,
        ),
    ] = 30 * 24 * 3600.0
    """Validity of a node's certificate (`cloudHub.edgeCertSigningDuration`, there in days, and 365 of them)."""


class RouterConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """HTTP for callers of nodes (`modules.router`)."""

    address: Annotated[
        str,
        Flag(
            "--router-listen",
            ADDRESS,
            "calls of nodes by Rules, as /NODE/NAMESPACE/PATH: with --tls for users with tokens or certificates, "
            "else for programs of this machine (default: not served)",
            port="port",
        ),
    ] = "127.0.0.1"
    """IP address (`router.address`). Default the loopback interface and not KubeEdge's 0.0.0.0."""

    port: _Port = 9443
    """TCP port (`router.port`). 0 takes any free one; the port is printed."""

    advertise_address: Annotated[
        str,
        Flag(
            "--router-advertise-address",
            "HOST",
            "where other cloudcores reach --router-listen, to pass on calls and streams of nodes that are connected "
            "to this one (default: its address or, for 0.0.0.0, what the host's name stands for)",
            read=_without_brackets,
        ),
    ] = ""
    """Host of the port for other cloudcores. Default the address or, where that means every address of the
    machine, the address of the host's name."""

    rest_timeout: Annotated[float, Meta(gt=0)] = 60.0
    """Seconds for a node's answer (`router.restTimeout`)."""


class CloudStreamConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Tunnels for logs of and commands in containers of nodes (`modules.cloudStream`)."""

    tunnel_address: Annotated[
        str,
        Flag(
            "--tunnel-listen",
            ADDRESS,
            f"address of the nodes' stream tunnels, KubeEdge's port is {TUNNEL_PORT}; '' for none (default: "
            f"127.0.0.1:{TUNNEL_PORT} with --listen 127.0.0.1:10000, else none)",
            port="tunnel_port",
        ),
    ] = "127.0.0.1"
    """IP address of the nodes' tunnels. Default the loopback interface; KubeEdge's is 0.0.0.0."""

    tunnel_port: _Port = TUNNEL_PORT
    """TCP port there (`tunnelPort`). 0 takes any free one."""

    stream_address: Annotated[
        str,
        Flag(
            "--stream-listen",
            ADDRESS,
            f"where a cluster's API server finds what kubelets serve, KubeEdge's port is {STREAM_PORT}: with "
            "--stream-client-ca (default: not served)",
            port="stream_port",
        ),
    ] = "127.0.0.1"
    """IP address of the kubelets' endpoints for a cluster's API server."""

    stream_port: _Port | None = None
    """TCP port there (`streamPort`, 10003). 0 takes any free one. Default none."""

    advertised_port: Annotated[
        _Port,
        Flag(
            "--stream-advertise-port",
            "N",
            "port in the status of nodes, which leads the API server to --stream-listen (default: the same)",
        ),
    ] = 0
    """Port in the status of nodes, which leads the API server to `stream_port`. Default the same."""

    tls_stream_ca_file: Annotated[
        Path | None,
        Flag(
            "--stream-client-ca",
            "FILE",
            "authority of the API server's kubelet client certificate, PEM; who has none of it is refused",
        ),
    ] = None
    """Authority of the API server's client certificate (`tlsStreamCAFile`), which KubeEdge does not check."""

    tls_stream_cert_file: Annotated[
        Path | None, Flag("--stream-cert", "FILE", "certificate of --stream-listen (default: that of --tls)")
    ] = None
    """Certificate of the stream server (`tlsStreamCertFile`). Default: the websocket's, with `tls`."""

    tls_stream_private_key_file: Annotated[Path | None, Flag("--stream-key", "FILE", "its key")] = None
    """Its key (`tlsStreamPrivateKeyFile`)."""

    client_names: Annotated[
        tuple[Annotated[str, Meta(min_length=1)], ...],
        Flag("--stream-client-name", "NAME", "common name in that certificate; repeatable (default: %(default)s)"),
    ] = CLIENT_NAMES
    """Common names of API servers' client certificates."""


class AuditLogConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The audit log, as kube-apiserver's `--audit-log-…`."""

    path: Annotated[Path, Flag("--audit-log-path", "FILE", "write it here, with mode 0600 (default: not written)")]
    """File of the requests to the Kubernetes API; made with mode 0600."""

    max_size: Annotated[
        int,
        Meta(ge=1, le=10_000),
        Flag(
            "--audit-log-maxsize",
            "MB",
            "size of the file; a full one is kept with the time in its name (default %(default)s)",
        ),
    ] = 100
    """Megabytes of the file, after which a new one is begun. kube-apiserver's default, too."""

    max_backup: Annotated[
        int, Meta(ge=1, le=1000), Flag("--audit-log-maxbackup", "N", "full files that are kept (default %(default)s)")
    ] = 10
    """Full files that are kept. kube-apiserver keeps all."""


class CloudCoreConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings of cloudcore."""

    manifests_dir: Annotated[Path | None, Flag("--manifests", "DIR", "directory of manifests, applied and watched")] = (
        None
    )
    """Directory of YAML and JSON manifests that are applied and watched. Default none: `cloudcore apply`
    only."""

    database: Annotated[
        str,
        Flag(
            "--database",
            "FILE|URL",
            "keeps everything over a restart: an SQLite file, or SQLAlchemy's URL of a database, which several "
            "cloudcores may share (default: cloudcore.db below --root)",
        ),
    ] = ""
    """Database of the objects and ObjectSyncs: the path of an SQLite file, or SQLAlchemy's URL of any database. Several
    cloudcores may share one. `sqlite://` is in memory. Default an SQLite file beside the control socket, with its name
    and the suffix `.db`."""

    name: Annotated[
        str,
        Meta(pattern="^(?:[A-Za-z0-9][A-Za-z0-9._-]{0,62})?$"),
        Flag("--name", "NAME", "what this cloud is called on the page, by `cluster-info` and `doctor`, and in metrics"),
    ] = ""
    """Name of the cloud. All cloudcores of a database have one name. Default none."""

    control_socket: Path = Path("cloudcore.sock")
    """Unix socket of `cloudcore apply|get|delete`, made with mode 0600. At most 107 bytes: the kernel's
    limit."""

    listen_address: Annotated[
        str,
        Flag(
            "--listen",
            ADDRESS,
            "address of the websocket; port 0 takes a free one (default %(default)s)",
            port="listen_port",
        ),
    ] = "127.0.0.1"
    """Address of the websocket (`cloudHub.websocket.address`). Default the loopback interface and not KubeEdge's
    0.0.0.0, because TLS is off by default."""

    listen_port: _Port = 10000
    """TCP port of the websocket (`cloudHub.websocket.port`). 0 takes any free one; the port is printed."""

    metrics_address: Annotated[
        str,
        Flag(
            "--metrics-bind-address",
            ADDRESS,
            "serves /metrics, /livez and /readyz without credentials (default: not served)",
            port="metrics_port",
            read=_with_address,
        ),
    ] = ""
    """Address of `/metrics`, `/livez`, `/readyz` and `/healthz` over plain HTTP. Default none."""

    metrics_port: _Port = 0
    """TCP port there. 0 takes any free one; the port is printed."""

    tls: Annotated[
        TlsConfig | None,
        Flag("--tls", None, "demand certificates of nodes, and hand them out over HTTPS", group="certificates"),
    ] = None
    """Certificates; default none: the link is not encrypted."""

    secure_port: Annotated[
        _Port | None, Flag("--secure-port", "N", "serve it on this port, with --tls; 0 takes a free one", group=_SECURE)
    ] = None
    """TCP port of the Kubernetes API over HTTPS (kube-apiserver's `--secure-port`), which needs `tls`. 0 takes any free
    one. Default none: the control socket only."""

    page: Annotated[
        bool,
        Flag(
            "--page",
            None,
            "serve the page at /page/ of --secure-port, for its users and their rights; at a cluster nothing else",
            group=_SECURE,
        ),
    ] = False
    """Whether the secure port serves the page below `/page/`, for its users."""

    page_allow: Annotated[tuple[Literal["exec"], ...], Flag("--page-allow", None, ALLOW_HELP, group=_SECURE)] = ()
    """What that page may do beside reading, with its users' rights: `exec` opens shells. Default nothing."""

    insecure_port: Annotated[
        _Port | None,
        Flag(
            "--insecure-port",
            "N",
            "serve it over plain HTTP on 127.0.0.1, where every program of this machine may do everything",
            group=_SECURE,
        ),
    ] = None
    """TCP port of the Kubernetes API over plain HTTP on 127.0.0.1, where every program of this machine is an
    administrator. 0 takes any free one. Default none."""

    bind_address: Annotated[
        str, Flag("--bind-address", "IP", "address of --secure-port (default %(default)s)", group=_SECURE)
    ] = "127.0.0.1"
    """IP address of the Kubernetes API over HTTPS."""

    max_streams: Annotated[
        int,
        Meta(ge=4, le=10_000),
        Flag(
            "--max-streams",
            "N",
            "most watches, followed logs and commands on each of these ports and at --stream-listen (default "
            "%(default)s)",
            group=_SECURE,
        ),
    ] = 768
    """Maximum of watches, followed logs and commands on each port of the Kubernetes API at a time. Each has a thread.
    One client may have three quarters of them. Also the maximum of logs and commands of a cluster's API server."""

    router: Annotated[RouterConfig | None, Flags(_SECURE)] = None
    """Callers of nodes, by Rules. Default none: Rules from nodes to servers only. With `tls` it is HTTPS."""

    cloud_stream: Annotated[
        CloudStreamConfig | None,
        Flags("logs of and commands in containers of nodes (`kubectl logs`, `exec`, `attach`)"),
    ] = None
    """Tunnels of nodes. Default none: no logs of and no commands in containers from here."""

    token_auth_file: Annotated[
        Path | None,
        Flag(
            "--token-auth-file",
            "FILE",
            'tokens of users, lines of token,user,uid,"group1,group2"; members of system:masters may do everything',
            group=_SECURE,
        ),
    ] = None
    """File of static tokens, `token,user,uid,"group1,group2"`. Default none: client certificates only."""

    tokens: Annotated[
        ServiceAccountSettings,
        Flags(
            _SECURE,
            {
                "issuer": Flag(
                    "--service-account-issuer", "URL", "issuer of the tokens of service accounts (default: %(default)s)"
                ),
                "audiences": Flag(
                    "--api-audiences",
                    "NAME[,NAME]",
                    "audiences of this API server; a token that asks for none is for these (default: the issuer)",
                    read=_audiences,
                ),
                "mounted": Flag(
                    "--mount-service-account-tokens",
                    None,
                    "give containers of new pods a token of their service account, with --secure-port, as Kubernetes "
                    "does",
                ),
            },
        ),
    ] = ServiceAccountSettings()
    """Tokens of service accounts."""

    oidc: Annotated[
        OidcSettings | None,
        Flags(
            "users of an identity provider at the secure port, by OpenID Connect",
            {
                "issuer_url": Flag(
                    "--oidc-issuer-url", "URL", "URL of the provider, https: users with its tokens (OpenID Connect)"
                ),
                "client_id": Flag("--oidc-client-id", "ID", "audience that a token must name"),
                "username_claim": Flag("--oidc-username-claim", "CLAIM", "has the user's name (default: sub)"),
                "username_prefix": Flag(
                    "--oidc-username-prefix",
                    "TEXT",
                    "before the user's name, - for none (default: URL#; for the claim email none)",
                ),
                "groups_claim": Flag("--oidc-groups-claim", "CLAIM", "has the user's groups (default: none)"),
                "groups_prefix": Flag("--oidc-groups-prefix", "TEXT", "before the name of each group (default: none)"),
                "required_claims": Flag(
                    "--oidc-required-claim", "CLAIM=VALUE", "claim that a token must have, with this value; repeatable"
                ),
                "signing_algs": Flag(
                    "--oidc-signing-algs",
                    "ALG[,ALG]",
                    "algorithms of signatures (default: RS256)",
                    read=comma_separated,
                ),
                "ca_file": Flag(
                    "--oidc-ca-file",
                    "FILE",
                    "authorities of the provider's certificate (default: those that this machine trusts)",
                ),
            },
        ),
    ] = None
    """Tokens of an identity provider. Default none."""

    audit_log: Annotated[
        AuditLogConfig | None, Flags("a log of who asked what of the Kubernetes API, as JSON lines of audit.k8s.io/v1")
    ] = None
    """Records the requests to the Kubernetes API. Default none."""

    kubeconfig: Annotated[Path | None, Flag("--kubeconfig", "FILE", "its pods run on the nodes", group=_CLUSTER)] = None
    """Kubeconfig of the cluster whose pods run on the nodes. Default none: the embedded API server."""

    context: Annotated[
        str, Flag("--context", "NAME", "context of the kubeconfig (default: the current one)", group=_CLUSTER)
    ] = ""
    """Context of the kubeconfig. Default its current one."""

    in_cluster: Annotated[
        bool,
        Flag("--in-cluster", None, "cloudcore runs in a pod of the cluster, as its service account", group=_CLUSTER),
    ] = False
    """Whether cloudcore runs in a pod of that cluster, and uses its service account."""

    state: Annotated[
        Literal["database", "cluster"],
        Flag(
            "--state",
            None,
            "where it is kept what nodes have acknowledged; in the cluster: a NodeState a node (default: %(default)s)",
            group=_CLUSTER,
        ),
    ] = "database"
    """Where it is kept what nodes have acknowledged. In the cluster it is one NodeState for each node, and there is no
    database then."""

    lease: Annotated[
        LeaseSettings,
        Flags(
            "several cloudcores, which know of each other by Leases",
            {
                "namespace": Flag("--lease-namespace", "NAME", "namespace of the Leases (default: %(default)s)"),
                "name": Flag("--lease-name", "NAME", "name of this one's Lease (default: host name and an id)"),
                "labels": Flag(
                    "--lease-labels",
                    "KEY=VALUE,…",
                    "labels of the Leases of those that divide their duties (default: %(default)s)",
                    read=_labels,
                ),
            },
        ),
    ] = LeaseSettings()
    """The Lease that makes a cloudcore known to others."""

    keepalive_interval: Annotated[float, Meta(gt=0)] = 30.0
    """Seconds without a keepalive after which a node is disconnected (`cloudHub.keepaliveInterval`). Twice the edge's
    heartbeat of 15 s."""

    ack_resend_interval: Annotated[float, Meta(gt=0)] = 5.0
    """Seconds after which an unacknowledged message is sent again. KubeEdge's constant."""

    node_limit: Annotated[int, Meta(ge=1), Flag("--node-limit", "N", "most nodes connected at a time")] = 500
    """Maximum of connected nodes (`cloudHub.nodeLimit`); further ones are refused in the handshake."""

    max_frame_bytes: Annotated[int, Meta(ge=64 * 1024)] = 16 * 1024 * 1024
    """Largest websocket message, in bytes. KubeEdge has no limit, so one peer can exhaust the memory; pod lists over
    1 MiB occur."""

    write_timeout: Annotated[float, Meta(gt=0)] = 30.0
    """Seconds a write to a node may block before the connection is dropped (`cloudHub.writeTimeout`)."""

    scheduler: Annotated[
        Literal["embedded", "none"],
        Flag("--scheduler", None, "who gives pods their nodes; none: a scheduler that you run (default: %(default)s)"),
    ] = "embedded"
    """Who gives pods without `spec.nodeName` their nodes: the embedded scheduler, or none, for another
    scheduler."""

    controllers: Annotated[
        Literal["embedded", "none"],
        Flag(
            "--controllers",
            None,
            "who runs Deployments, Jobs and their likes, and collects garbage; none: a kube-controller-manager that "
            "you run (default: %(default)s)",
        ),
    ] = "embedded"
    """Who makes the pods of Deployments, Jobs and their likes, deletes the dependents of deleted owners and empties
    deleted namespaces: the embedded controllers, or none, beside a kube-controller-manager."""

    jobs: Annotated[
        bool,
        Flag(
            "--jobs",
            None,
            "serve a cluster's NodeUpgradeJobs, ImagePrePullJobs and ConfigUpdateJobs (deploy/jobs.yaml has the kinds; "
            "those of the embedded API server are always served)",
        ),
    ] = False
    """Whether jobs of nodes in a cluster are served (KubeEdge's `modules.taskManager.enable`). KubeEdge's own
    controllermanager must not do it, too."""

    bundles: Annotated[
        Path | None,
        Flag("--bundles", "DIR", "directory of the bundles of edgecore that nodes may fetch, with their certificates"),
    ] = None
    """Directory of the bundles that nodes fetch for NodeUpgradeJobs, over TLS. Default none: nothing is served."""

    bundle_rate: Annotated[
        int,
        Meta(ge=1, le=10_000),
        Flag("--bundle-rate", "MIB", "MiB of bundles a second, to all nodes together (default: %(default)s)"),
    ] = 8
    """MiB of bundles a second, to all nodes together."""

    service_cluster_ip_range: Annotated[
        str,
        Flag("--service-cluster-ip-range", "CIDR[,CIDR]", "network of the Services' addresses (default: %(default)s)"),
    ] = DEFAULT_RANGE
    """Network of the Services' addresses, or two of both families, separated by a comma."""

    service_node_port_range: Annotated[
        str,
        Flag(
            "--service-node-port-range", "FIRST-LAST", "ports of Services of the type NodePort (default: %(default)s)"
        ),
    ] = DEFAULT_PORTS
    """First and last port of Services of the type NodePort."""

    device_history: Annotated[
        int,
        Meta(ge=0, le=2000),
        Flag(
            "--device-history",
            "N",
            "reported values of seven days that are kept of each property of a device (default %(default)s, the most)",
        ),
    ] = 2000
    """Values that are kept of each property of a device; 0 for none."""

    store_unevaluated_validations: Annotated[
        bool,
        Flag(
            "--store-unevaluated-validations",
            None,
            "store CustomResourceDefinitions with rules in CEL (x-kubernetes-validations), which are not evaluated",
            group=_SECURE,
        ),
    ] = False
    """Whether the embedded API server stores CustomResourceDefinitions with rules in CEL, which it does not evaluate.
    Default no: it refuses them."""

    default_node: Annotated[
        str | None, Flag("--node", "NAME", "node of pods that name none (default: the only node)")
    ] = None
    """Node for pods whose manifest has no `spec.nodeName`. Default none: the only registered node, if there
    is one."""

    @property
    def database_url(self) -> str:
        """The path or URL of the database; in memory when the state is in the cluster."""
        if self.state == "cluster":
            return IN_MEMORY
        return self.database or str(self.control_socket.with_suffix(".db"))
