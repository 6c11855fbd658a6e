"""HTTP requests of a pull: TLS, redirects, bounded answers."""

import http.client
import io
import os
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

from beehive.on_failure import on_failure
from beehive.sockets.near_addresses import is_near
from modules.runtimes.oci.images.worker.errors import UNAVAILABLE, ImageWorkError, invalid
from modules.runtimes.oci.images.worker.hosts import RegistryHost, ServerAddress, address_of, is_loopback
from modules.runtimes.oci.images.worker.proxies import HttpProxy, proxy_for

_MOST_REDIRECTS: Final = 5
_REDIRECTS: Final = (301, 302, 303, 307, 308)
_LONGEST_URL: Final = 16 * 1024
_AGENT: Final = "edgecore"
_LEAST: Final = 16 * 1024
"""Bytes that an answer, its head included, must bring in each period of `stall_seconds`, unless it ends. In a minute
these are 2 kbit/s, as a layer may have on a thin link that others share.
"""
_LONGEST_REASON: Final = 200
"""Characters of an error's text, which may be the registry's: http.client quotes a status line of 64 KiB."""
_MOST_BESIDE: Final = 8 * 1024 * 1024
"""Bytes that may come before a piece of the body, or for a document, which has half as many at most: http.client reads
responses `100 Continue`, extensions of chunks and trailers without an end.
"""
_SMALL_PIECES: Final = 4096
_PIECE_BYTES: Final = 64
"""Bytes of each further piece: one takes some twenty microseconds, and a gigabyte of single bytes would take hours of
the processor.
"""


class HttpExchange:
    """Requests to one endpoint, and to where it redirects. Thread-safe: each request has a connection of its own.

    Args:
        endpoint: the server.
        stall_seconds: longest silence of a connection, and the period in which an answer must get on.
        now: monotonic seconds.
    """

    def __init__(self, endpoint: RegistryHost, stall_seconds: float, now: Callable[[], float] = time.monotonic) -> None:
        self._endpoint = endpoint
        self._seconds = stall_seconds
        self._response = partial(_PacedResponse, stall_seconds, now)
        self._contexts: dict[bool, ssl.SSLContext] = {}

    @contextmanager
    def get(
        self, url: str, headers: Mapping[str, str], *, authorization: str = "", method: str = "GET", body: bytes = b""
    ) -> Iterator[http.client.HTTPResponse]:
        """Yield the answer to a request, after redirects. One of another server has no challenge: it would name the
        token server that gets the registry's credentials.

        Args:
            url: where to.
            headers: also sent to where it redirects.
            authorization: never sent to another server.
            method, body: a body is not sent again after a redirect.

        Raises:
            ImageWorkError: a redirect leads where it must not.
            OSError, http.client.HTTPException: the connection failed.
        """
        first = self._checked(url, None)
        at, target = url, first
        for _ in range(_MOST_REDIRECTS + 1):
            proxy = proxy_for(target, os.environ)
            connection = self._connect(target, proxy)
            try:
                sent = {"User-Agent": _AGENT, "Host": target.name, **headers}
                if authorization and target == first:
                    sent["Authorization"] = authorization
                if target == self._endpoint.address:
                    sent.update(self._endpoint.headers)
                way = _way(at)
                if proxy is not None and target.scheme == "http":
                    sent.update(proxy.headers)
                    way = f"http://{target.name}{way}"
                connection.request(method, way, body or None, sent)
                response = connection.getresponse()
                if response.status not in _REDIRECTS or not (location := response.getheader("Location")):
                    if response.status == 401 and target != first:
                        del response.headers["WWW-Authenticate"]
                    yield response
                    return
                at = _joined(at, location)
                target = self._checked(at, target)
                method, body = ("GET", b"") if response.status == 303 else (method, b"")
            finally:
                connection.close()
        raise invalid("the registry redirects in a circle")

    def _checked(self, url: str, before: ServerAddress | None) -> ServerAddress:
        """Return the address of a URL that may be asked."""
        address = address_of(url) if len(url) <= _LONGEST_URL else None
        if address is None:
            raise invalid("the registry redirects to something that is no URL of HTTP")
        if before is not None and address.scheme == "http" and (before.scheme == "https" or address != before):
            raise invalid(f"the registry redirects to {address.name} without TLS")
        return address

    def _connect(self, target: ServerAddress, proxy: HttpProxy | None) -> http.client.HTTPConnection:
        connection: http.client.HTTPConnection
        host, port = (target.host, target.port) if proxy is None else (proxy.host, proxy.port)
        if target.scheme == "http":
            connection = http.client.HTTPConnection(host, port, timeout=self._seconds)
        else:
            context = self._context(lax=self._endpoint.skip_verify and target == self._endpoint.address)
            connection = http.client.HTTPSConnection(host, port, timeout=self._seconds, context=context)
            if proxy is not None:
                connection.set_tunnel(target.host, target.port, proxy.headers)
        connection.response_class = self._response  # type: ignore[assignment]
        if proxy is not None:  # which looks names up
            self._check_outside(target, target.host)
            return connection
        if target != self._endpoint.address:  # an error would tell whether something listens there
            for each in socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM):
                self._check_outside(target, str(each[4][0]))
        connection.connect()
        with on_failure(connection.close):
            self._check_outside(target, str(connection.sock.getpeername()[0]))
        return connection

    def _check_outside(self, target: ServerAddress, address: str) -> None:
        """Check that a registry leads to no address of this machine, unless hosts.toml has the authority of one."""
        own = self._endpoint.address
        is_named = own.scheme == "https" and is_loopback(own.host)
        if target != own and not is_named and is_near(address):
            raise invalid(f"the registry leads to {target.name}, an address of this machine itself")

    def _context(self, *, lax: bool) -> ssl.SSLContext:
        if lax not in self._contexts:
            context = ssl.create_default_context()
            context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # of Python 3.13; containerd's Go is not as strict
            for each in self._endpoint.ca:
                context.load_verify_locations(each)
            for certificate, key in self._endpoint.clients:
                context.load_cert_chain(certificate, key)
            if lax:
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
            self._contexts[lax] = context
        return self._contexts[lax]


