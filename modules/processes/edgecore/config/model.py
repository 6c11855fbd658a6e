"""The whole configuration of edgecore, in KubeEdge's form `edgecore.config.kubeedge.io/v1alpha2`.

It is immutable and made in three ways: `default()` has KubeEdge's defaults, `below(root)` is a node that needs
nothing installed and keeps everything below one directory, and `modules.processes.edgecore.config.load` reads a file.
The properties at the end compose URLs and paths for the assembly.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

from msgspec import field

from modules.apimachinery.node_job_kinds import JobKind
from modules.processes.edgecore.config.devices import DeviceTwins, EventBusOptions
from modules.processes.edgecore.config.edge_mesh import EdgeMeshOptions
from modules.processes.edgecore.config.edge_stream import EdgeStreamOptions
from modules.processes.edgecore.config.edged import Edged
from modules.processes.edgecore.config.edgehub import EdgeHub, WebSocket
from modules.processes.edgecore.config.kubelet import TailoredKubeletConfig
from modules.processes.edgecore.config.names import (
    BUNDLE_SOURCE,
    DOCKER_ENDPOINT,
    INSIDE,
    IP_ADDRESS,
    JOB_KIND,
    LISTEN_ADDRESS,
    OCI_ENDPOINT,
    OPTIONAL_PATH,
    PROCESS_ENDPOINT,
    PUBLIC_KEY,
    SETTING_KEY,
    host_name,
    node_name_from,
)
from modules.processes.edgecore.config.section import Section
from modules.processes.edgecore.config.value_kinds import (
    AbsolutePath,
    Choice,
    Secret,
    SecretText,
    Switch,
    TextList,
    Whole,
)


class ServiceBusOptions(Section, frozen=True, kw_only=True):
    """HTTP between the cloud's rules and applications of the node."""

    enable: Annotated[bool, Switch()] = False
    """Whether the cloud's router may call HTTP servers of this machine's loopback interface, on any port that a rule
    names, and applications may ask the cloud for the URLs that it allows."""

    port: Annotated[int, Whole("", 1, 65535)] = 9060
    """Where applications ask the cloud. It listens from the first URL that the cloud allows."""

    server: Annotated[str, IP_ADDRESS] = "127.0.0.1"
    """Address there. Every client that reaches it may ask for each allowed URL, without credentials."""

    timeout: Annotated[int, Whole("seconds", 1, 3600)] = 60
    """Longest wait for the cloud's answer to an application."""

    tls_cert_file: Annotated[str, OPTIONAL_PATH] = ""
    """Certificate for HTTPS there (PEM); empty for plain HTTP."""

    tls_private_key_file: Annotated[str, OPTIONAL_PATH] = ""
    """The key of that certificate (PEM)."""


SOCKET_PATH_LIMIT: Final = 107
"""Longest path of a unix socket on Linux, in bytes (`sun_path` without its final zero)."""

DATA_SOURCE: Final = Secret("an absolute path, or a database URL", r"/[^\x00-\x1f\x7f]+|[a-z0-9+]+://[^\x00-\x1f\x7f]*")


class ApiVersion(StrEnum):
    """Accepted forms of the file."""

    V1ALPHA2 = "edgecore.config.kubeedge.io/v1alpha2"


class ConfigKind(StrEnum):
    """Kind of the file's object."""

    EDGE_CORE = "EdgeCore"


class Driver(StrEnum):
    """KubeEdge's names of database drivers."""

    SQLITE = "sqlite3"


class DataBase(Section, frozen=True, kw_only=True):
    """The database of objects that the cloud sent."""

    data_source: Annotated[SecretText, DATA_SOURCE] = SecretText("/var/lib/kubeedge/edgecore.db")
    """File of the SQLite database, or a URL as SQLAlchemy takes it (`postgresql+psycopg://user:password@host/name`),
    without regard to driverName. Treated as a secret, because a URL may hold a password."""

    driver_name: Annotated[Driver, Choice(Driver)] = Driver.SQLITE
    """KubeEdge's name of the kind of database. For another kind give a URL as dataSource."""


