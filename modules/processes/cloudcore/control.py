"""The module `control`."""

import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import ClassVar, NamedTuple

from msgspec.structs import replace

from beehive import Readiness, State
from beehive.errors import BeehiveError
from beehive.files.advice import advice
from beehive.http.http_server import HttpServer
from beehive.http.listening import listen_unix
from beehive.http.router import HttpService
from beehive.http.unsent_bytes import UnsentBytes
from beehive.message import Message
from beehive.module import Module
from beehive.names import ModuleName, Operation
from beehive.on_failure import on_failure
from beehive.sockets.ports import ListenError
from beehive.sockets.unix_sockets import connect_unix
from modules.apimachinery.errors import ApiStatusError, unread
from modules.apimachinery.limits import REQUEST_BYTES
from modules.cloud import api_messages
from modules.cloud.apiserver.access.administrator_audit import AdministratorAudit
from modules.cloud.apiserver.access.flow_control import FlowControl
from modules.cloud.apiserver.access.loopback_service import LoopbackService
from modules.cloud.apiserver.access.service import (
    AccessService,
    NodeCaller,
    UserAccess,
)
from modules.cloud.apiserver.endpoints.health import LOADED
from modules.cloud.apiserver.endpoints.list_answers import Turn
from modules.cloud.apiserver.endpoints.module_caller import ModuleCaller
from modules.cloud.apiserver.endpoints.node_servers import NodeServers
from modules.cloud.apiserver.endpoints.service import ApiService, CustomResourceList, Requester
from modules.cloud.apiserver.endpoints.subscriptions import Subscriptions
from modules.cloud.audit.recording import AuditTrail
from modules.cloud.authentication.users import ADMINISTRATORS, User
from modules.cloud.authorization.rbac.index import RbacIndex
from modules.cloud.bundle_names import bundle_versions
from modules.cloud.device_values import VALUES, VALUES_RESOURCE, ValueList, ValueQuery
from modules.cloud.identities.known import KnownIdentities
from modules.cloud.messages import (
    CLOUDCORES,
    CLOUDCORES_RESOURCE,
    JOURNAL_RESOURCE,
    LINKS,
    NODES,
    NODES_RESOURCE,
    Cloudcores,
    LinkQuery,
    LinkSession,
    NodeConnection,
)
from modules.cloud.object_writes import (
    ADMINISTRATOR,
    JOURNAL,
    NOTED,
    WRITES,
    WRITES_RESOURCE,
    ObjectWrite,
    WriteList,
    WriteQuery,
)
from modules.processes.cloudcore.api_listeners import ApiListener, PageListener, SecureListener
from modules.processes.cloudcore.api_tokens import ApiTokens
from modules.processes.cloudcore.control_service import (
    ApiPorts,
    AuditState,
    ControlService,
    LinksResponseBody,
    NodesResponseBody,
    RefusedConnection,
    ServedBundles,
)
from modules.processes.cloudcore.counters import Counters
from modules.processes.cloudcore.errors import ControlError
from modules.processes.cloudcore.identity_service import IdentityService
from modules.processes.cloudcore.lazy_page import ClosingService, LazyPage, PageOnly
from modules.processes.cloudcore.metrics import exposition
from modules.processes.common.version import KUBELET_VERSION

_IDENTITIES = "identities"
_REPLY_SECONDS = 30.0
"""Seconds for edgecontroller's reply to a request."""
_OF_SOCKET = User(ADMINISTRATOR, groups=(ADMINISTRATORS,))
"""Whoever may open the socket, or an address for administrators only."""


class EmbeddedApi(NamedTuple):
    """The parts of the embedded API server that its endpoints use."""

    rbac: RbacIndex
    """The roles and bindings."""
    subscriptions: Subscriptions
    """To its changes, for watches."""
    tokens: ApiTokens
    """Finds the users of tokens, and tells others how to check them."""


