"""The service of the control socket: the Kubernetes API, and paths of cloudcore's own."""

import math
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from typing import Final, Protocol

import msgspec

from beehive.http.request import Request
from beehive.http.responses import Reply, Response, json
from beehive.http.router import HttpService
from beehive.whole_numbers import whole_number
from modules.apimachinery.errors import ApiStatusError
from modules.cloud.device_values import ValueList, ValueQuery
from modules.cloud.messages import Cloudcores, LinkQuery, LinkSession, NodeConnection
from modules.cloud.object_writes import WriteList, WriteQuery, place_asked
from modules.processes.cloudcore.identity_service import IdentityService

NODES: Final = ("cloudcore", "nodes")
"""Parts of the path of the connections of nodes."""
API_PORTS: Final = ("cloudcore", "apiports")
"""Parts of the path of the addresses of the Kubernetes API."""
BUNDLES: Final = ("cloudcore", "bundles")
"""Parts of the path of the versions that nodes may fetch."""
CLOUDCORES: Final = ("cloudcore", "cloudcores")
"""Parts of the path of the cloudcores that are alive."""
LINKS: Final = ("cloudcore", "links")
"""Parts of the path of the link journal."""
CHANGES: Final = ("cloudcore", "changes")
"""Parts of the path of the change journal."""
VALUES: Final = ("cloudcore", "devicehistory")
"""Parts of the path of the device history."""
AUDIT: Final = ("cloudcore", "audit")
"""Parts of the path of the state of the audit log."""
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


class ServedBundles(msgspec.Struct, frozen=True):
    """The response to `GET /cloudcore/bundles`."""

    directory: str = ""
    """Of `--bundles`; empty without."""
    versions: list[str] = []
    """Of edgecore, which its files have."""
    problem: str = ""
    """Why the directory cannot be read."""


class ApiPorts(msgspec.Struct, frozen=True):
    """The response to `GET /cloudcore/apiports`."""

    secure: str = ""
    """URL of the secure port for clients on this machine; empty without one."""


class AuditState(msgspec.Struct, frozen=True):
    """The response to `GET /cloudcore/audit`."""

    path: str = ""
    """The file of the audit log; empty without one."""
    dropped: int = 0
    """Events that were left out."""
    failure: str = ""
    """Why the last event was left out; empty if it was written."""


class LinksResponseBody(msgspec.Struct, frozen=True):
    """The response to `GET /cloudcore/links`."""

    links: list[LinkSession]


class ControlAnswers(Protocol):
    """The answers of cloudcore at its own paths, beside join tokens and revocations."""

    def metrics(self) -> str:
        """Return the metrics in Prometheus' text format."""

    def connections(self) -> NodesResponseBody:
        """Return the nodes' connections to this cloudcore, and those it refused. Raises ApiStatusError."""

    def cloudcores(self) -> Cloudcores:
        """Return the cloudcores that are alive. Raises ApiStatusError."""

    def api_ports(self) -> ApiPorts:
        """Return where the Kubernetes API is served over TCP."""

    def bundles(self) -> ServedBundles:
        """Return the versions of edgecore that nodes may fetch here."""

    def audit(self) -> AuditState:
        """Return the state of the audit log."""

    def links(self, query: LinkQuery) -> LinksResponseBody:
        """Return connections of the link journal. Raises ApiStatusError."""

    def writes(self, query: WriteQuery) -> WriteList:
        """Return writes of the change journal. Raises ApiStatusError."""

    def values(self, query: ValueQuery) -> ValueList:
        """Return values of the device history. Raises ApiStatusError."""


class ControlService:
    """The service of the control socket (`HttpService`).

    Args:
        api: the Kubernetes API.
        identities: serves join tokens and revocations.
        control: answers all else.
    """

    def __init__(self, api: HttpService, identities: IdentityService, control: ControlAnswers) -> None:
        self._api = api
        self._identities = identities
        self._control = control

    def serve(self, request: Request) -> Reply:
        """Return the reply. RequestErrors are raised."""
        try:
            if request.parts == METRICS:
                return self._serve_metrics(request)
            if request.parts == NODES:
                return self._serve_own(request, lambda: _of_node(self._control.connections(), request.first("node")))
            if request.parts == CLOUDCORES:
                return self._serve_own(request, self._control.cloudcores)
            if request.parts == API_PORTS:
                return self._serve_own(request, self._control.api_ports)
            if request.parts == BUNDLES:
                return self._serve_own(request, self._control.bundles)
            if request.parts == AUDIT:
                return self._serve_own(request, self._control.audit)
            if request.parts == LINKS:
                return self._serve_own(request, lambda: self._control.links(_link_query(request)))
            if request.parts == CHANGES:
                return self._serve_own(request, lambda: self._control.writes(_write_query(request)))
            if request.parts == VALUES:
                return self._serve_own(request, lambda: self._control.values(_value_query(request)))
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
        return Response(HTTPStatus.OK, "text/plain; version=0.0.4; charset=utf-8", self._control.metrics().encode())


def _of_node(found: NodesResponseBody, node: str) -> NodesResponseBody:
    """Return the part about a node, if one is asked for."""
    if not node:
        return found
    return NodesResponseBody(
        [each for each in found.nodes if each.node == node], [each for each in found.refused if each.node == node]
    )


def _link_query(request: Request) -> LinkQuery:
    """Return the query of a request for the link journal. Raises ApiStatusError."""
    return LinkQuery(request.first("node"), _since(request), newest_only=request.flag("newest"))


def _write_query(request: Request) -> WriteQuery:
    """Return the query of a request for the change journal. Raises ApiStatusError."""
    before = place_asked(request.first("before")[:_LONGEST_TEXT] or "0")
    if before is None:
        raise ApiStatusError(400, "`before` is a resourceVersion")
    text = {name: request.first(name)[:_LONGEST_TEXT] for name in ("kind", "namespace", "name", "node", "q")}
    return WriteQuery(
        text["kind"], text["namespace"], text["name"], text["node"], tuple(text["q"].split()), _since(request),
        before[0], before[1], _number(request, "limit", _LIMIT), people_only=request.flag("people"),
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
    with suppress(ValueError):
        if math.isfinite(since := float(request.first("since") or 0.0)):
            return since
    raise ApiStatusError(400, "`since` is a number of seconds since 1970")
