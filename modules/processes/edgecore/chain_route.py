"""The route `/edgecore/chains/NAMESPACE/POD` of the owner's socket: the steps of a pod that are kept on the disk."""

from typing import Final

from beehive.http.errors import HttpStatusError
from beehive.http.request import Request
from beehive.http.responses import Response, json
from beehive.http.router import HttpRoute
from edged.server.snapshots import Snapshots

_PATTERN: Final = "/edgecore/chains/{namespace}/{pod}"


def chain_route(snapshots: Snapshots) -> HttpRoute:
    """Return the route.

    Args:
        snapshots: has the chains while edged runs.
    """

    def serve(request: Request) -> Response:
        find = snapshots.chain
        if find is None:
            raise HttpStatusError(503, "edged does not run", hint="it starts, or was stopped")
        *_, namespace, name = request.parts
        found = find(namespace, name)
        if found is None:
            raise HttpStatusError(404, f"no steps of a pod {namespace}/{name} are known")
        return json(found)

    return HttpRoute(_PATTERN, serve)
