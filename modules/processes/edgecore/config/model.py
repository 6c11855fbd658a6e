"""The whole configuration of edgecore, in KubeEdge's form `edgecore.config.kubeedge.io/v1alpha2`.

It is immutable and made in three ways: `default()` has KubeEdge's defaults, `embedded(root)` is a node that needs
nothing installed and keeps everything below one directory, and `modules.processes.edgecore.config.load` reads a file.
The properties at the end compose URLs and paths for the assembly.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

from msgspec import field

from modules.processes.edgecore.config.edged import Edged
from modules.processes.edgecore.config.edgehub import EdgeHub, WebSocket
from modules.processes.edgecore.config.kubelet import TailoredKubeletConfig
from modules.processes.edgecore.config.names import EMBEDDED_ENDPOINT, LISTEN_ADDRESS, host_name, node_name_from
from modules.processes.edgecore.config.section import Section
from modules.processes.edgecore.config.value_kinds import Choice, Secret, SecretText, Switch, Whole

SOCKET_PATH_LIMIT: Final = 107
"""Longest path of a unix socket on Linux, in bytes (`sun_path` without its final zero)."""

DATA_SOURCE: Final = Secret("an absolute path, or a database URL", r"/[^\x00-\x1f\x7f]+|[a-z0-9+]+://[^\x00-\x1f\x7f]*")


class ApiVersion(StrEnum):
    """Accepted forms of the file."""

    V1ALPHA2 = "edgecore.config.kubeedge.io/v1alpha2"


API_VERSION: Final = Choice(ApiVersion, "`edgecore config minimal` prints a file of that form")


class ConfigKind(StrEnum):
    """Kind of the file's object."""

    EDGE_CORE = "EdgeCore"


class Driver(StrEnum):
    """KubeEdge's names of database drivers."""

    SQLITE = "sqlite3"


class DataBase(Section, frozen=True, kw_only=True):
    """The database of objects that the cloud sent."""

    data_source: Annotated[SecretText, DATA_SOURCE] = SecretText("/var/lib/kubeedge/edgecore.db")
    """File of the SQLite database, or a URL as SQLAlchemy takes it
    (`postgresql+psycopg://user:password@host/name`), in which case driverName does not count. Treated as a
    secret, because a URL may hold a password."""

    driver_name: Annotated[Driver, Choice(Driver)] = Driver.SQLITE
    """KubeEdge's name of the kind of database; it knows only this one. For another give a URL as
    dataSource."""


class MetaServer(Section, frozen=True, kw_only=True):
    """The Kubernetes API on the node, for the node's own objects."""

    enable: Annotated[bool, Switch()] = False
    """Whether it is served."""

    serve_secrets: Annotated[bool, Switch()] = False
    """Whether secrets may be read there. Ours: it asks for no credentials, so everybody who reaches the address could
    read them."""

    server: Annotated[str, LISTEN_ADDRESS] = "127.0.0.1:10550"
    """Where it listens, in plain HTTP without credentials. Every client that reaches it can read the node's objects,
    and change in the cloud all that the node's own rights allow.
    """


class MetaManager(Section, frozen=True, kw_only=True):
    """The part that stores the cloud's objects and answers from them."""

    enable: Annotated[bool, Switch()] = True
    """Whether the node remembers anything. Without it nothing works but the link itself; for tests only."""

    meta_server: MetaServer = MetaServer()
    """The Kubernetes API on the node."""

    remote_query_timeout: Annotated[int, Whole("seconds", 1, 3600)] = 60
    """Longest wait for the cloud's answer to a question that the store cannot answer."""


class Modules(Section, frozen=True, kw_only=True):
    """Settings of each module."""

    edge_hub: EdgeHub = EdgeHub()
    """The link to the cloud."""

    edged: Edged = field(default_factory=Edged)
    """The node and its pods."""

    meta_manager: MetaManager = MetaManager()
    """The store."""


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

    @classmethod
    def default(cls) -> EdgeCoreConfig:
        """Return KubeEdge's defaults, for a node with containerd and a cloud. The node's name is this machine's."""
        return cls()

    @classmethod
    def embedded(cls, root: Path) -> EdgeCoreConfig:
        """Return the configuration for an ordinary user with nothing installed: the embedded runtime, everything below
        `root`, the cloud of this machine without TLS.

        `root` need not exist; a relative one is below the working directory. Pods are evicted for disk space only when
        almost none is left, because the disk is its owner's to fill.
        """
        root = root.absolute()
        kubelet = TailoredKubeletConfig(
            container_runtime_endpoint=EMBEDDED_ENDPOINT,
            pod_logs_dir=root / "logs" / "pods",
            static_pod_path=str(root / "manifests"),
            eviction_hard={"memory.available": "100Mi", "nodefs.available": "1Mi"},
        )
        return cls(
            database=DataBase(data_source=SecretText(root / "edgecore.db")),
            modules=Modules(
                edge_hub=EdgeHub(
                    websocket=WebSocket(server="ws://127.0.0.1:10000"),
                    tls_ca_file=root / "certs" / "rootCA.crt",
                    tls_cert_file=root / "certs" / "server.crt",
                    tls_private_key_file=root / "certs" / "server.key",
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
        """URL to which edgehub connects: `wss://{server}/{projectID}/{node}/events`, as KubeEdge's does."""
        hub = self.modules.edge_hub
        server = hub.websocket.server
        base = server if "://" in server else f"wss://{server}"
        return f"{base}/{hub.project_id}/{self.node_name}/events"

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
    def uses_embedded_runtime(self) -> bool:
        """Whether edgecore has to start the embedded runtime before edged."""
        return self.modules.edged.tailored_kubelet_config.container_runtime_endpoint == EMBEDDED_ENDPOINT

    @property
    def embedded_runtime_root(self) -> Path:
        """Directory of the embedded runtime's state."""
        return self.modules.edged.root_directory / "embedded"

    @property
    def embedded_runtime_socket(self) -> Path:
        """Socket of the embedded runtime."""
        return self.modules.edged.root_directory / "embedded.sock"

    @property
    def runtime_endpoint(self) -> str:
        """The socket that edged calls, `unix:///…`, also with the embedded runtime."""
        return self._socket_of(self.modules.edged.tailored_kubelet_config.container_runtime_endpoint)

    @property
    def image_endpoint(self) -> str:
        """The socket of the image service, `unix:///…`; the runtime's unless another one is configured."""
        endpoint = self.modules.edged.tailored_kubelet_config.image_service_endpoint
        return self._socket_of(endpoint) if endpoint else self.runtime_endpoint

    def _socket_of(self, endpoint: str) -> str:
        return f"unix://{self.embedded_runtime_socket}" if endpoint == EMBEDDED_ENDPOINT else endpoint
