"""The process of cloudcore."""

import logging
import os
import resource
import socket
import sys
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from beehive.clock import Clock, RealClock
from beehive.errors import BeehiveError
from beehive.hive import Hive
from beehive.http.authority import authority
from beehive.message import Message
from beehive.names import ModuleName
from beehive.on_failure import on_failure
from beehive.runtime import Threads
from beehive.turns import Turns
from modules.cloud import api_messages
from modules.cloud.api_messages import Verb
from modules.cloud.audit.log_file import AuditLog
from modules.cloud.audit.recording import AuditTrail
from modules.cloud.client.calls import ApiCall
from modules.cloud.cloudhub.dispatcher import Dispatcher
from modules.cloud.cloudhub.module import CloudHub, CloudHubSettings
from modules.cloud.cloudstream.module import CloudStream
from modules.cloud.cloudstream.opening import NodeStreams
from modules.cloud.cloudstream.passed_streams import ReceivedStreams, StreamsElsewhere, ask_cloudcores
from modules.cloud.cloudstream.tunnels import Tunnels
from modules.cloud.coordination.known_cloudcores import Duty, KnownCloudcores
from modules.cloud.devicecontroller.module import DeviceController
from modules.cloud.dynamiccontroller.module import DynamicController
from modules.cloud.edgecontroller.cluster.remote_cluster import RemoteCluster
from modules.cloud.edgecontroller.downstream.node_watches import NodeWatches
from modules.cloud.edgecontroller.module import EdgeController
from modules.cloud.identities.module import IdentitiesModule, known_identities
from modules.cloud.journal.database import JournalDatabase
from modules.cloud.journal.module import Journal
from modules.cloud.messages import (
    CLOUDCORES_RESOURCE,
    DRAIN,
    DRAIN_RESOURCE,
    RELEASE_LEASE,
    Drain,
)
from modules.cloud.refusals import Refusals
from modules.cloud.router.module import REST_SECONDS, CloudRouter
from modules.cloud.router.rest_service import RestListener
from modules.cloud.storage.database.database import Database
from modules.cloud.storage.database.engine import file_of
from modules.cloud.storage.database.room import Room
from modules.cloud.taskmanager.module import CloudTaskManager
from modules.cloud.websocket.server import WebsocketServer, WebsocketSettings
from modules.processes.cloudcore.api_listeners import ApiListener, InsecureListener, PageListener, SecureListener
from modules.processes.cloudcore.api_tokens import ApiTokens
from modules.processes.cloudcore.config import CloudCoreConfig, TlsConfig
from modules.processes.cloudcore.control import Control, EmbeddedApi, check_socket
from modules.processes.cloudcore.counters import Counters
from modules.processes.cloudcore.health_server import HealthServer
from modules.processes.cloudcore.router_parts import other_cloudcores, rest_listener
from modules.processes.cloudcore.stream_parts import stream_listener, tunnel_server
from modules.processes.common.exit_codes import ExitCode
from modules.processes.common.loopback import is_loopback
from modules.processes.common.memory import MemoryTrimmer, set_up_malloc
from modules.processes.common.service_manager import ServiceManager, Watch, dead_modules
from modules.processes.common.shutdown import Shutdown
from modules.processes.common.start_collector import collect_rarely
from modules.processes.common.version import VERSION

if TYPE_CHECKING:
    import ssl

    from modules.cloud.apiserver.kubernetes_service import KubernetesService
    from modules.cloud.client.kubeconfig.model import Selected
    from modules.cloud.cloudhub.certificates.authority import Authority
    from modules.cloud.cloudstream.stream_service import StreamListener
    from modules.cloud.router.other_cloudcores import OtherCloudcores

_DRAIN_SECONDS = 8.0
"""Time limit for ending the connections of nodes; a kubelet gives a pod 30 s to stop."""
_DRAIN_MARGIN = 1.0
_LIST_SECONDS = 10.0
"""Time limit of edgecontroller for listing the objects of the embedded API server; after it, nodes are served later."""
_RELEASE_SECONDS = 3.0
"""Time limit for giving up the Lease; a Lease left behind expires."""
_HOST_CHARACTERS = 27
"""Characters of the host's name in the identity of a process: with an id it fits into 64 characters, the width of a
column.
"""
_API_CONNECTIONS = 64
"""As many as `DEFAULT_LIMITS` lets calls be in flight."""
_MEGABYTE = 1024 * 1024
_log = logging.getLogger(__name__)


class RunOptions(msgspec.Struct, frozen=True):
    """The options of `cloudcore run`."""

    config: CloudCoreConfig
    ready_file: Path | None = None
    """File that is written when cloudcore is ready: a line with the websocket's address and, with TLS, one with the
    HTTPS server's address.
    """


