"""The address of a kubeconfig's cluster: its server, and the proxy before it."""

import base64
import ipaddress
from urllib.parse import SplitResult, unquote, urlsplit

import msgspec

from beehive.http.authority import PORTS, authority, url_of
from modules.cloud.client.kubeconfig.model import Selected
from modules.cloud.client.kubeconfig.reading import KubeconfigError


class ProxyUrl(msgspec.Struct, frozen=True):
    """An HTTP proxy."""

    host: str
    port: int
    authorization: str = ""
    """The value of Proxy-Authorization; a secret."""

    def __repr__(self) -> str:
        return f"ProxyUrl({self.text})"

    @property
    def text(self) -> str:
        """The URL without its password."""
        return url_of(self.host, self.port, tls=False)


class ServerUrl(msgspec.Struct, frozen=True):
    """An API server, and how it is reached."""

    host: str
    port: int
    is_https: bool
    prefix: str = ""
    """The path before `/api`, without a slash at its end."""
    proxy: ProxyUrl | None = None

    @property
    def address(self) -> str:
        """Host and port."""
        return authority(self.host, self.port)

    @property
    def text(self) -> str:
        """The URL, for errors."""
        return f"{'https' if self.is_https else 'http'}://{self.address}{self.prefix}"

    @property
    def host_header(self) -> str:
        """The value of the header Host: with the port unless it is the scheme's own."""
        return authority(self.host, self.port, "https" if self.is_https else "http")

    @property
    def target_prefix(self) -> str:
        """The beginning of a request's target, before its path: the prefix, and for a proxy without a tunnel the server
        as well.
        """
        return f"http://{self.host_header}{self.prefix}" if self.proxy and not self.is_https else self.prefix

    @property
    def peer(self) -> tuple[str, int]:
        """Host and port to connect to."""
        return (self.proxy.host, self.proxy.port) if self.proxy else (self.host, self.port)


def server_url(selected: Selected) -> ServerUrl:
    """Return the place of a cluster.

    Raises:
        KubeconfigError: its `server` or `proxy-url` is not a URL that can be used.
    """
    cluster, where = selected.cluster, selected.where
    text = cluster.server if "://" in cluster.server else f"https://{cluster.server}"
    url, host, port = _parts(text, "server", where)
    if url.scheme not in PORTS:
        raise KubeconfigError(where, f"server has the scheme {url.scheme!r}: write an https:// or http:// URL")
    if url.username is not None or url.query or url.fragment:
        raise KubeconfigError(where, "server has a user, a query or a fragment: write only host, port and path")
    proxy = _proxy(cluster.proxy_url, where) if cluster.proxy_url else None
    return ServerUrl(host, port, url.scheme == "https", url.path.rstrip("/"), proxy)


def is_literal(host: str) -> bool:
    """Return whether a host is an IP address, which needs no resolver."""
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


def _proxy(text: str, where: str) -> ProxyUrl:
    url, host, port = _parts(text, "proxy-url", where)
    if url.scheme != "http":
        raise KubeconfigError(where, f"proxy-url has the scheme {url.scheme!r}: only http:// proxies can be used")
    if url.username is None:
        return ProxyUrl(host, port)
    pair = f"{unquote(url.username)}:{unquote(url.password or '')}"
    return ProxyUrl(host, port, f"Basic {base64.b64encode(pair.encode()).decode()}")


def _parts(text: str, field: str, where: str) -> tuple[SplitResult, str, int]:
    try:
        url = urlsplit(text)
        host, port = url.hostname or "", url.port
    except ValueError:
        raise KubeconfigError(where, f"{field} is not a URL: write scheme://host:port") from None
    if not host or not text.isascii() or any(each <= " " for each in text):
        raise KubeconfigError(where, f"{field} is not a URL: write scheme://host:port")
    return url, host, port if port is not None else PORTS.get(url.scheme, 0)
