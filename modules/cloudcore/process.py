"""The cloud stub's process: modules put together, started, and ended by a signal."""

import logging
import resource
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from beehive.clock import RealClock
from beehive.errors import BeehiveError
from beehive.hive import Hive
from beehive.runtime import Threads
from modules.cloudcore.config import CloudCoreConfig, TlsConfig
from modules.cloudcore.control import Control
from modules.cloudhub.inlet import Inlet
from modules.cloudhub.module import CloudHub, CloudHubSettings
from modules.cloudhub.refusals import Refusals
from modules.cloudhub.server import WebsocketServer
from modules.dynamiccontroller.module import DynamicController
from modules.edgecontroller.cluster import Cluster
from modules.edgecontroller.database.database import Database
from modules.edgecontroller.manifest_directory import ManifestDirectory
from modules.edgecontroller.module import EdgeController
from modules.edgecore.exit_codes import ExitCode
from modules.edgecore.shutdown import Shutdown

if TYPE_CHECKING:
    import ssl

_log = logging.getLogger(__name__)


class RunOptions(msgspec.Struct, frozen=True):
    """What `cloudcore run` is told beside the stub's settings."""

    config: CloudCoreConfig
    ready_file: Path | None = None
    """File that is written when the stub is ready: a line with the websocket's address and, with TLS, one with that
    of the certificates.
    """


def run(options: RunOptions) -> int:
    """Runs the stub until SIGTERM or SIGINT; a second one ends it at once. Gives the exit status."""
    shutdown = Shutdown(at_once=ExitCode.INTERRUPTED)
    _allow_many_files()
    try:
        stub = CloudCore(options.config)
        stub.start()
    except (BeehiveError, OSError) as error:
        sys.stderr.write(f"cloudcore: {error}\n")
        return ExitCode.START_FAILED
    _announce(options.ready_file, "".join(f"{host}:{port}\n" for host, port in stub.addresses))
    listening = ", ".join(stub.urls)
    sys.stdout.write(f"cloudcore: listening on {listening}, control socket {options.config.control_socket}\n")
    sys.stdout.flush()
    _log.info("stopping: %s", shutdown.wait().name)
    return _stop(stub)


class CloudCore:
    """The modules of the stub on one hive; also for tests that want a cloud in their own process.

    Args:
        config: settings.

    Raises:
        DatabaseError: the database cannot be used.
        AuthorityError: the certificate authority's files cannot be used.
        OSError: as before.
    """

    def __init__(self, config: CloudCoreConfig) -> None:
        clock = RealClock()
        self._clock = clock
        self._servers: list[WebsocketServer] = []
        self._config = config
        self.hive = Hive(Threads(clock))
        self._database = Database(config.database_url, f"{socket.gethostname()}-{clock.new_id()}"[:64])
        first_version = int(clock.now()) if self._database.is_new else 1
        cluster = Cluster(clock, config.default_node or "", first_version)
        manifests = ManifestDirectory(config.manifests_dir, cluster) if config.manifests_dir else None
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
        self.hive.add(Control, config.control_socket, refusals)

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the websocket, when started."""
        return self._servers[-1].address

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Host and port of the websocket and, with TLS, of the certificates."""
        return [self.address, *self._https]

    @property
    def urls(self) -> list[str]:
        """The same as nodes are told."""
        schemes = ("wss", "https") if self._config.tls else ("ws",)
        return [f"{scheme}://{host}:{port}" for scheme, (host, port) in zip(schemes, self.addresses, strict=True)]

    def start(self) -> None:
        """Starts all modules.

        Raises:
            StartError: one could not be started; nothing is left running.
        """
        self.hive.start()

    def stop(self) -> None:
        """Stops all modules.

        Raises:
            StopError: one was still running at the deadline.
        """
        try:
            self.hive.stop()
        finally:
            self._clock.close()
            self._database.close()

    def _add_registrar(self, tls: TlsConfig) -> str:
        """What TLS needs; gives the CA certificate, PEM."""
        from modules.cloudhub.certificates import contexts, registrar, store  # noqa: PLC0415 - cryptography is 17 MB

        files = store.Files(tls.directory)
        authority = store.open_authority(files, tls.names, self._clock.now())
        self._websocket_context = contexts.websocket_context(files)
        settings = registrar.RegistrarSettings(tls.https_address, tls.https_port, tls.certificate_seconds)
        self.hive.add(registrar.Registrar, settings, authority, files, self._https)
        return authority.pem

    def _make_server(self, deliver: Inlet) -> WebsocketServer:
        """The websocket server; after a restart of cloudhub on the port that it had before."""
        port = self._servers[-1].address[1] if self._servers else self._config.listen_port
        server = WebsocketServer(
            self._config.listen_address,
            port,
            deliver,
            clock=self._clock,
            node_limit=self._config.node_limit,
            max_frame_bytes=self._config.max_frame_bytes,
            write_timeout=self._config.write_timeout,
            ssl_context=self._websocket_context,
            is_crowded=deliver.is_crowded,
        )
        self._servers[:] = [server]
        return server


def _allow_many_files() -> None:
    """Each node's connection is a file: the soft limit of most systems is 1,024."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _announce(ready_file: Path | None, text: str) -> None:
    if ready_file is not None:
        new = ready_file.with_name(ready_file.name + ".new")
        new.write_text(text)
        new.replace(ready_file)


def _stop(stub: CloudCore) -> int:
    try:
        stub.stop()
    except BeehiveError as error:
        sys.stderr.write(f"cloudcore: {error}\n")
        return ExitCode.STOP_TIMED_OUT
    return ExitCode.OK