def run(options: RunOptions) -> int:
    """Run cloudcore until SIGTERM or SIGINT; return the exit status. A second signal ends the process immediately."""
    shutdown = Shutdown(at_once=ExitCode.INTERRUPTED)
    manager = ServiceManager()
    _allow_many_files()
    set_up_malloc()
    try:
        cloud = CloudCore(options.config)
        cloud.start()
        with on_failure(lambda: _stop(cloud)):
            _announce(options, cloud)
    except (BeehiveError, OSError) as error:
        sys.stderr.write(f"cloudcore: {error}\n")
        return ExitCode.START_FAILED
    watch = Watch(manager, cloud.hive.clock, lambda: _liveness(cloud))
    watch.begin()
    trimmer = MemoryTrimmer(cloud.hive.clock)
    collect_rarely()
    _log.info("stopping: %s", shutdown.wait().name)
    watch.close()
    trimmer.close()
    cloud.drain()
    return _stop(cloud)


def _liveness(cloud: "CloudCore") -> tuple[str, bool]:
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
        AuditLogError: the audit log cannot be used.
        OSError: the certificate authority's files cannot be read.
    """

    def __init__(self, config: CloudCoreConfig) -> None:
        check_socket(config.control_socket)
        if config.manifests_dir:
            from modules.cloud.apiserver.manifest_directory import check_directory  # noqa: PLC0415 - not for clusters

            check_directory(config.manifests_dir)
        self._config = config
        self._selected = _selected(config)
        self._clock = clock = RealClock()
        self.hive = Hive(Threads(clock))
        self._name = f"{socket.gethostname()[:_HOST_CHARACTERS]}-{clock.new_id()}"
        self._refusals, self._known, self._identities = (
            Refusals(clock),
            KnownCloudcores(self._name, _duties(config)),
            known_identities(self.hive),
        )
        self._counters = Counters(self._refusals, self._known, _audit_log(config, clock), config.name)
        self._service = _kubernetes_service(config)
        self._authority = self._open_authority(config.tls) if config.tls is not None else None
        self._turn = Turns()
        self._room = Room(file_of(config.database_url))
        self._databases: list[Database] = []
        self._servers: list[WebsocketServer] = []
        self._https: list[tuple[str, int]] = []
        self._metrics: list[tuple[str, int]] = []
        self._websocket_context: ssl.SSLContext | None = None
        self._tunnels = Tunnels(clock)
        self._tokens = ApiTokens(config, self.hive, clock, self._identities, lambda: self.api_port)
        self._add_modules()

    def _add_modules(self) -> None:
        """Add the modules, in the order in which they start; they stop in the opposite one."""
        config, (cluster, embedded) = self._config, self._add_api_server()
        database = self._open_database()
        may_be_several = self._selected is not None or database.shared
        self._add_registrar()
        self.hive.add(IdentitiesModule, self._identities, cluster.connect, config.lease.namespace)
        self.hive.add(
            EdgeController,
            msgspec.structs.replace(cluster, labels_of=self._identities.labels_of),
            database,
            refusals=self._refusals,
            lease=config.lease if may_be_several else None,
            known=self._known,
            watches=NodeWatches(),
        )
        self.hive.add(
            Journal,
            lambda: JournalDatabase(config.database_url, self._turn),
            self._name,
            is_short=lambda: self._room.is_short,
            keeps_writes=self._is_embedded,
            most_values=config.device_history,
        )
        self._add_cloudhub()
        self.hive.add(DynamicController)
        self.hive.add(DeviceController, self._refusals, self._known, is_embedded=self._is_embedded)
        if self._is_embedded or config.jobs:
            self.hive.add(CloudTaskManager, self._refusals, cluster.connect, self._known)
        others = other_cloudcores(config, self._authority, self._known, self._clock) if may_be_several else None
        self._add_router(cluster, others)
        nodes = self._add_streams(others, may_be_several=may_be_several)
        self._listeners = self._api_listeners()
        self.hive.add(
            Control,
            config.control_socket,
            self._counters,
            listeners=self._listeners,
            nodes=nodes,
            identities=self._identities,
            embedded=embedded,
            audit=AuditTrail(self._counters.audit, self._clock) if self._counters.audit is not None else None,
            bundles=self._config.bundles if self._config.tls is not None else None,
        )
        self._add_health_server()

    def _add_api_server(self) -> tuple[RemoteCluster, EmbeddedApi | None]:
        """Add the embedded API server, unless there is a cluster; return how its clients reach it, and its parts for
        the module `control`.
        """
        if self._selected is not None:
            return _remote(self._selected, self._config, self._counters), None
        from modules.processes.cloudcore.embedded_api_server import EmbeddedApiServer  # noqa: PLC0415 - 4 MB

        server = EmbeddedApiServer(
            self.hive,
            self._config,
            self._known,
            self._counters,
            turn=self._turn,
            room=self._room,
            authority=self._authority,
            service=self._service,
            refuses=self._identities.refuses_token,
        )
        self._databases.append(server.database)
        return server.cluster, EmbeddedApi(server.rbac, server.subscriptions, self._tokens)

    def _open_database(self) -> Database:
        """Return the database of edgecontroller."""
        database = Database(
            self._config.database_url,
            self._name,
            stores_objects=False,
            turn=self._turn,
            room=self._room,
            meter=self._counters.meter(ModuleName.EDGECONTROLLER, self._clock),
        )
        self._databases.append(database)
        return database

    @property
    def _is_embedded(self) -> bool:
        return self._selected is None

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
        """The addresses as URLs, also the metrics'."""
        schemes = ("wss", "https") if self._config.tls else ("ws",)
        served = [*zip(schemes, self.addresses, strict=True), *(("http", metrics) for metrics in self._metrics)]
        urls = [f"{scheme}://{authority(host, port)}" for scheme, (host, port) in served]
        callers = [f"{self._callers.url} (callers of nodes)"] if self._callers is not None else []
        streams = [f"{self._streams.url} (streams)"] if self._streams is not None else []
        tunnels = [f"port {self._tunnels.port} (stream tunnels)"] if self._tunnels.port else []
        word = "Kubernetes API" if self._is_embedded else "the page"
        apis = [f"{listener.url} ({word})" for listener in self._listeners]
        return [*urls, *apis, *callers, *tunnels, *streams]

    @property
    def tunnel_port(self) -> int:
        """The TCP port of the nodes' tunnels, when started; 0 without one."""
        return self._tunnels.port

    @property
    def stream_port(self) -> int:
        """The TCP port of the streams for a cluster's API server, when started; 0 without one."""
        return self._streams.port if self._streams is not None else 0

    @property
    def callers_port(self) -> int:
        """The TCP port for callers of nodes, when started; 0 without one."""
        return self._callers.port if self._callers is not None else 0

    def _own_ports(self) -> set[int]:
        """Return the TCP ports of this process."""
        listened = {port for _, port in (*self.addresses, *self._metrics)}
        return listened | {listener.port for listener in self._listeners} | {self.callers_port, self.tunnel_port}

    @property
    def api_port(self) -> int:
        """The TCP port of the Kubernetes API, when started, the secure one first; 0 without one."""
        return next((listener.port for listener in self._listeners), 0)

    def start(self) -> None:
        """Start all modules, and wait until edgecontroller has the objects of the embedded API server.

        Raises:
            StartError: a module could not be started; none is left running.
        """
        if self._counters.audit is not None:
            self._counters.audit.start()
        self.hive.start()
        if self._is_embedded:
            self._wait_for_objects()

    def drain(self, seconds: float = _DRAIN_SECONDS) -> None:
        """Accept no more nodes, and end the connections of all, a few at a time; cloudcore is not ready meanwhile.

        Requests that wait for their answers are answered first, unless that takes longer. The Lease is given up at
        once, so that other cloudcores take over the duties.

        Args:
            seconds: time for that.
        """
        for server in self._servers:
            server.stop_listening()
        release = self._message(CLOUDCORES_RESOURCE, RELEASE_LEASE)
        drain = self._message(DRAIN_RESOURCE, DRAIN, Drain(seconds))
        try:
            released = self.hive.request(ModuleName.EDGECONTROLLER, release, _RELEASE_SECONDS)
            self.hive.request(ModuleName.CLOUDHUB, drain, seconds + _DRAIN_MARGIN).get()
        except BeehiveError as error:
            _log.warning("the connections of nodes are cut: %s", error)
            return
        try:
            released.get()
        except BeehiveError as error:
            _log.warning("the Lease is left behind, until it expires: %s", error)

    def _wait_for_objects(self) -> None:
        """Wait for the answer to a request, which edgecontroller gives when it has listed the objects."""
        call = ApiCall(verb="get", api_version="v1", plural="nodes", name="none")
        request = self._message(api_messages.RESOURCE, Verb.CALL, call)
        try:
            self.hive.request(ModuleName.EDGECONTROLLER, request, _LIST_SECONDS).get()
        except BeehiveError as error:
            _log.warning("the objects are not listed yet: %s", error)

    def _message(self, resource: str, operation: str, content: object = None) -> Message:
        return Message.new(
            self._clock, source=api_messages.SOURCE, resource=resource, operation=operation, content=content
        )

    def stop(self) -> None:
        """Stop all modules.

        Raises:
            StopError: a module was still running at the deadline.
        """
        with ExitStack() as stack:
            for database in reversed(self._databases):
                stack.callback(database.close)
            stack.callback(self._clock.close)
            if self._counters.audit is not None:
                stack.callback(self._counters.audit.close)
            self.hive.stop()

    def _open_authority(self, tls: TlsConfig) -> "Authority":
        from modules.cloud.cloudhub.certificates import authority_files  # noqa: PLC0415 - cryptography is 17 MB

        files = authority_files.AuthorityFiles(tls.directory)
        names = self._service.names if self._service is not None else ()
        return authority_files.open_authority(files, (*tls.names, *names), self._clock.now())

    def _add_registrar(self) -> None:
        """Add the registrar, and set the websocket's context, with TLS only."""
        tls, authority = self._config.tls, self._authority
        if tls is None or authority is None:
            return
        from modules.cloud.cloudhub.certificates import authority_files, contexts, registrar  # noqa: PLC0415 - cryptography is 17 MB

        files = authority_files.AuthorityFiles(tls.directory)
        self._websocket_context = contexts.websocket_context(files)
        settings = registrar.RegistrarSettings(
            tls.https_address,
            tls.https_port,
            tls.certificate_seconds,
            self._config.bundles,
            self._config.bundle_rate * _MEGABYTE,
        )
        self.hive.add(
            registrar.Registrar, settings, authority, files, self._https, self._counters.cloudhub, self._identities
        )

    def _add_health_server(self) -> None:
        config = self._config
        if config.metrics_address:
            self.hive.add(HealthServer, config.metrics_address, config.metrics_port, self._counters, self._metrics)

    def _add_cloudhub(self) -> None:
        config, counters = self._config, self._counters.cloudhub
        settings = CloudHubSettings(
            keepalive_interval=config.keepalive_interval,
            ack_resend_interval=config.ack_resend_interval,
            ca_pem=self._authority.pem if self._authority is not None else "",
        )
        self.hive.add(CloudHub, settings, self._make_server, counters.sessions, self._refusals, counters)

    def _add_router(self, cluster: RemoteCluster, others: "OtherCloudcores | None") -> None:
        """Add the router: always beside the embedded API server, else if callers of nodes have a port."""
        config = self._config
        self._callers: RestListener | None = None
        if not self._is_embedded and config.router is None:
            return
        received = ReceivedStreams(self._tunnels, NodeStreams(self._tunnels, self._clock))
        self._callers = rest_listener(config, self._tokens.authenticator, self._clock, self._identities, received)
        self.hive.add(
            CloudRouter,
            self._refusals,
            cluster.connect,
            listener=self._callers,
            rest_seconds=config.router.rest_timeout if config.router is not None else REST_SECONDS,
            others=others,
            own_ports=self._own_ports,
        )

    def _add_streams(self, others: "OtherCloudcores | None", *, may_be_several: bool) -> NodeStreams:
        """Add the module of stream tunnels, if it is wanted, and return the access to the servers of nodes."""
        elsewhere = StreamsElsewhere(others, partial(ask_cloudcores, self.hive, self._clock), self._clock)
        nodes = NodeStreams(self._tunnels, self._clock, elsewhere if may_be_several else None)
        self._streams: StreamListener | None = stream_listener(self._config, self._tunnels, nodes)
        if self._config.cloud_stream is not None:
            make = tunnel_server(self._config, self._tunnels, self._clock, self._websocket_context, self._identities)
            self.hive.add(CloudStream, self._tunnels, make, self._streams)
        return nodes

    def _make_server(self, deliver: Dispatcher) -> WebsocketServer:
        """Return a websocket server; after a restart of cloudhub it listens on the same port."""
        port = self._servers[-1].address[1] if self._servers else self._config.listen_port
        settings = WebsocketSettings(
            address=self._config.listen_address,
            port=port,
            node_limit=self._config.node_limit,
            max_frame_bytes=self._config.max_frame_bytes,
            write_timeout=self._config.write_timeout,
        )
        server = WebsocketServer(
            settings, deliver, self._clock, ssl_context=self._websocket_context,
            is_full=lambda: (self._websocket_context is not None and self._identities.is_loading) or deliver.is_full(),
            counters=self._counters.cloudhub, identities=self._identities,
        )  # fmt: skip
        self._servers[:] = [server]
        return server

    def _api_listeners(self) -> list[ApiListener]:
        """Return the TCP ports of the Kubernetes API, or of a cluster's page; the registrar has made the authority."""
        config, listeners = self._config, list[ApiListener]()
        if config.secure_port is not None and config.tls is not None:
            from modules.cloud.cloudhub.certificates import authority_files, contexts  # noqa: PLC0415 - cryptography is 17 MB

            files, port = authority_files.AuthorityFiles(config.tls.directory), config.secure_port
            if self._selected is not None:
                context = contexts.page_context(files)
                names = config.tls.names
                return [PageListener(config.bind_address, port, context, config.max_streams, names, self._selected)]
            context = contexts.https_context(files)
            listeners.append(
                SecureListener(
                    config.bind_address, port, context, self._tokens.authenticator, config.max_streams,
                    self._tokens.end_connections, page_names=config.tls.names if config.page else (),
                    page_allows=config.page_allow, provider=config.oidc,
                )
            )  # fmt: skip
        if config.insecure_port is not None:
            listeners.append(InsecureListener(config.insecure_port, config.max_streams))
        return listeners


