"""The service that a cluster's API server reaches in place of nodes' kubelets: logs, commands, port forwarding,
metrics.

KubeEdge's stream server serves everybody who reaches it. This one serves the API server only: the client certificate is
verified by the TLS context, and its name is a configured one.
"""

import logging
import ssl
from collections.abc import Collection
from typing import Final

from beehive.clock import Clock
from beehive.hive import Hive
from beehive.http.authority import url_of
from beehive.http.connections import Client
from beehive.http.errors import HttpStatusError
from beehive.http.http_server import HttpServer
from beehive.http.listening import listen_tcp
from beehive.http.request import Request
from beehive.http.responses import Reply, text
from beehive.http.router import Admitted, AdmittingService
from beehive.names import ModuleName
from modules.apimachinery.errors import ApiStatusError
from modules.cloud.apiserver.endpoints.module_caller import ModuleCaller
from modules.cloud.apiserver.endpoints.pod_streams import Calls, NodeServer, is_read_of_node, scheme_name_port
from modules.cloud.authentication.users import user_of_certificate
from modules.cloud.client.calls import ApiCall
from modules.cloud.cloudstream.tunnels import Tunnels

_log = logging.getLogger(__name__)

_STREAMS: Final = {"containerLogs": ("GET",), "exec": ("GET", "POST"), "attach": ("GET", "POST"),
                   "portForward": ("GET", "POST")}  # fmt: skip
_SHORTEST: Final = {"portForward": 3}
_PARTS: Final = 4
_FORWARDED: Final = "x-forwarded-uri"
_IDLE_SECONDS: Final = 90.0
_API_SERVER: Final = Client("", is_privileged=True)
"""It asks for many users, whom it does not name: none of them has a share."""
_CONNECTIONS: Final = 256
"""At a time, beside one for each stream: an API server may open all of its streams at the same time."""


def check_path(request: Request) -> None:
    """Return if the path is one of a kubelet's that are served. Raise ApiStatusError, 404 or 405, if not."""
    parts = request.parts
    first = parts[0] if parts else ""
    methods = ("GET",) if is_read_of_node(parts) else _STREAMS.get(first, ())
    shortest = _SHORTEST.get(first, _PARTS)
    if not methods or not (is_read_of_node(parts) or shortest <= len(parts) <= shortest + 1):
        raise ApiStatusError(404, "this cloudcore serves no such path of a kubelet")
    if request.method not in methods:
        raise ApiStatusError(405, f"the methods are {' and '.join(methods)}")


class StreamService(AdmittingService):
    """The service for a cluster's API server (`HttpService`), on the threads of its connections.

    Args:
        caller: reads pods.
        nodes: reaches the servers of nodes.
        tunnels: of the nodes, found by address.
        names: in the certificates of clients.
    """

    def __init__(self, caller: Calls, nodes: NodeServer, tunnels: Tunnels, names: Collection[str]) -> None:
        self._caller = caller
        self._nodes = nodes
        self._tunnels = tunnels
        self._names = names

    def admit(self, request: Request) -> Admitted | Reply:
        """See `AdmittingService`. Raise HttpStatusError for another client than the API server."""
        user = user_of_certificate(request.certificate)
        if user is None or user.name not in self._names:
            name = user.name[:253] if user is not None else "nobody"
            _log.warning("a request for %s is refused: the certificate is that of %s", request.path[:253], name)
            hint = f"it is {name}; --stream-client-name names another"
            raise HttpStatusError(403, "the client certificate is not that of the API server", hint=hint)
        return Admitted(self._reply, client=_API_SERVER)

    def _reply(self, request: Request) -> Reply:
        """Return the reply; an error is text; the API server makes its own error of it."""
        try:
            return self._nodes.reply(self._node(request), request.target, request)
        except ApiStatusError as error:
            return text(error.code, f"{error.message}\n")

    def _node(self, request: Request) -> str:
        """Return the node that a request is for. Raise ApiStatusError if it names no node."""
        check_path(request)
        parts = request.parts
        return self._node_of_host(request) if is_read_of_node(parts) else self._node_of_pod(parts[1], parts[2])

    def _node_of_pod(self, namespace: str, name: str) -> str:
        call = ApiCall(verb="get", api_version="v1", plural="pods", namespace=namespace, name=name)
        result = self._caller.call(call)
        if result.object is None:
            refusal = result.refusal or {}
            code = refusal.get("code")
            raise ApiStatusError(code if isinstance(code, int) else 502, str(refusal.get("message", "")))
        node = str(result.object.get("spec", {}).get("nodeName") or "")
        if not node:
            raise ApiStatusError(404, f"pod {namespace}/{name} has no node")
        return node

    def _node_of_host(self, request: Request) -> str:
        """Return the node that the API server's proxy names, or the one at the address that was called."""
        forwarded = request.header(_FORWARDED).partition("?")[0].strip("/").split("/")
        if forwarded[:3] == ["api", "v1", "nodes"] and forwarded[4:5] == ["proxy"]:
            return scheme_name_port(forwarded[2], forwarded[3])[1]
        host = request.header("host")
        address = host[1:].partition("]")[0] if host.startswith("[") else host.rpartition(":")[0] or host
        node = self._tunnels.node_at(address)
        if not node:
            raise ApiStatusError(502, f"no node with a tunnel here, or more than one, has the address {address[:253]}")
        return node


class StreamListener:
    """The listener for a cluster's API server; after a restart of the module on the same port.

    Args:
        address: IP address and port; port 0 takes a free one.
        context: its TLS, which demands client certificates of the API server's authority.
        names: in the certificates of clients.
        tunnels: of the nodes.
        nodes: reaches their servers.
        advertised_port: that is written into the status of nodes; 0 for the port that it listens on.
        max_streams: logs and commands at a time; one API server may ask for all.
    """

    def __init__(
        self,
        address: tuple[str, int],
        context: ssl.SSLContext,
        names: Collection[str],
        tunnels: Tunnels,
        nodes: NodeServer,
        advertised_port: int = 0,
        *,
        max_streams: int,
    ) -> None:
        self._max_streams = max_streams
        self._address, self.port = address
        self._context = context
        self._names = names
        self._tunnels = tunnels
        self._nodes = nodes
        self._advertised_port = advertised_port

    @property
    def advertised_port(self) -> int:
        """The port in the status of nodes."""
        return self._advertised_port or self.port

    @property
    def url(self) -> str:
        """The URL of the port, when started."""
        return url_of(self._address, self.port, tls=True)

    def start(self, hive: Hive, clock: Clock) -> HttpServer:
        """Start to serve. Raise ListenError when the address cannot be listened on."""
        listening = listen_tcp(self._address, self.port, "--stream-listen")
        caller = ModuleCaller(hive, clock, ModuleName.EDGECONTROLLER)
        service = StreamService(caller, self._nodes, self._tunnels, self._names)
        server = HttpServer(
            listening,
            service,
            clock,
            context=self._context,
            idle_seconds=_IDLE_SECONDS,
            max_connections=_CONNECTIONS + self._max_streams * 4 // 3,
            max_streams=self._max_streams * 4 // 3,  # one client has three quarters of them
        )
        self.port = server.port
        server.start()
        return server