class MetaServer(Section, frozen=True, kw_only=True):
    """The Kubernetes API on the node, for the node's own objects."""

    enable: Annotated[bool, Switch()] = False
    """Whether it is served."""

    serve_secrets: Annotated[bool, Switch()] = False
    """Whether secrets, tokens of service accounts and certificates are served there, to everybody who reaches the
    address. Ours."""

    server: Annotated[str, LISTEN_ADDRESS] = "127.0.0.1:10550"
    """Where it listens, in plain HTTP without credentials. Every client can read the node's objects, and change in the
    cloud all that the node's own rights allow."""


class MetaManager(Section, frozen=True, kw_only=True):
    """The part that stores the cloud's objects and answers from them."""

    enable: Annotated[bool, Switch()] = True
    """Whether the node remembers anything. Without it nothing works but the link itself; for tests only."""

    meta_server: MetaServer = MetaServer()
    """The Kubernetes API on the node."""

    remote_query_timeout: Annotated[int, Whole("seconds", 1, 3600)] = 60
    """Longest wait for the cloud's answer to a question that the store cannot answer."""


class UpgradeOptions(Section, frozen=True, kw_only=True):
    """Upgrades of edgecore on this node. Ours."""

    trusted_keys: Annotated[tuple[str, ...], TextList(PUBLIC_KEY, 16)] = ()
    """Public keys of those who may sign a bundle for `edgecore upgrade`; the signer's code runs on this node. Default
    none: no bundle is accepted."""

    sources: Annotated[tuple[str, ...], TextList(BUNDLE_SOURCE, 8)] = ()
    """Where `edgecore upgrade VERSION` and NodeUpgradeJobs find bundles, in this order: `cloudcore` (the node's cloud,
    over the link's certificates), or directories. Default none."""

    steady: Annotated[int, Whole("seconds", 1, 86400)] = 120
    """How long the node has to be healthy with a new version, without a break."""

    within: Annotated[int, Whole("seconds", 1, 86400)] = 600
    """Time within which it has to have been healthy for that long; else it goes back."""


class TestManagerOptions(Section, frozen=True, kw_only=True):
    """Pods, configmaps, secrets and devices by HTTP, for tests of a node without a cloud (KubeEdge's testManager)."""

    enable: Annotated[bool, Switch()] = False
    """Whether requests are served, on 127.0.0.1 only. A client with the token can run any pod on the node."""

    port: Annotated[int, Whole("", 1, 65535)] = 12345
    """The port."""

    token_file: Annotated[Path, AbsolutePath()] = Path("/etc/kubeedge/testmanager.token")
    """File with the token of the requests (mode 0600), made at the first start. Ours; KubeEdge asks for no token."""


class TaskManagerOptions(Section, frozen=True, kw_only=True):
    """Jobs of the cloud."""

    allowed_jobs: Annotated[tuple[str, ...], TextList(JOB_KIND, len(JobKind))] = (JobKind.IMAGE_PRE_PULL.value,)
    """The kinds of jobs that the cloud may give to this node. Ours. Default: only images, which the cloud can have
    pulled by pods as well."""

    allowed_keys: Annotated[tuple[str, ...], TextList(SETTING_KEY, 64)] = ()
    """The settings that a ConfigUpdateJob may change, to any value that `edgecore config set` takes: list no address,
    path, endpoint or credential. Ours. Default: none."""

    enable: Annotated[bool, Switch()] = True
    """Whether any job is carried out; otherwise each is refused with a reason. KubeEdge's default is false."""