def _duties(config: CloudCoreConfig) -> frozenset[Duty]:
    """Return what a cloudcore does if it is the one."""
    if config.kubeconfig is not None or config.in_cluster:
        return frozenset({Duty.JOBS} if config.jobs else ())
    return frozenset(Duty) if config.controllers == "embedded" else frozenset({Duty.DEVICES, Duty.JOBS})


def _selected(config: CloudCoreConfig) -> "Selected | None":
    """Return the cluster and user of a kubeconfig, or of the pod; None for the embedded API server."""
    if config.kubeconfig is None and not config.in_cluster:
        return None
    from modules.cloud.client.kubeconfig import reading  # noqa: PLC0415 - for clusters only

    if config.kubeconfig is None:
        return reading.in_cluster(os.environ)
    return reading.load([config.kubeconfig]).select(config.context)


def _audit_log(config: CloudCoreConfig, clock: Clock) -> AuditLog | None:
    """Return the audit log, None without one. Raises AuditLogError."""
    if config.audit_log is None:
        return None
    return AuditLog(config.audit_log.path, config.audit_log.max_size * _MEGABYTE, config.audit_log.max_backup, clock)


def _kubernetes_service(config: CloudCoreConfig) -> "KubernetesService | None":
    """Return where pods reach the embedded API server; None where only this machine does, or the port is not known."""
    is_remote = config.kubeconfig is not None or config.in_cluster
    if is_remote or not config.secure_port or config.tls is None or is_loopback(config.bind_address):
        return None
    from modules.cloud.apiserver.kubernetes_service import kubernetes_service  # noqa: PLC0415 - not for clusters
    from modules.cloud.apiserver.service_addresses import service_ranges  # noqa: PLC0415 - as above

    ranges = service_ranges(config.service_cluster_ip_range, config.service_node_port_range)
    return kubernetes_service(config.tls.names, config.secure_port, ranges)


