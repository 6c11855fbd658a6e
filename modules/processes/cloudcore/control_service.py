"""The service of the control socket: the Kubernetes API, and four paths of cloudcore's own."""

from collections.abc import Callable
from http import HTTPStatus
from typing import Final

import msgspec

from beehive.decoding import decode_json
from edged.server.request import Request
from edged.server.responses import Reply, Response, json
from edged.server.router import HttpService
from modules.apimachinery.errors import ApiStatusError
from modules.cloud.messages import Cloudcores, NodeConnection

TOKENS: Final = ("cloudcore", "tokens")
"""Parts of the path of join tokens."""
NODES: Final = ("cloudcore", "nodes")
"""Parts of the path of the connections of nodes."""
CLOUDCORES: Final = ("cloudcore", "cloudcores")
"""Parts of the path of the cloudcores that are alive."""
METRICS: Final = ("metrics",)


class TokenRequestBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of `POST /cloudcore/tokens`."""

    seconds: float = 24 * 3600.0
    """Validity of the token."""


class TokenResponseBody(msgspec.Struct, frozen=True):
    """The response to `POST /cloudcore/tokens`."""

    token: str


class NodesResponseBody(msgspec.Struct, frozen=True):
    """The response to `GET /cloudcore/nodes`."""

    nodes: list[NodeConnection]


class ControlService:
    """Serves the control socket (`HttpService`).

    Args:
        api: the Kubernetes API.
        make_token: returns a join token that is valid for so many seconds; raises ApiStatusError.
        metrics: returns the metrics in Prometheus' text format.
        nodes: returns the nodes' connections to this cloudcore; raises ApiStatusError.
        cloudcores: returns the cloudcores that are alive; raises ApiStatusError.
    """

    def __init__(
        self,
        api: HttpService,
        make_token: Callable[[float], str],
        metrics: Callable[[], str],
        nodes: Callable[[], list[NodeConnection]],
        cloudcores: Callable[[], Cloudcores],
    ) -> None:
        self._api = api
        self._nodes = nodes
        self._cloudcores = cloudcores
        self._make_token = make_token
        self._metrics = metrics

    def serve(self, request: Request) -> Reply:
        """Return the reply. RequestErrors are raised."""
        try:
            if request.parts == METRICS:
                return self._serve_metrics(request)
            if request.parts == NODES:
                return self._serve_own(request, lambda: NodesResponseBody(self._nodes()))
            if request.parts == CLOUDCORES:
                return self._serve_own(request, self._cloudcores)
            if request.parts[:1] == TOKENS[:1]:
                return self._serve_tokens(request)
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

    def _serve_tokens(self, request: Request) -> Response:
        if request.parts != TOKENS:
            raise ApiStatusError(404, "the server could not find the requested resource")
        if request.method != "POST":
            raise ApiStatusError(405, "only POST is served here")
        try:
            body = decode_json(request.body or b"{}", TokenRequestBody)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise ApiStatusError(400, f'a body such as {{"seconds": 86400}} is wanted: {error}') from error
        return json(msgspec.json.encode(TokenResponseBody(self._make_token(body.seconds))))
