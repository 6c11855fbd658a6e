"""What a browser may send to the page, and the headers of every answer."""

from collections.abc import Iterable
from typing import Final

from beehive.http.errors import HttpStatusError
from beehive.http.request import Request
from beehive.http.responses import Response

POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "font-src 'none'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
"""The Content-Security-Policy: code and style of this server's files only, no markup from strings, no frames."""

HEADERS: Final = (
    ("Content-Security-Policy", POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Permissions-Policy", "camera=(), microphone=(), geolocation=(), clipboard-write=(self)"),
    ("Cache-Control", "no-store"),
)
_OWN: Final = ("same-origin", "none", "")


class Guard:
    """Refuses requests that another site, or another name of this server, may have caused.

    `Host` must be one of the server's own names, compared as a whole, which DNS rebinding cannot fake; `Origin` and
    `Sec-Fetch-Site`, where they are sent, must be this server's. No credential is sent by a browser on its own: the
    key is a header.

    Args:
        hosts: the server's names with its port, as in `Host`: `127.0.0.1:8080`.
    """

    def __init__(self, hosts: Iterable[str]) -> None:
        self._hosts = frozenset(hosts)

    def check(self, request: Request) -> None:
        """Raise HttpStatusError with 421 or 403 for a request of another site."""
        hosts = [value for name, value in request.headers if name == "host"]
        if len(hosts) != 1 or hosts[0] not in self._hosts:
            raise HttpStatusError(421, "this is not the server's name: open the address that the command printed")
        origins = [value for name, value in request.headers if name == "origin"]
        if any(origin != f"http://{hosts[0]}" for origin in origins):
            raise HttpStatusError(403, "another site's page may ask nothing here")
        if request.header("sec-fetch-site") not in _OWN:
            raise HttpStatusError(403, "another site's page may ask nothing here")
        if request.header("sec-fetch-site") == "none" and request.header("sec-fetch-mode") not in ("navigate", ""):
            raise HttpStatusError(403, "only a document is opened like this")

    def check_page(self, request: Request) -> None:
        """Raise HttpStatusError with 403 unless a script of the page itself has sent the request."""
        if not request.header("origin") or request.header("x-edgecore-page") != "1":
            raise HttpStatusError(403, "only the page itself may ask this")


def guarded(response: Response) -> Response:
    """Return the response with the headers that every answer has."""
    return response._replace(headers=(*response.headers, *HEADERS))
