"""The routes for Services and names on the owner's socket."""

from typing import Final

from beehive import BeehiveError, Hive, Message, ModuleName
from beehive.http.errors import HttpStatusError
from beehive.http.request import Request
from beehive.http.responses import Response, text
from beehive.http.router import HttpRoute
from modules.processes.edgecore.config import EdgeCoreConfig
from modules.processes.edgecore.socket_path import RESOLVE_PATH, SERVICES_PATH

SECONDS: Final = 25.0
"""Longest wait for edgemesh, which may ask other name servers."""
LONGEST_NAME: Final = 300
"""Characters of a name."""


class MeshRoutes:
    """Answers which Services there are and what a name stands for, by asking edgemesh, whose code only a node has that
    runs it.

    Args:
        hive: may have edgemesh.
        config: of the node.
    """

    def __init__(self, hive: Hive, config: EdgeCoreConfig) -> None:
        self._hive = hive
        self._is_on = config.modules.edge_mesh.enable and config.modules.meta_manager.enable

    @property
    def routes(self) -> list[HttpRoute]:
        """The routes of this handler."""
        return [HttpRoute(SERVICES_PATH, self.services), HttpRoute(RESOLVE_PATH, self.resolve)]

    def services(self, request: Request) -> Response:
        """Return a `ServicesAnswer`: all Services, those of a namespace, or one."""
        self._check()
        from modules.edge.edgemesh.owner import SERVICES, ServicesRequest  # noqa: PLC0415 - see the class

        wanted = ServicesRequest(request.first("namespace")[:LONGEST_NAME], request.first("name")[:LONGEST_NAME])
        return Response(200, "application/json", self._ask(SERVICES, wanted).content_bytes())

    def resolve(self, request: Request) -> Response:
        """Return a `Resolution`."""
        self._check()
        from modules.edge.edgemesh.dns.explaining import TYPES  # noqa: PLC0415 - see the class
        from modules.edge.edgemesh.owner import RESOLVE, NameAnswer, ResolveRequest  # noqa: PLC0415 - see the class

        name, type_ = request.first("name"), request.first("type").upper()
        if not 0 < len(name) <= LONGEST_NAME or type_ not in ("", *TYPES):
            raise HttpStatusError(400, "no name", hint=f"?name=NAME&type=TYPE, with a type of {', '.join(TYPES)}")
        wanted = ResolveRequest(name, request.first("namespace")[:LONGEST_NAME] or "default", type_)
        answer = self._ask(RESOLVE, wanted).content_as(NameAnswer)
        if answer.error:
            return text(400, f"{answer.error}\n")
        return Response(200, "application/json", answer.body)

    def _check(self) -> None:
        if not self._is_on:
            raise HttpStatusError(503, "this node serves no Services", hint="modules.edgeMesh.enable is false")

    def _ask(self, operation: str, content: object) -> Message:
        from modules.edge.edgemesh.owner import RESOURCE  # noqa: PLC0415 - see the class

        asking = Message.new(self._hive.clock, source="owner", resource=RESOURCE, operation=operation, content=content)
        try:
            answer: Message = self._hive.request(ModuleName.EDGEMESH, asking, SECONDS).get()
        except BeehiveError as error:
            raise HttpStatusError(503, "edgemesh does not answer", hint=str(error)) from error
        return answer
