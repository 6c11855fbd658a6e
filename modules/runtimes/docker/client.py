"""Docker Engine's API: HTTP over its unix socket, one connection for each request.

The client uses the highest version of the API that both sides know. Answers are bounded in size and time.
"""

import json
import re
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from beehive.clock import Clock
from beehive.decoding import decode_json
from beehive.http.client import ClientExchange, ResponseHead
from beehive.http.errors import HttpError
from beehive.sockets.unix_sockets import connect_unix
from modules.runtimes.docker.errors import DockerUnreachableError, refusal
from modules.runtimes.engine.errors import BadRequestError

SOCKET: Final = Path("/var/run/docker.sock")
"""The socket of Docker Engine."""
INSTALL: Final = "apt-get install docker.io; systemctl start docker"

SECONDS: Final = 120.0
"""Seconds for an answer; the default of kubelet's runtimeRequestTimeout."""
_OLDEST: Final = (1, 40)
_NEWEST: Final = (1, 44)
_LONGEST_HEAD: Final = 64 * 1024
_LONGEST_BODY: Final = 64 * 1024 * 1024
_LONGEST_ERROR: Final = 64 * 1024
_READ_BYTES: Final = 64 * 1024
_LONGEST_REASON: Final = 1000
"""Characters of a response that an error quotes."""
_FIRST_ERROR: Final = 400
_VERSION: Final = re.compile(r"(\d{1,3})\.(\d{1,4})")

AnswerT = TypeVar("AnswerT")
Query = Mapping[str, str]
Headers = list[tuple[str, str]]


class _ErrorMessage(msgspec.Struct):
    message: str = ""


class LongAnswerError(HttpError):
    """A body is longer than it may be."""


class Exchange:
    """A connection with one request. Close it."""

    def __init__(self, address: Path, seconds: float, clock: Clock) -> None:
        """Connect; `seconds` limits the wait for an answer. Raises OSError."""
        self._clock = clock
        self._deadline: float | None = clock.monotonic() + seconds
        self._exchange = ClientExchange(_LONGEST_HEAD)
        self.socket = connect_unix(address, seconds)

    @property
    def early(self) -> bytes:
        """The bytes received after the head of an answer that switches protocols."""
        return self._exchange.rest

    def ask(self, method: str, target: str, headers: Headers, body: bytes) -> ResponseHead:
        """Send the request and return the head of the answer. Raises OSError, HttpError."""
        self.socket.sendall(self._exchange.request(method, target, [("Host", "docker"), *headers], body))
        return self._exchange.read_head(self._receive)

    def body(self, limit: int) -> bytes:
        """Return the body. Raises OSError; LongAnswerError; HttpError when it breaks off."""
        content = self._exchange.read_body(self._receive, limit + 1)
        if len(content) > limit:
            raise LongAnswerError(502, f"the answer is longer than {limit} bytes")
        return content

    def piece(self) -> bytes:
        """Return the next piece of the body, empty at its end. Raises OSError, HttpError."""
        return self._exchange.read_body(self._receive, 1)

    def available(self, reads: int) -> "Pieces":
        """Return the pieces of the body that have arrived, after at most so many reads of the socket."""
        return Pieces(self._exchange, self.socket, reads)

    def endless(self) -> None:
        """Wait without a time limit from now on."""
        self._deadline = None
        self.socket.settimeout(None)

    def close(self) -> None:
        """Close the connection."""
        self.socket.close()

    def _receive(self) -> bytes:
        if self._deadline is not None:
            left = self._deadline - self._clock.monotonic()
            if left <= 0:
                raise TimeoutError("it takes too long")
            self.socket.settimeout(left)
        return self.socket.recv(_READ_BYTES)


class Pieces:
    """The pieces of a body that have arrived at a non-blocking socket."""

    def __init__(self, exchange: ClientExchange, connection: socket.socket, reads: int) -> None:
        self._exchange = exchange
        self._connection = connection
        self._reads = reads

    def next(self) -> bytes | None:
        """Return the next piece; None if no more has arrived, empty at the end. Raises OSError, HttpError."""
        try:
            return self._exchange.read_body(self._receive, 1)
        except BlockingIOError:
            return None

    def _receive(self) -> bytes:
        if self._reads == 0:
            raise BlockingIOError
        self._reads -= 1
        return self._connection.recv(_READ_BYTES)