class Control(Module):
    """The module that serves the Kubernetes API, join tokens and metrics over a unix socket that only this user can
    open.

    The server's threads are outside the actor model, with blocking reads; clients are few and local. A thread may wait
    for edgecontroller's reply, as no module waits for the thread. The API server publishes changes to the watches
    itself, through bounded queues; a client that reads too slowly is disconnected.

    Args:
        path: the socket's path; a stale socket is replaced.
        counters: of cloudcore, for `/metrics`.
        listeners: serve the Kubernetes API over TCP, too.
        nodes: reaches the servers of nodes, for logs of and commands in containers.
        identities: knows which nodes were refused.
        embedded: shared with the embedded API server, which makes the API calls; None: edgecontroller makes them at a
            cluster.
        audit: records the requests; None: nothing does.
        bundles: directory of the bundles that nodes fetch; None: none are served.
    """

    name: ClassVar[str] = api_messages.SOURCE
    group: ClassVar[str] = api_messages.SOURCE

    def __init__(
        self,
        path: Path,
        counters: Counters,
        listeners: Sequence[ApiListener] = (),
        nodes: NodeServers | None = None,
        identities: KnownIdentities | None = None,
        embedded: EmbeddedApi | None = None,
        *,
        audit: AuditTrail | None = None,
        bundles: Path | None = None,
    ) -> None:
        super().__init__()
        self._audit = audit
        self._bundles = bundles
        if embedded is None:
            self._api_server: str = ModuleName.EDGECONTROLLER
            self._rbac, self._subscriptions, self._tokens = RbacIndex(), Subscriptions(), None
        else:
            self._api_server = api_messages.MODULE
            self._rbac, self._subscriptions, self._tokens = embedded
        self._identities = identities
        self._node_servers = nodes
        self._path = path
        self._counters = counters
        self._listeners = listeners
        self._definitions = CustomResourceList(self._caller())
        """Of all services, which are made for one request each."""
        self._pages: list[LazyPage] = []
        self._servers: list[HttpServer] = []
        """The server of the control socket comes first."""

    def on_start(self) -> None:
        """Start to listen.

        Raises:
            ControlError: another process listens on the path or the port, or it cannot be used.
        """
        listening = listening_socket(self._path)
        service = self._audited(self.service())
        unsent = UnsentBytes(self.clock)
        server = HttpServer(listening, service, self.clock, max_body=REQUEST_BYTES, refusal=unread, unsent=unsent)
        server.start()
        self._servers.append(server)
        with on_failure(self._close):
            for listener in self._listeners:
                self._servers.append(listener.start(self._access(listener), self.clock, unsent))

    def on_end(self) -> None:
        """Close the socket and all connections."""
        self._close()

    def service(self, administrator: User = _OF_SOCKET, turn: Turn = nullcontext) -> ControlService:
        """Return the service behind the socket; tests serve it on a port.

        Args:
            administrator: whom the change journal and certificate requests name.
            turn: returns the context for computing a further part of a long answer.
        """
        requester = Requester(self._caller(administrator=administrator), administrator.name, turn)
        api = self._api(requester, self._node_servers, self._tokens)
        return ControlService(api, IdentityService(self._ask, administrator.name), self)

    def _api(
        self, requester: Requester, nodes: NodeServers | None = None, tokens: ApiTokens | None = None
    ) -> ApiService:
        return ApiService(
            requester, self._subscriptions, KUBELET_VERSION, self.clock, self._checks, self._definitions, nodes,
            index=self._rbac, tokens=tokens,
        )  # fmt: skip

    def _access(self, listener: ApiListener) -> HttpService:
        if isinstance(listener, SecureListener):
            authenticator, flow = listener.authenticator, FlowControl()
            access = AccessService(
                authenticator,
                self.service(),
                lambda node: self._api(Requester(NodeCaller(self._caller(), node), "")),
                self._caller().call,
                flow=flow,
                users=UserAccess(
                    self._rbac,
                    lambda user: self._of_user(user, partial(flow.turn, user)),
                    lambda user: self.service(user, partial(flow.turn, user)),
                ),
                audit=self._audit,
            )
            return self._with_page(listener, access) if listener.page_names else access
        if isinstance(listener, PageListener):
            return self._page_of_cluster(listener)
        return self._audited(LoopbackService(self.service()))

    def _audited(self, service: HttpService) -> HttpService:
        """Return a service that records the requests of administrators, if there is an audit log."""
        return service if self._audit is None else AdministratorAudit(service, self._audit)

    def _with_page(self, listener: SecureListener, access: HttpService) -> HttpService:
        """Return the service of the secure port with the page, whose modules the first request for it loads."""

        def made() -> ClosingService:
            from modules.cloud.authentication.oidc.code_flow import CodeFlow  # noqa: PLC0415 - see above
            from modules.cloud.authentication.oidc.fetching import trusted  # noqa: PLC0415
            from modules.page.shells import EXEC  # noqa: PLC0415
            from modules.processes.cloudcore.page_port import PagePort  # noqa: PLC0415
            from modules.processes.cloudcore.page_users import Doors, EmbeddedUsers  # noqa: PLC0415
            from modules.processes.cloudcore.sign_ins import SignIns  # noqa: PLC0415

            allows, provider = listener.page_allows, listener.provider
            if EXEC in allows:
                from modules.processes.cloudcore.page_doors import UserDoor  # noqa: PLC0415

                shell: type[UserDoor] | None = UserDoor
            else:
                shell = None
            doors = Doors(listener.authenticator, self._rbac.allowed, access, shell)
            flow = None if provider is None else CodeFlow(provider, trusted(provider.ca_file), self.clock)
            users, names = EmbeddedUsers(doors, flow), listener.page_names
            sign_ins = SignIns(self.clock, self._record, self._audit)
            return PagePort(
                users,
                self.service(),
                names,
                lambda: listener.port,
                self.clock,
                sign_ins,
                allowed=allows,
                cloud=self._counters.cloud,
            )

        return self._lazy(made, access)

    def _page_of_cluster(self, listener: PageListener) -> HttpService:
        """Return the service of a port that has the page and nothing else."""

        def made() -> ClosingService:
            from modules.processes.cloudcore.page_cluster_users import ClusterUsers  # noqa: PLC0415
            from modules.processes.cloudcore.page_port import PagePort  # noqa: PLC0415 - see above
            from modules.processes.cloudcore.sign_ins import SignIns  # noqa: PLC0415

            users, names = ClusterUsers(listener.cluster, self.clock), listener.names
            sign_ins = SignIns(self.clock, self._record, self._audit)
            return PagePort(
                users, self.service(), names, lambda: listener.port, self.clock, sign_ins, cloud=self._counters.cloud
            )

        return self._lazy(made, PageOnly())

    def _lazy(self, made: Callable[[], ClosingService], others: HttpService) -> HttpService:
        found = LazyPage(made, others)
        self._pages.append(found)
        return found

    def _of_user(self, user: User, turn: Turn) -> ApiService:
        requester = Requester(self._caller(user=user), user.name, turn)
        return self._api(requester, self._node_servers, self._tokens)

    def _caller(self, *, administrator: User | None = None, user: User | None = None) -> ModuleCaller:
        return ModuleCaller(self.hive, self.clock, self._api_server, administrator=administrator, user=user)

    def _ask(self, module: str, operation: str, content: object) -> Message:
        """Return the answer of the module `identities`, or of `registrar`, which exists with `--tls` only."""
        if not self.hive.members(module):
            raise ApiStatusError(409, "there are no tokens without TLS: start `cloudcore run` with --tls")
        try:
            answer: Message = self.hive.request(module, self.message(module, operation, content), _REPLY_SECONDS).get()
            refusal = answer.content_as(str) if answer.route.operation == Operation.ERROR else ""
        except BeehiveError as error:
            raise ApiStatusError(504, f"{module} did not answer: {error}") from error
        if refusal:
            raise ApiStatusError(400, refusal)
        return answer

    def metrics(self) -> str:
        """Return the metrics (`ControlAnswers`, as the methods that follow)."""
        return exposition(self.hive, self._counters)

    def connections(self) -> NodesResponseBody:
        """Return the connections that cloudhub holds, and the nodes that were refused."""
        request = self.message(NODES_RESOURCE, NODES)
        try:
            answer = self.hive.request(ModuleName.CLOUDHUB, request, _REPLY_SECONDS).get()
        except BeehiveError as error:
            raise ApiStatusError(504, f"cloudhub did not answer: {error}") from error
        now = self.clock.monotonic()
        refused = self._identities.refused() if self._identities is not None else []
        return NodesResponseBody(
            answer.content_as(list[NodeConnection]),
            [RefusedConnection(each.node, each.why, now - each.at) for each in refused],
        )

    def cloudcores(self) -> Cloudcores:
        """Return the cloudcores that edgecontroller knows to be alive."""
        request = self.message(CLOUDCORES_RESOURCE, CLOUDCORES, "")
        try:
            answer = self.hive.request(ModuleName.EDGECONTROLLER, request, _REPLY_SECONDS).get()
        except BeehiveError as error:
            raise ApiStatusError(504, f"edgecontroller did not answer: {error}") from error
        found: Cloudcores = answer.content_as(Cloudcores)
        return replace(found, cloud=self._counters.cloud)

    def links(self, query: LinkQuery) -> LinksResponseBody:
        """Return connections of the link journal."""
        answer = self._read_journal("link journal", JOURNAL_RESOURCE, LINKS, query)
        return LinksResponseBody(answer.content_as(list[LinkSession]))

    def writes(self, query: WriteQuery) -> WriteList:
        """Return writes of the change journal."""
        found: WriteList = self._read_journal("change journal", WRITES_RESOURCE, WRITES, query).content_as(WriteList)
        return found

    def values(self, query: ValueQuery) -> ValueList:
        """Return values of the device history."""
        found: ValueList = self._read_journal("device history", VALUES_RESOURCE, VALUES, query).content_as(ValueList)
        return found

    def _record(self, entry: ObjectWrite) -> None:
        """Tell the journal of an access."""
        self.broadcast(JOURNAL, self.message(WRITES_RESOURCE, NOTED, [entry]))

    def _read_journal(self, name: str, resource: str, operation: str, query: object) -> Message:
        try:
            asked = self.message(resource, operation, query)
            answer: Message = self.hive.request(JOURNAL, asked, _REPLY_SECONDS).get()
        except BeehiveError as error:
            raise ApiStatusError(504, f"the {name} cannot be read: {error}") from error
        if answer.route.operation == Operation.ERROR:
            raise ApiStatusError(503, f"the {name} cannot be read: {answer.content_as(str)}")
        return answer

    def api_ports(self) -> ApiPorts:
        """Return where the Kubernetes API is served over TCP."""
        return ApiPorts(next((each.local_url for each in self._listeners if isinstance(each, SecureListener)), ""))

    def bundles(self) -> ServedBundles:
        """Return the versions of edgecore that nodes may fetch here."""
        if self._bundles is None:
            return ServedBundles()
        try:
            return ServedBundles(str(self._bundles), bundle_versions(self._bundles))
        except OSError as error:
            return ServedBundles(str(self._bundles), problem=advice(error))

    def audit(self) -> AuditState:
        """Return the state of the audit log."""
        if self._audit is None:
            return AuditState()
        log = self._audit.log
        return AuditState(str(log.path), log.dropped, log.failure)

    def _checks(self) -> dict[str, str]:
        """Return the checks of health, each with the reason why it fails."""
        found = self.hive.readiness()
        is_embedded = self._api_server == api_messages.MODULE
        checks = dict.fromkeys(LOADED if is_embedded else (self._api_server,), _lack(found, self._api_server))
        checks[ModuleName.EDGECONTROLLER] = _lack(found, ModuleName.EDGECONTROLLER)
        if self._identities is not None:
            why = "" if self._identities.is_complete else "it is not known yet which certificates are revoked"
            checks[_IDENTITIES] = f"{_IDENTITIES} is not ready: {why}" if why else ""
        return checks

    def _close(self) -> None:
        servers, self._servers = self._servers, []
        pages, self._pages = self._pages, []
        for page in pages:
            page.close()
        if servers:
            self._path.unlink(missing_ok=True)
            self._subscriptions.end_clients()
        for server in servers:
            server.stop()


def _lack(found: Mapping[str, Readiness], name: str) -> str:
    """Return why a module is not ready, "" if it is."""
    readiness = found.get(name)
    if readiness is not None and readiness.state is State.READY:
        return ""
    return f"{name} is not ready{': ' + readiness.reason if readiness and readiness.reason else ''}"


def listening_socket(path: Path) -> socket.socket:
    """Return a listening unix socket that only this user can connect to.

    Raises:
        ControlError: another process listens on the path, or it cannot be used.
    """
    check_socket(path)
    try:
        return listen_unix(path, "--socket")
    except ListenError as error:
        raise ControlError("cannot listen on the control socket", str(path), error.hint) from error


def check_socket(path: Path) -> None:
    """Check that no other cloudcore has a control socket.

    Raises:
        ControlError: one has, or the path cannot be looked at.
    """
    try:
        if not path.is_socket():
            return
        connect_unix(path).close()
    except ConnectionRefusedError:
        return
    except OSError as error:
        raise ControlError("cannot listen on the control socket", str(path), str(error.strerror)) from error
    hint = "another cloudcore is running there: stop it, or give this one another --socket"
    raise ControlError("cannot listen on the control socket", str(path), hint)