def _remote(selected: "Selected", config: CloudCoreConfig, counters: Counters) -> RemoteCluster:
    from modules.cloud.client.http.factory import http_transport  # noqa: PLC0415 - for clusters only
    from modules.cloud.client.http.kube_api import HttpKubeApi  # noqa: PLC0415 - as above

    agent, connections = f"cloudcore/{VERSION}", _API_CONNECTIONS
    return RemoteCluster(
        lambda runtime: HttpKubeApi(http_transport(selected, runtime, agent, connections)),
        keeps_state=config.state == "cluster",
        state_namespace=config.lease.namespace,
        counters=counters.api,
        node_states=counters.node_states,
    )


def _allow_many_files() -> None:
    """Raise the limit of open files: each node's connection is one, and most systems' soft limit is 1,024."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _announce(options: RunOptions, cloud: CloudCore) -> None:
    if (ready_file := options.ready_file) is not None:
        new = ready_file.with_name(ready_file.name + ".new")
        new.write_text("".join(f"{host}:{port}\n" for host, port in cloud.addresses))
        new.replace(ready_file)
    listening = ", ".join(cloud.urls)
    sys.stdout.write(f"cloudcore: listening on {listening}, control socket {options.config.control_socket}\n")
    sys.stdout.flush()


def _stop(cloud: CloudCore) -> int:
    try:
        cloud.stop()
    except BeehiveError as error:
        sys.stderr.write(f"cloudcore: {error}\n")
        return ExitCode.STOP_TIMED_OUT
    return ExitCode.OK
