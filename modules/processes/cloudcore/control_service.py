"""The service of the control socket: the Kubernetes API, and paths of cloudcore's own."""

from collections.abc import Callable
from http import HTTPStatus
from typing import Final

import msgspec

from beehive.http.request import Request
from beehive.http.responses import Reply, Response, json
from beehive.http.router import HttpService
from beehive.whole_numbers import whole_number
from modules.apimachinery.errors import ApiStatusError
from modules.cloud.device_values import ValueList, ValueQuery
from modules.cloud.messages import Cloudcores, LinkQuery, LinkSession, NodeConnection
from modules.cloud.object_writes import WriteList, WriteQuery
from modules.processes.cloudcore.identity_service import IdentityService

NODES: Final = ("cloudcore", "nodes")
"""Parts of the path of the connections of nodes."""
API_PORTS: Final = ("cloudcore", "apiports")
"""Parts of the path of the addresses of the Kubernetes API."""
CLOUDCORES: Final = ("cloudcore", "cloudcores")
"""Parts of the path of the cloudcores that are alive."""
LINKS: Final = ("cloudcore", "links")
"""Parts of the path of the link journal."""
CHANGES: Final = ("cloudcore", "changes")
"""Parts of the path of the change journal."""
VALUES: Final = ("cloudcore", "devicehistory")
"""Parts of the path of the device history."""
METRICS: Final = ("metrics",)
_LONGEST_TEXT: Final = 256
_LIMIT: Final = 100
"""Changes, or values, of an answer that is not to have another number of them."""


class RefusedConnection(msgspec.Struct, frozen=True):
    """A node whose connection was refused, and not accepted since."""

    node: str
    why: str
    seconds: float
    """Since then."""


class NodesResponseBody(msgspec.Struct, frozen=True):
    """The response to `GET /cloudcore/nodes`."""

    nodes: list[NodeConnection]
    refused: list[RefusedConnection] = []


class ApiPorts(msgspec.Struct, frozen=True):
    """The response to `GET /cloudcore/apiports`."""

    secure: str = ""
    """URL of the secure port for clients on this machine; empty without one."""


class LinksResponseBody(msgspec.Struct, frozen=True):
    """The response to `GET /cloudcore/links`."""

    links: list[LinkSession]


class ControlService:
    """Serves the control socket (`HttpService`).

    Args:
        api: the Kubernetes API.
        identities: serves join tokens and revocations.
        metrics: returns the metrics in Prometheus' text format.
        nodes: returns the nodes' connections to this cloudcore, and those it refused; raises ApiStatusError.
        cloudcores: returns the cloudcores that are alive; raises ApiStatusError.
        api_ports: returns where the Kubernetes API is served over TCP.
        links: reads the link journal; raises ApiStatusError.
        writes: reads the change journal; raises ApiStatusError.
        values: reads the device history; raises ApiStatusError.
    """

    def __init__(
        self,
        api: HttpService,
        identities: IdentityService,
        metrics: Callable[[], str],
        nodes: Callable[[], NodesResponseBody],
        cloudcores: Callable[[], Cloudcores],
        api_ports: Callable[[], ApiPorts] = ApiPorts,
        links: Callable[[LinkQuery], LinksResponseBody] = lambda _: LinksResponseBody([]),
        *,
        writes: Callable[[WriteQuery], WriteList] = lambda _: WriteList([], is_kept=False),
        values: Callable[[ValueQuery], ValueList] = lambda _: ValueList(),
    ) -> None:
        self._values = values
        self._writes = writes
        self._links = links
        self._api_ports = api_ports
        self._api = api
        self._nodes = nodes
        self._cloudcores = cloudcores
        self._identities = identities
        self._metrics = metrics

    def serve(self, request: Request) -> Reply:
        """Return the reply. RequestErrors are raised."""
        try:
            if request.parts == METRICS:
                return self._serve_metrics(request)
            if request.parts == NODES:
                return self._serve_own(request, self._nodes)
            if request.parts == CLOUDCORES:
                return self._serve_own(request, self._cloudcores)
            if request.parts == API_PORTS:
                return self._serve_own(request, self._api_ports)
            if request.parts == LINKS:
                return self._serve_own(request, lambda: self._links(_link_query(request)))
            if request.parts == CHANGES:
                return self._serve_own(request, lambda: self._writes(_write_query(request)))
            if request.parts == VALUES:
                return self._serve_own(request, lambda: self._values(_value_query(request)))
            if request.parts[:1] == NODES[:1]:
                return self._identities.serve(request)
        except ApiStatusError as error:
            return error.response()
        return self._api.serve(request)

    def _serve_own(self, request: Request, body: Callable[[], msgspec.Struct]) -> Response:
        if request.method not in ("GET", "HEAD"):
            raise ApiStatusError(405, "only GET is served here")
        return json(msgspec.json.encode(body()))

    def _serve_metrics(self, request: Request) -> Response:
        if request.method not in ("GET", "HEAD"):
            raise ApiStatusError(405, "only GET is served here")
        return Response(HTTPStatus.OK, "text/plain; version=0.0.4; charset=utf-8", self._metrics().encode())


def _link_query(request: Request) -> LinkQuery:
    """Return the query of a request for the link journal. Raises ApiStatusError."""
    return LinkQuery(request.first("node"), _since(request), newest_only=request.flag("newest"))


def _write_query(request: Request) -> WriteQuery:
    """Return the query of a request for the change journal. Raises ApiStatusError."""
    text = {name: request.first(name)[:_LONGEST_TEXT] for name in ("kind", "namespace", "name", "node", "q")}
    return WriteQuery(
        text["kind"], text["namespace"], text["name"], text["node"], tuple(text["q"].split()), _since(request),
        _number(request, "before", 0), _number(request, "limit", _LIMIT), people_only=request.flag("people"),
    )  # fmt: skip


def _value_query(request: Request) -> ValueQuery:
    """Return the query of a request for the device history. Raises ApiStatusError."""
    namespace, name, property_name = (request.first(each)[:_LONGEST_TEXT] for each in ("namespace", "name", "property"))
    return ValueQuery(namespace, name, property_name, _number(request, "limit", _LIMIT))


def _number(request: Request, name: str, default: int) -> int:
    given = request.first(name)
    number = whole_number(given) if given else default
    if number is None:
        raise ApiStatusError(400, f"`{name}` is a number")
    return number


def _since(request: Request) -> float:
    try:
        return float(request.first("since") or 0.0)
    except ValueError as error:
        raise ApiStatusError(400, "`since` is a number of seconds since 1970") from error
