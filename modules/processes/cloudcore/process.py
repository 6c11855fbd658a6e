"""The process of cloudcore."""

import logging
import os
import resource
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from beehive.clock import RealClock
from beehive.errors import BeehiveError
from beehive.hive import Hive
from beehive.message import Message
from beehive.names import ModuleName
from beehive.runtime import Threads
from modules.cloud.apiserver import commands
from modules.cloud.apiserver.authentication.authenticator import Authenticator
from modules.cloud.apiserver.authentication.token_file import StaticTokens, read_tokens
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.database.database import Database
from modules.cloud.apiserver.manifest_directory import ManifestDirectory, check_directory
from modules.cloud.cloudhub.dispatcher import Dispatcher
from modules.cloud.cloudhub.module import CloudHub, CloudHubSettings
from modules.cloud.cloudhub.server import WebsocketServer, WebsocketSettings
from modules.cloud.dynamiccontroller.module import DynamicController
from modules.cloud.edgecontroller.cluster_api import RemoteCluster
from modules.cloud.edgecontroller.module import EdgeController
from modules.cloud.messages import DRAIN, DRAIN_RESOURCE, Drain
from modules.cloud.refusals import Refusals
from modules.processes.cloudcore.config import CloudCoreConfig, TlsConfig
from modules.processes.cloudcore.control import Control, check_socket
from modules.processes.cloudcore.health_server import HealthServer
from modules.processes.cloudcore.secure_serving import SecureServing
from modules.processes.edgecore.exit_codes import ExitCode
from modules.processes.edgecore.service_manager import ServiceManager, Watch, dead_modules
from modules.processes.edgecore.shutdown import Shutdown
from modules.processes.edgecore.version import VERSION

if TYPE_CHECKING:
    import ssl

    from modules.cloud.client.kubeconfig.model import Selected

_DRAIN_SECONDS = 8.0
"""Time in which the connections of nodes are ended; a kubelet gives a pod 30 s to stop."""
_DRAIN_MARGIN = 1.0
_API_CONNECTIONS = 16
"""As many as `DEFAULT_LIMITS` lets calls be in flight."""
_log = logging.getLogger(__name__)


class RunOptions(msgspec.Struct, frozen=True):
    """The options of `cloudcore run`."""

    config: CloudCoreConfig
    ready_file: Path | None = None
    """File that is written when cloudcore is ready: a line with the websocket's address and, with TLS, one with that of
    the HTTPS server.
    """


def run(options: RunOptions) -> int:
    """Runs cloudcore until SIGTERM or SIGINT; returns the exit status. A second signal ends the process at once."""
    shutdown = Shutdown(at_once=ExitCode.INTERRUPTED)
    manager = ServiceManager()
    _allow_many_files()
    try:
        cloud = CloudCore(options.config)
        cloud.start()
    except (BeehiveError, OSError) as error:
        sys.stderr.write(f"cloudcore: {error}\n")
        return ExitCode.START_FAILED
    _announce(options.ready_file, "".join(f"{host}:{port}\n" for host, port in cloud.addresses))
    listening = ", ".join(cloud.urls)
    sys.stdout.write(f"cloudcore: listening on {listening}, control socket {options.config.control_socket}\n")
    sys.stdout.flush()
    watch = Watch(manager, cloud.hive.clock, lambda: _look(cloud))
    watch.begin()
    _log.info("stopping: %s", shutdown.wait().name)
    watch.close()
    cloud.drain()
    return _stop(cloud)


def _look(cloud: "CloudCore") -> tuple[str, bool]:
    """Return a line for `systemctl status`, and whether the modules are alive."""
    dead = dead_modules(cloud.hive)
    return (f"not alive: {'; '.join(dead)}", False) if dead else (f"listening on {', '.join(cloud.urls)}", True)