class _PacedResponse(http.client.HTTPResponse):
    """An answer that must come at a least rate and in no small pieces, from its first header to the end of its body."""

    def __init__(self, seconds: float, now: Callable[[], float], sock: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(sock, *args, **kwargs)
        self._paced = _PacedReader(self.fp.detach(), seconds, now)
        self.fp = io.BufferedReader(self._paced)

    def read1(self, n: int = -1) -> bytes:
        """Return a piece of the body, after which as much may come beside the body again."""
        piece = super().read1(n)
        self._paced.beside = 0
        return piece


class PieceCount:
    """The pieces of an answer, such as reads or chunks, of which few may be small."""

    def __init__(self) -> None:
        self._pieces = self._bytes = 0

    def add(self, size: int) -> None:
        """Count a piece. Raises OSError if too many are small."""
        self._pieces, self._bytes = self._pieces + 1, self._bytes + size
        if self._pieces > _SMALL_PIECES + self._bytes // _PIECE_BYTES:
            raise OSError(f"more than {_SMALL_PIECES} pieces of less than {_PIECE_BYTES} bytes came")


class _PacedReader(io.RawIOBase):
    def __init__(self, raw: io.RawIOBase, seconds: float, now: Callable[[], float]) -> None:
        self._raw = raw
        self._seconds = seconds
        self._now = now
        self._until = now() + seconds
        self._since = 0
        self._pieces = PieceCount()
        self.beside = 0
        """Bytes since the last piece of the body."""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int | None:
        count: int | None = self._raw.readinto(buffer)
        self._since += count or 0
        self._pieces.add(count or 0)
        self.beside += count or 0
        if self.beside > _MOST_BESIDE:
            raise OSError(f"more than {_MOST_BESIDE} bytes came beside the body")
        if self._now() > self._until:
            if self._since < _LEAST and count:
                raise TimeoutError(f"less than {_LEAST} bytes came in {self._seconds:g} s")
            self._until, self._since = self._now() + self._seconds, 0
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


def read_bounded(response: http.client.HTTPResponse, most: int) -> bytes:
    """Return an answer's body. Raises ImageWorkError if it has more bytes, and the connection's errors."""
    content = response.read(most + 1)
    if len(content) > most:
        raise invalid(f"the registry's answer has more than {most} bytes")
    return content


def unreachable(address: ServerAddress, error: Exception) -> ImageWorkError:
    """Return the error of a connection that failed."""
    reason = getattr(error, "strerror", None) or str(error)[:_LONGEST_REASON] or type(error).__name__
    proxy = proxy_for(address, os.environ)
    hint = "" if proxy is None else f"it was asked through the proxy {proxy.name}: see HTTPS_PROXY and NO_PROXY"
    if isinstance(error, ssl.SSLCertVerificationError):
        reason = f"its certificate is not trusted: {error.verify_message}"
        hint = "name the authority with `ca` in the hosts.toml of the registry"
    return ImageWorkError(UNAVAILABLE, f"{address.name} cannot be reached: {reason}", hint)


def _joined(base: str, location: str) -> str:
    """Return the URL of a redirect; empty if its location is no URL."""
    try:
        return urljoin(base, location)
    except ValueError:
        return ""


def _way(url: str) -> str:
    parts = urlsplit(url)
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