class DockerClient:
    """Docker Engine's API.

    Every method takes `attempt`, a phrase for errors, and raises DockerUnreachableError, or the RequestRefusedError
    for Docker's answer (`errors.refusal`).

    Args:
        address: of its Unix socket.
        clock: for time limits.
    """

    def __init__(self, address: Path, clock: Clock) -> None:
        self._address = address
        self.clock = clock
        self.version = _OLDEST
        """Version of the API that `negotiate` chose."""

    def negotiate(self) -> None:
        """Choose the version of the API. Also raises if Docker is too old."""
        attempt = "agree on Docker's API"
        exchange, head = self._open(attempt, "GET", "/_ping")
        exchange.close()
        found = _VERSION.fullmatch(head.headers.get("api-version", ""))
        theirs = (int(found[1]), int(found[2])) if found else (0, 0)
        if theirs < _OLDEST:
            reason = f"Docker Engine has version {theirs[0]}.{theirs[1]} of its API"
            raise DockerUnreachableError(attempt, reason, "19.03 (API 1.40) or later is needed")
        self.version = min(theirs, _NEWEST)

    def get(self, path: str, kind: type[AnswerT], attempt: str, query: Query | None = None) -> AnswerT:
        """GET an object."""
        return self._decoded(self.call("GET", path, attempt, query), kind, attempt)

    def post(
        self, path: str, kind: type[AnswerT], attempt: str, body: Mapping[str, Any], query: Query | None = None
    ) -> AnswerT:
        """POST an object and return the answer."""
        return self._decoded(self.call("POST", path, attempt, query, body), kind, attempt)

    def call(
        self, method: str, path: str, attempt: str, query: Query | None = None, body: Mapping[str, Any] | None = None
    ) -> bytes:
        """Send a request and return the body of the answer; 304 (nothing to do) counts as success too."""
        content, headers = _json(body)
        return self._content(attempt, method, self._target(path, query), content, headers)

    def archive(self, container_id: str, path: str, attempt: str, limit: int) -> bytes:
        """Return a file of a container as an archive of at most `limit` bytes. Also raises BadRequestError for a longer
        one.
        """
        target = self._target(f"/containers/{container_id}/archive", {"path": path})
        try:
            return self._content(attempt, "GET", target, b"", [], limit)
        except DockerUnreachableError as error:
            if isinstance(error.__cause__, LongAnswerError):
                raise BadRequestError(attempt, f"{path} of the image has more than {limit} bytes") from error
            raise

    def send(self, path: str, attempt: str, archive: bytes, query: Query | None = None) -> bytes:
        """POST an archive and return the body of the answer."""
        headers = [("Content-Type", "application/x-tar")]
        return self._content(attempt, "POST", self._target(path, query), archive, headers)

    def stream(
        self,
        method: str,
        path: str,
        attempt: str,
        query: Query | None = None,
        headers: Headers | None = None,
    ) -> Exchange:
        """Return a connection whose answer arrives in pieces, without a time limit. The caller closes it."""
        exchange, _ = self._open(attempt, method, self._target(path, query), b"", headers)
        exchange.endless()
        return exchange

    def hijack(self, path: str, attempt: str, query: Query | None = None, body: Any = None) -> Exchange:
        """POST, and return the connection, which then carries the streams of a command."""
        content, headers = _json(body)
        headers += [("Connection", "Upgrade"), ("Upgrade", "tcp")]
        exchange, _ = self._open(attempt, "POST", self._target(path, query), content, headers)
        exchange.endless()
        return exchange

    def unreachable(self, attempt: str, error: Exception) -> DockerUnreachableError:
        """Return the error for a connection that broke off."""
        said = (error.strerror if isinstance(error, OSError) else "") or str(error)
        return DockerUnreachableError(attempt, f"Docker Engine at {self._address}: {said[:_LONGEST_REASON]}", INSTALL)

    def _content(
        self, attempt: str, method: str, target: str, body: bytes, headers: Headers, limit: int | None = None
    ) -> bytes:
        exchange, _ = self._open(attempt, method, target, body, headers)
        try:
            return exchange.body(_LONGEST_BODY if limit is None else limit)
        except (OSError, HttpError) as error:
            raise self.unreachable(attempt, error) from error
        finally:
            exchange.close()

    def _open(
        self, attempt: str, method: str, target: str, body: bytes = b"", headers: Headers | None = None
    ) -> tuple[Exchange, ResponseHead]:
        """Send a request; return the connection after the head of a good answer."""
        try:
            exchange = Exchange(self._address, SECONDS, self.clock)
        except OSError as error:
            raise self.unreachable(attempt, error) from error
        try:
            head = exchange.ask(method, target, headers or [], body)
            if head.status >= _FIRST_ERROR:
                raise refusal(attempt, head.status, _message(exchange.body(_LONGEST_ERROR)))
        except BaseException as error:
            exchange.close()
            if isinstance(error, OSError | HttpError):
                raise self.unreachable(attempt, error) from error
            raise
        return exchange, head

    def _target(self, path: str, query: Query | None) -> str:
        asked = f"?{urlencode(query)}" if query else ""
        return f"/v{self.version[0]}.{self.version[1]}{path}{asked}"

    def _decoded(self, content: bytes, kind: type[AnswerT], attempt: str) -> AnswerT:
        try:
            return decode_json(content, kind)
        except (msgspec.MsgspecError, UnicodeError) as error:
            raise self.unreachable(attempt, error) from error


def part(name: str) -> str:
    """Return a name, quoted for a path of the API."""
    return quote(name, safe="")


def _json(body: Any) -> tuple[bytes, Headers]:
    if body is None:
        return b"", []
    return json.dumps(body).encode(), [("Content-Type", "application/json")]


def _message(body: bytes) -> str:
    try:
        return decode_json(body, _ErrorMessage).message
    except (msgspec.MsgspecError, UnicodeError):
        return body.decode(errors="replace")