class Modules(Section, frozen=True, kw_only=True):
    """Settings of each module."""

    db_test: TestManagerOptions = TestManagerOptions()
    """Objects by HTTP, for tests. The name is KubeEdge's, from its test of the database."""

    device_twin: DeviceTwins = DeviceTwins()
    """The devices."""

    edge_hub: EdgeHub = EdgeHub()
    """The link to the cloud."""

    edge_mesh: EdgeMeshOptions = EdgeMeshOptions()
    """Addresses and names of Services."""

    edge_stream: EdgeStreamOptions = EdgeStreamOptions()
    """The tunnel for `kubectl logs`, `exec` and `attach`."""

    edged: Edged = field(default_factory=Edged)
    """The node and its pods."""

    event_bus: EventBusOptions = EventBusOptions()
    """MQTT for applications and devices, by a broker beside edgecore."""

    meta_manager: MetaManager = MetaManager()
    """The store."""

    service_bus: ServiceBusOptions = ServiceBusOptions()
    """HTTP of applications, by rules of the cloud."""

    task_manager: TaskManagerOptions = TaskManagerOptions()
    """Jobs of the cloud for this node."""


class EdgeCoreConfig(Section, frozen=True, kw_only=True):
    """Configuration of an edge node."""

    api_version: Annotated[ApiVersion, Choice(ApiVersion, "`edgecore config minimal` prints that form")] = (
        ApiVersion.V1ALPHA2
    )
    """Form of this file."""

    kind: Annotated[ConfigKind, Choice(ConfigKind)] = ConfigKind.EDGE_CORE
    """Kind of this file's object."""

    database: DataBase = DataBase()
    """The node's memory."""

    modules: Modules = field(default_factory=Modules)
    """Settings of each module."""

    upgrade: UpgradeOptions = UpgradeOptions()
    """Who may replace edgecore."""

    @classmethod
    def default(cls) -> EdgeCoreConfig:
        """Return KubeEdge's defaults, for a node with containerd and a cloud. The node's name is this machine's."""
        return cls()

    @classmethod
    def below(cls, root: Path) -> EdgeCoreConfig:
        """Return the configuration for an ordinary user with nothing installed: the process runtime, everything below
        `root`, the cloud of this machine without TLS.

        `root` need not exist; a relative one is below the working directory. Pods are evicted for disk space only when
        almost none is left, because the disk is its owner's to fill.
        """
        root = root.absolute()
        kubelet = TailoredKubeletConfig(
            container_runtime_endpoint=PROCESS_ENDPOINT,
            pod_logs_dir=root / "logs" / "pods",
            static_pod_path=str(root / "manifests"),
            eviction_hard={"memory.available": "100Mi", "nodefs.available": "1Mi"},
        )
        return cls(
            database=DataBase(data_source=SecretText(root / "edgecore.db")),
            modules=Modules(
                db_test=TestManagerOptions(token_file=root / "testmanager.token"),
                device_twin=DeviceTwins(dmi_sock_path=root),
                edge_hub=EdgeHub(
                    websocket=WebSocket(server="ws://127.0.0.1:10000"),
                    tls_ca_file=root / "certs" / "rootCA.crt",
                    tls_cert_file=root / "certs" / "server.crt",
                    tls_private_key_file=root / "certs" / "server.key",
                ),
                edge_stream=EdgeStreamOptions(
                    enable=True,
                    server="ws://127.0.0.1:10004",
                    tls_tunnel_ca_file=root / "certs" / "rootCA.crt",
                    tls_tunnel_cert_file=root / "certs" / "server.crt",
                    tls_tunnel_private_key_file=root / "certs" / "server.key",
                ),
                edged=Edged(
                    hostname_override=node_name_from(host_name()),
                    root_directory=root / "edged",
                    tailored_kubelet_config=kubelet,
                ),
            ),
        )

    @property
    def node_name(self) -> str:
        """The node's name."""
        return self.modules.edged.hostname_override or host_name()

    @property
    def websocket_url(self) -> str:
        """URL that edgehub connects to: `wss://{server}/{projectID}/{node}/events`, as KubeEdge's does."""
        return self.websocket_urls[0]

    @property
    def websocket_urls(self) -> tuple[str, ...]:
        """The same, and then the URLs of the other cloudcores."""
        hub = self.modules.edge_hub
        servers = (hub.websocket.server, *hub.websocket.backup_servers)
        bases = (server if "://" in server else f"wss://{server}" for server in servers)
        return tuple(f"{base}/{hub.project_id}/{self.node_name}/events" for base in bases)

    @property
    def database_url(self) -> SecretText:
        """URL of the database as for SQLAlchemy. It may hold a password, so call `str()` only to use it."""
        source = self.database.data_source
        return source if "://" in source else SecretText(f"sqlite:///{source}")

    @property
    def outbox_path(self) -> Path:
        """File of messages that wait for the cloud: beside the database, or in the root directory if the database is no
        file.
        """
        source = self.database.data_source
        if source.startswith("sqlite:///") or "://" not in source:
            path = Path(source.removeprefix("sqlite:///"))
            return path.with_name(f"{path.stem}-outbox.db")
        return self.modules.edged.root_directory / "edgecore-outbox.db"

    @property
    def runs_container_runtime(self) -> bool:
        """Whether edgecore has to start a container runtime of its own before edged."""
        return self.modules.edged.tailored_kubelet_config.container_runtime_endpoint in INSIDE

    @property
    def uses_oci_runtime(self) -> bool:
        """Whether that runtime isolates containers."""
        return self.modules.edged.tailored_kubelet_config.container_runtime_endpoint == OCI_ENDPOINT

    @property
    def uses_docker_runtime(self) -> bool:
        """Whether that runtime is Docker Engine."""
        return self.modules.edged.tailored_kubelet_config.container_runtime_endpoint == DOCKER_ENDPOINT

    @property
    def uses_process_runtime(self) -> bool:
        """Whether containers are plain processes of this machine, with no images, limits or isolation."""
        return self.modules.edged.tailored_kubelet_config.container_runtime_endpoint == PROCESS_ENDPOINT

    @property
    def container_runtime_root(self) -> Path:
        """Directory of the state of the runtime inside edgecore; each kind has its own."""
        return self.modules.edged.root_directory / self._runtime_kind

    @property
    def container_runtime_socket(self) -> Path:
        """Socket of the runtime inside edgecore."""
        return self.modules.edged.root_directory / f"{self._runtime_kind}.sock"

    @property
    def runs_mqtt_broker(self) -> bool:
        """Whether edgecore has to run an MQTT broker of its own (`mqttMode` 0 and 1)."""
        return self.modules.event_bus.enable and self.modules.event_bus.mqtt_mode != 2

    @property
    def internal_broker(self) -> Path:
        """Directory of the MQTT broker that edgecore runs."""
        return self.modules.edged.root_directory / "mosquitto"

    @property
    def image_archives(self) -> Path:
        """Directory of archives of images that the OCI runtime imports at its start."""
        return self.modules.edged.root_directory / "image-archives"

    @property
    def runtime_endpoint(self) -> str:
        """The socket that edged calls, `unix:///…`, also of a runtime inside edgecore."""
        return self._socket_of(self.modules.edged.tailored_kubelet_config.container_runtime_endpoint)

    @property
    def image_endpoint(self) -> str:
        """The socket of the image service, `unix:///…`; the runtime's unless another one is configured."""
        endpoint = self.modules.edged.tailored_kubelet_config.image_service_endpoint
        return self._socket_of(endpoint) if endpoint else self.runtime_endpoint

    @property
    def _runtime_kind(self) -> str:
        return "oci" if self.uses_oci_runtime else "docker" if self.uses_docker_runtime else "embedded"

    def _socket_of(self, endpoint: str) -> str:
        return f"unix://{self.container_runtime_socket}" if endpoint in INSIDE else endpoint
