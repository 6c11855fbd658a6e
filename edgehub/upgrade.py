"""The HTTP request and answer that upgrade a connection to websocket (RFC 6455 §4). Pure: bytes in, bytes out."""

import base64
import hashlib
import os
from urllib.parse import urlsplit

import msgspec

from beehive.patterns import pattern
from edgehub.deflate import OFFER, Agreement, agreement
from edgehub.errors import SettingsError, UpgradeError

LONGEST_ANSWER = 16 * 1024
"""Largest head of an answer, in bytes."""

WITH_TLS = "`edgecore join` this cloud, or set modules.edgeHub.websocket.server to wss://HOST:PORT"
"""Advice for a cloud that speaks TLS."""

_TLS_ALERT = b"\x15\x03"
"""Beginning of a TLS server's alert for a request without TLS."""
_GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_BAD_REQUEST = 400
_LABEL = 63
"""Characters of a part of a name."""
_PORTS = {"ws": 80, "wss": 443}
_PRINTABLE = pattern(r"[!-~]+")
_VALUE = pattern(r"[ -~]*")


class Target(msgspec.Struct, frozen=True):
    """Address and path of the cloud's websocket."""

    secure: bool
    host: str
    port: int
    path: str

    @classmethod
    def parse(cls, url: str) -> "Target":
        """Parse a `ws://` or `wss://` URL.

        Raises:
            SettingsError: the URL has another form.
        """
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
            _check_labels(host or "")
        except ValueError as error:
            raise SettingsError("cannot read the URL of the cloud", url, str(error)) from error
        if parts.scheme not in _PORTS or not host or parts.username or not _PRINTABLE.fullmatch(url):
            raise SettingsError("cannot read the URL of the cloud", url, "ws://HOST:PORT/PATH or wss:// is wanted")
        path = parts.path or "/"
        query = f"?{parts.query}" if parts.query else ""
        return cls(parts.scheme == "wss", host, port or _PORTS[parts.scheme], path + query)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def _check_labels(host: str) -> None:
    """Raise ValueError for a name with a part that is empty or longer than DNS has them (RFC 1035, section 2.3.4)."""
    *others, last = host.split(".")
    if len(last) > _LABEL or not all(0 < len(label) <= _LABEL for label in others):
        raise ValueError(f"a part of the name is empty or has more than {_LABEL} characters")


class Upgrade:
    """One upgrade of a connection to websocket.

    Args:
        target: the server.
        headers: additional headers, sent as spelt.
        compression: whether the request offers permessage-deflate.

    Raises:
        SettingsError: a header is not printable ASCII.
    """

    def __init__(self, target: Target, headers: dict[str, str], *, compression: bool = False) -> None:
        for name, value in headers.items():
            if not _PRINTABLE.fullmatch(name) or not _VALUE.fullmatch(value):
                raise SettingsError("cannot send the header", f"{name}: {value!r}", "printable ASCII is wanted")
        self.target = target
        self._headers = headers
        self._key = base64.b64encode(os.urandom(16)).decode()
        self._answer = bytearray()
        self._compression = compression
        self.compression: Agreement | None = None
        """The accepted parameters of permessage-deflate; None without compression."""

    @property
    def closed_hint(self) -> str:
        """A hint why a server may close the connection without an answer."""
        return "" if self.target.secure else f"it may want TLS: {WITH_TLS}"

    def request(self) -> bytes:
        """Return the request; without Origin, which the cloud would compare, and without subprotocol."""
        lines = [
            f"GET {self.target.path} HTTP/1.1",
            f"Host: {self.target}",
            "User-Agent: edgecore",
            "Connection: Upgrade",
            "Upgrade: websocket",
            "Sec-WebSocket-Version: 13",
            f"Sec-WebSocket-Key: {self._key}",
            *([f"Sec-WebSocket-Extensions: {OFFER}"] if self._compression else []),
            *(f"{name}: {value}" for name, value in self._headers.items()),
        ]
        return "\r\n".join([*lines, "", ""]).encode("ascii")

    def feed(self, data: bytes) -> bytes | None:
        """Take a part of the answer; return None until it is complete, then the bytes after it (first frames).

        Raises:
            UpgradeError: the server does not switch to websocket as requested.
        """
        self._answer += data
        head, end, rest = bytes(self._answer).partition(b"\r\n\r\n")
        if self._answer[:2] == _TLS_ALERT and not self.target.secure:
            raise UpgradeError(f"{self.target} speaks TLS, and this node does not", WITH_TLS)
        if not end:
            if len(self._answer) > LONGEST_ANSWER:
                raise UpgradeError(f"no end of the answer within {LONGEST_ANSWER} bytes")
            return None
        self._check(head.decode("iso-8859-1"), rest)
        return rest

    def _check(self, head: str, rest: bytes) -> None:
        first, *lines = head.split("\r\n")
        status = _status(first)
        if status == _BAD_REQUEST and not self.target.secure and b"HTTPS" in rest:
            raise UpgradeError(f"{self.target} speaks TLS, and this node does not", WITH_TLS, status)
        if status != 101:
            said = rest[:500].decode("utf-8", "replace").strip()
            raise UpgradeError(f"the cloud answered {first[9:80]!r} {said!r}", _hint(status), status)
        headers = _fold(lines)
        accept = base64.b64encode(hashlib.sha1((self._key + _GUID).encode()).digest()).decode()  # noqa: S324 - RFC 6455
        if headers.get("upgrade", "").lower() != "websocket" or "upgrade" not in headers.get("connection", "").lower():
            raise UpgradeError("status 101 without an upgrade to websocket", status=status)
        if headers.get("sec-websocket-accept") != accept:
            raise UpgradeError("the peer's Sec-WebSocket-Accept does not match", "a proxy may have answered", status)
        extensions = headers.get("sec-websocket-extensions", "")
        if (extensions and not self._compression) or headers.get("sec-websocket-protocol"):
            raise UpgradeError("the peer chose an extension or subprotocol that was not offered", status=status)
        self.compression = agreement(extensions) if extensions else None


def _status(line: str) -> int:
    version, _, rest = line.partition(" ")
    if not version.startswith("HTTP/1.") or not (rest[:3].isascii() and rest[:3].isdecimal()):
        raise UpgradeError(f"not an HTTP answer: {line[:80]!r}", "something else may be listening there")
    return int(rest[:3])


def _fold(lines: list[str]) -> dict[str, str]:
    """Return the headers by lower-case name, with repeated ones joined by a comma."""
    headers: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        name, value = name.strip().lower(), value.strip()
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


def _hint(status: int) -> str:
    if status in (401, 403):
        return "the cloud refuses this node; see its log"
    if status in (301, 302, 307, 308):
        return "redirects are not followed; set the address it points to"
    return "the cloud may be starting, or another server listens there"
