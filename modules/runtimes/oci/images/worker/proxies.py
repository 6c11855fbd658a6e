"""The proxy of a connection: HTTPS_PROXY, HTTP_PROXY and NO_PROXY, with the rules of containerd and Docker.

A variable with a lower-case name takes precedence. Connections to this machine itself never use a proxy.
"""

import base64
import ipaddress
from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

from beehive.whole_numbers import whole_number
from modules.runtimes.oci.images.worker.errors import MACHINE, ImageWorkError
from modules.runtimes.oci.images.worker.hosts import ServerAddress, is_loopback
from modules.runtimes.oci.images.worker.proxy_variables import EXCEPTIONS, OF_SCHEME

_DEFAULT_PORT: Final = 80
_MOST_EXCEPTIONS: Final = 10_000


class HttpProxy(NamedTuple):
    """A proxy, with its credentials: never shown as a whole."""

    host: str
    port: int
    username: str = ""
    password: str = ""

    @property
    def name(self) -> str:
        """Host and port."""
        return f"{self.host}:{self.port}"

    @property
    def headers(self) -> dict[str, str]:
        """The header with its credentials, if there are any."""
        if not self.username:
            return {}
        plain = f"{self.username}:{self.password}".encode()
        return {"Proxy-Authorization": "Basic " + base64.b64encode(plain).decode()}

    def __repr__(self) -> str:
        return f"HttpProxy({self.name})"


def proxy_for(target: ServerAddress, environment: Mapping[str, str]) -> HttpProxy | None:
    """Return the proxy for a server; None if it is asked directly.

    Raises ImageWorkError for a variable that names none; the error does not show it.
    """
    variable, text = _first(OF_SCHEME[target.scheme], environment)
    if not text or is_loopback(target.host) or _is_excepted(target, _first(EXCEPTIONS, environment)[1]):
        return None
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme != "http" or not parts.hostname:
        raise ImageWorkError(MACHINE, f"{variable} names no proxy", "its form is http://[USER:PASSWORD@]HOST:PORT")
    return HttpProxy(
        parts.hostname, port or _DEFAULT_PORT, unquote(parts.username or ""), unquote(parts.password or "")
    )


def _first(names: tuple[str, ...], environment: Mapping[str, str]) -> tuple[str, str]:
    return next(((name, text) for name in names if (text := environment.get(name, "").strip())), (names[-1], ""))


def _is_excepted(target: ServerAddress, exceptions: str) -> bool:
    return any(_fits(target, each.strip().lower()) for each in exceptions.split(",")[:_MOST_EXCEPTIONS])


def _fits(target: ServerAddress, exception: str) -> bool:
    """Return whether an entry of NO_PROXY is a server: `*`, an address, a range of them, or a name with those below
    it.
    """
    host = target.host.lower()
    if exception == "*":
        return True
    if (address := _address(host)) is not None and "/" in exception:
        try:
            return address in ipaddress.ip_network(exception, strict=False)
        except ValueError:
            return False
    name, colon, port = exception.rpartition(":")
    if colon and (number := whole_number(port)) is not None and (":" not in name or name.endswith("]")):
        if number != target.port:
            return False
        exception = name
    name = exception.strip("[]").removeprefix("*").removeprefix(".")
    if not name or address is not None:
        return bool(name) and _address(name) == address
    below = host.endswith(f".{name}")
    return below if exception.startswith((".", "*.")) else below or host == name


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
