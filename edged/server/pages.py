"""Requests that a page in a browser may have made: no address that asks for no credentials serves them.

A page may ask what it likes of the machine that it is shown on, and reads the answer if its own name leads there:
somebody's DNS may give any name this address (DNS rebinding). The browser says the name in `Host`; an address there is
no name that anybody could give. What another site's script asks has an `Origin`.
"""

import ipaddress
from collections.abc import Iterable

from edged.server.answers import Reply
from edged.server.errors import RequestError
from edged.server.request import Request
from edged.server.router import Service

_LOCAL = "localhost"


def is_from_page(request: Request, names: Iterable[str] = ()) -> bool:
    """Whether it has an Origin, or is to another name than localhost, an address, or one of the node's own `names`."""
    host = request.header("host")
    name = host.rpartition(":")[0] if ":" in host.rpartition("]")[2] else host
    name = name.lower().removesuffix(".")
    known = name in ("", _LOCAL) or _is_address(name.removeprefix("[").removesuffix("]"))
    return bool(request.header("origin")) or not (known or name in {each.lower() for each in names})


class NoPages:
    """A service for everybody but pages (`Service`).

    Args:
        service: what is served.
        names: of the node, by which it may be asked.
    """

    def __init__(self, service: Service, names: Iterable[str]) -> None:
        self._service = service
        self._names = frozenset(names)

    def serve(self, request: Request) -> Reply:
        """The reply. Raises RequestError, 403 for what may come from a page."""
        if is_from_page(request, self._names):
            hint = f"ask by an address, localhost or {', '.join(sorted(self._names))}"
            raise RequestError(403, "pages of browsers are not served, nor other names of this server", hint=hint)
        return self._service.serve(request)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
