"""Routes of paths to handlers."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Final, Protocol

import msgspec

from beehive.http.connections import Client
from beehive.http.request import Request
from beehive.http.responses import Handler, Reply, Response, text

READ: Final = ("GET", "HEAD")


class HttpService(Protocol):
    """The service that answers the requests of an `HttpServer`."""

    def serve(self, request: Request) -> Reply:
        """Return the reply. An HttpStatusError becomes the response."""


class Admitted(msgspec.Struct, frozen=True):
    """A request that may be made, as far as its head tells."""

    serve: Handler
    """Returns the reply to the request with its body."""
    most_body: int | None = None
    """Bytes that the body may have, if that is less than the server's bound."""
    client: Client | None = None
    """The authenticated client; None: it is told from others by its certificate or address, and privileged."""


class AdmittingService(ABC):
    """An `HttpService` that decides on a request by its head, before its body is read."""

    @abstractmethod
    def admit(self, request: Request) -> Admitted | Reply:
        """Return what serves a request, or the reply that refuses it; an HttpStatusError refuses it, too.

        Args:
            request: without its body.
        """

    def serve(self, request: Request) -> Reply:
        """Return the reply to a request whose body has been read."""
        decided = self.admit(request)
        return decided.serve(request) if isinstance(decided, Admitted) else decided


def admit(service: HttpService, request: Request) -> Admitted | Reply:
    """Return what a service decides on a request by its head; one that decides nothing then serves it."""
    return service.admit(request) if isinstance(service, AdmittingService) else Admitted(service.serve)


class HttpRoute(msgspec.Struct, frozen=True):
    """A pattern and its handler.

    Parts of a pattern in braces match any name: `/containerLogs/{namespace}/{pod}/{container}`.
    """

    pattern: str
    handler: Handler
    methods: tuple[str, ...] = READ

    def matches(self, parts: tuple[str, ...]) -> bool:
        """Return whether the parts of a path match the pattern."""
        pattern = self.pattern.strip("/").split("/")
        return len(pattern) == len(parts) and all(
            expected.startswith("{") or expected == part for expected, part in zip(pattern, parts, strict=True)
        )


class Router:
    """A router to the handler whose pattern matches the path (`HttpService`); its 404 lists all patterns.

    Args:
        routes: of several that match, the first with the request's method serves it.
    """

    def __init__(self, routes: Iterable[HttpRoute]) -> None:
        self._routes = tuple(routes)

    def serve(self, request: Request) -> Reply:
        """Return the reply. The HttpStatusErrors of handlers are raised."""
        matching = [route for route in self._routes if route.matches(request.parts)]
        if not matching:
            return self._not_found()
        for route in matching:
            if request.method in route.methods:
                return route.handler(request)
        allowed = ", ".join(sorted({method for route in matching for method in route.methods}))
        return msgspec.structs.replace(text(405, f"only {allowed} is served here\n"), headers=(("Allow", allowed),))

    def _not_found(self) -> Response:
        known = ", ".join(sorted({route.pattern for route in self._routes}))
        return text(404, f"nothing is served here; there is {known}\n")
