"""The way to the page on the secure port, which is made with the first request for it."""

import threading
from collections.abc import Callable
from http import HTTPStatus
from typing import Final, Protocol

from beehive.http.request import Request
from beehive.http.responses import Reply, text
from beehive.http.router import Admitted, AdmittingService, HttpService, admit

_PAGE: Final = "page"


class ClosingService(HttpService, Protocol):
    """A service that holds threads."""

    def close(self) -> None:
        """Release them."""


class PageOnly(AdmittingService):
    """A service that serves nothing beside the page (`HttpService`)."""

    def admit(self, _request: Request) -> Reply:
        """Return the refusal."""
        return text(HTTPStatus.NOT_FOUND, "only the page is here, at /page/: the cluster serves its own API\n")


class LazyPage(AdmittingService):
    """The service of `/page` by the page, and of all else by another service (`HttpService`).

    Args:
        make: makes the page.
        others: serves all else.
    """

    def __init__(self, make: Callable[[], ClosingService], others: HttpService) -> None:
        self._make = make
        self._others = others
        self._lock = threading.Lock()
        self._page: ClosingService | None = None

    def admit(self, request: Request) -> Admitted | Reply:
        """See `AdmittingService`."""
        if request.parts[:1] != (_PAGE,):
            return admit(self._others, request)
        with self._lock:
            if self._page is None:
                self._page = self._make()
            page = self._page
        return admit(page, request)

    def close(self) -> None:
        """Close the page, if there is one."""
        with self._lock:
            page, self._page = self._page, None
        if page is not None:
            page.close()
