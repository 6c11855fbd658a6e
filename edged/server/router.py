"""Which handler serves a path. Patterns are literal but for parts in braces, which take any name."""

from collections.abc import Iterable
from typing import Final, NamedTuple, Protocol

from edged.server.answers import Answer, Handler, Reply, text
from edged.server.request import Request

READ: Final = ("GET", "HEAD")


class Service(Protocol):
    """What a server serves."""

    def serve(self, request: Request) -> Reply:
        """The reply; what it raises as RequestError becomes the answer."""


class Route(NamedTuple):
    """A pattern (`/containerLogs/{namespace}/{pod}/{container}`) and what serves it."""

    pattern: str
    handler: Handler
    methods: tuple[str, ...] = READ

    def fits(self, parts: tuple[str, ...]) -> bool:
        """Whether a path's parts are as the pattern wants."""
        wanted = self.pattern.strip("/").split("/")
        return len(wanted) == len(parts) and all(
            want.startswith("{") or want == part for want, part in zip(wanted, parts, strict=True)
        )


class Router:
    """Finds the handler; knows every path that it has, so that a 404 can say them."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._routes = tuple(routes)

    def serve(self, request: Request) -> Reply:
        """The reply; RequestErrors of handlers go to the caller."""
        fitting = [route for route in self._routes if route.fits(request.parts)]
        if not fitting:
            return self._not_found()
        for route in fitting:
            if request.method in route.methods:
                return route.handler(request)
        allowed = ", ".join(sorted({method for route in fitting for method in route.methods}))
        return text(405, f"only {allowed} is served here\n")

    def _not_found(self) -> Answer:
        known = ", ".join(sorted({route.pattern for route in self._routes}))
        return text(404, f"nothing is served here; there is {known}\n")