class CloudCore:
    """The modules of cloudcore on one hive; tests run it in their own process.

    Args:
        config: settings.

    Raises:
        ControlError: another cloudcore has the control socket.
        ManifestDirectoryError: the directory of manifests is missing or cannot be read.
        DatabaseError: the database cannot be used.
        TokenFileError: the file of tokens cannot be used.
        KubeconfigError: the kubeconfig, or the pod's service account, cannot be used.
        AuthorityError: the certificate authority's files cannot be used.
        OSError: the certificate authority's files cannot be read.
    """

    def __init__(self, config: CloudCoreConfig) -> None:
        check_socket(config.control_socket)
        if config.manifests_dir:
            check_directory(config.manifests_dir)
        selected = _selected(config)
        clock = RealClock()
        self._clock = clock
        self._servers: list[WebsocketServer] = []
        self._config = config
        self.hive = Hive(Threads(clock))
        name = f"{socket.gethostname()}-{clock.new_id()}"[:64]
        self._database = Database(config.database_url, name, stores_objects=selected is None)
        embedded = Cluster(clock, config.default_node or "", int(clock.now()) if self._database.is_new else 1)
        manifests = ManifestDirectory(config.manifests_dir, embedded) if config.manifests_dir else None
        cluster = embedded if selected is None else _remote(selected, keeps_state=config.state == "cluster")
        self._https: list[tuple[str, int]] = []
        self._websocket_context: ssl.SSLContext | None = None
        ca_pem = self._add_registrar(config.tls) if config.tls else ""
        settings = CloudHubSettings(
            keepalive_interval=config.keepalive_interval, ack_resend_interval=config.ack_resend_interval, ca_pem=ca_pem
        )
        refusals = Refusals(clock)
        self.hive.add(EdgeController, cluster, self._database, manifests, refusals)
        self.hive.add(CloudHub, settings, self._make_server, {}, refusals)
        self.hive.add(DynamicController)
        self._secure = self._secure_serving(config)
        self.hive.add(Control, config.control_socket, refusals, self._secure)
        self._metrics: list[tuple[str, int]] = []
        if config.metrics_address:
            self.hive.add(HealthServer, config.metrics_address, config.metrics_port, refusals, self._metrics)

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the websocket, when started."""
        return self._servers[-1].address

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Host and port of the websocket and, with TLS, of the HTTPS server."""
        return [self.address, *self._https]

    @property
    def urls(self) -> list[str]:
        """The addresses as URLs, also that of the metrics."""
        schemes = ("wss", "https") if self._config.tls else ("ws",)
        served = [*zip(schemes, self.addresses, strict=True), *(("http", metrics) for metrics in self._metrics)]
        urls = [f"{scheme}://{_host(host)}:{port}" for scheme, (host, port) in served]
        return [*urls, f"{self._secure.url} (Kubernetes API)"] if self._secure else urls

    @property
    def secure_port(self) -> int:
        """The TCP port of the Kubernetes API, when started; 0 without one."""
        return self._secure.port if self._secure else 0

    def start(self) -> None:
        """Starts all modules.

        Raises:
            StartError: a module could not be started; none is left running.
        """
        self.hive.start()

    def drain(self, seconds: float = _DRAIN_SECONDS) -> None:
        """Accepts no more nodes, and ends the connections of all, a few at a time; cloudcore is not ready meanwhile.

        Requests that wait for their answers are answered first, unless that takes longer.

        Args:
            seconds: time for that.
        """
        for server in self._servers:
            server.stop_listening()
        message = Message.new(
            self._clock, source=commands.SOURCE, resource=DRAIN_RESOURCE, operation=DRAIN, content=Drain(seconds)
        )
        try:
            self.hive.request(ModuleName.CLOUDHUB, message, seconds + _DRAIN_MARGIN).get()
        except BeehiveError as error:
            _log.warning("the connections of nodes are cut: %s", error)

    def stop(self) -> None:
        """Stops all modules.

        Raises:
            StopError: a module was still running at the deadline.
        """
        try:
            self.hive.stop()
        finally:
            self._clock.close()
            self._database.close()

    def _add_registrar(self, tls: TlsConfig) -> str:
        """Adds the registrar, sets the websocket's TLS context, and returns the CA certificate, PEM."""
        from modules.cloud.cloudhub.certificates import authority_files, contexts, registrar  # noqa: PLC0415 - cryptography is 17 MB

        files = authority_files.AuthorityFiles(tls.directory)
        authority = authority_files.open_authority(files, tls.names, self._clock.now())
        self._websocket_context = contexts.websocket_context(files)
        settings = registrar.RegistrarSettings(tls.https_address, tls.https_port, tls.certificate_seconds)
        self.hive.add(registrar.Registrar, settings, authority, files, self._https)
        return authority.pem

    @staticmethod
    def _secure_serving(config: CloudCoreConfig) -> SecureServing | None:
        """Returns the Kubernetes API's server over HTTPS; the registrar has made the authority."""
        if config.secure_port is None or config.tls is None:
            return None
        from modules.cloud.cloudhub.certificates import authority_files, contexts  # noqa: PLC0415 - cryptography is 17 MB

        tokens = read_tokens(config.token_auth_file) if config.token_auth_file else StaticTokens({})
        context = contexts.https_context(authority_files.AuthorityFiles(config.tls.directory))
        return SecureServing(config.bind_address, config.secure_port, context, Authenticator(tokens))

    def _make_server(self, deliver: Dispatcher) -> WebsocketServer:
        """Returns a websocket server; after a restart of cloudhub it listens on the same port."""
        port = self._servers[-1].address[1] if self._servers else self._config.listen_port
        settings = WebsocketSettings(
            address=self._config.listen_address,
            port=port,
            node_limit=self._config.node_limit,
            max_frame_bytes=self._config.max_frame_bytes,
            write_timeout=self._config.write_timeout,
        )
        server = WebsocketServer(
            settings, deliver, self._clock, ssl_context=self._websocket_context, is_full=deliver.is_full
        )
        self._servers[:] = [server]
        return server


def _selected(config: CloudCoreConfig) -> "Selected | None":
    """Returns the cluster and user of a kubeconfig, or of the pod; None for the embedded API server."""
    if config.kubeconfig is None and not config.in_cluster:
        return None
    from modules.cloud.client.kubeconfig import reading  # noqa: PLC0415 - for clusters only

    if config.kubeconfig is None:
        return reading.in_cluster(os.environ)
    return reading.load([config.kubeconfig]).select(config.context)


def _remote(selected: "Selected", *, keeps_state: bool) -> RemoteCluster:
    from modules.cloud.client.http.factory import http_transport  # noqa: PLC0415 - for clusters only

    agent, connections = f"cloudcore/{VERSION}", _API_CONNECTIONS
    return RemoteCluster(lambda runtime: http_transport(selected, runtime, agent, connections), keeps_state)


def _host(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def _allow_many_files() -> None:
    """Raises the limit of open files: each node's connection is one, and most systems' soft limit is 1,024."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _announce(ready_file: Path | None, text: str) -> None:
    if ready_file is not None:
        new = ready_file.with_name(ready_file.name + ".new")
        new.write_text(text)
        new.replace(ready_file)


def _stop(cloud: CloudCore) -> int:
    try:
        cloud.stop()
    except BeehiveError as error:
        sys.stderr.write(f"cloudcore: {error}\n")
        return ExitCode.STOP_TIMED_OUT
    return ExitCode.OK
