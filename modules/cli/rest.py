"""The HTTP client of an API server behind a unix socket or a TCP address."""

from __future__ import annotations

import re
import socket
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode

import msgspec

from beehive.decoding import decode_json
from beehive.sockets.unix_sockets import connect_unix
from modules.apimachinery.printing.terminal import print_text
from modules.cli.errors import KubectlError, StatusError, TimedOutError, UnreachableError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from http.client import HTTPConnection, HTTPResponse

    from modules.apimachinery.kinds import Kind

    Query = Sequence[tuple[str, str]]

JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH: Final = "application/strategic-merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"

_SECONDS: Final = 60.0
_MOST_BYTES: Final = 256 * 1024 * 1024
_LONGEST_LINE: Final = 16 * 1024 * 1024
_MOST_OF_AN_ERROR: Final = 64 * 1024
_SHORTEST: Final = 0.001
_WARNING: Final = re.compile(r'^299 \S+ "((?:[^"\\]|\\.)*)"')


class RestClient:
    """A client of one API server; each request is sent on a connection of its own.

    All methods raise StatusError for a refusal, UnreachableError when no server answers, and KubectlError for an answer
    that is too long or not JSON.

    Args:
        address: path of a unix socket, or host and port.
        hint: advice where no server answers, such as "is `cloudcore run` running, with this --root?".
        prints_warnings: whether warnings of the server are printed.
    """

    def __init__(self, address: Path | tuple[str, int], hint: str = "", *, prints_warnings: bool = True) -> None:
        self.address = address
        self._hint = hint
        self._prints_warnings = prints_warnings
        self._warned: set[str] = set()

    def __str__(self) -> str:
        return str(self.address) if isinstance(self.address, Path) else f"http://{self.address[0]}:{self.address[1]}"

    def get(self, path: str, query: Query = ()) -> dict[str, Any]:
        """Return an object or a list."""
        return self.request("GET", path, query)

    def request(
        self, method: str, path: str, query: Query = (), body: Any = None, content_type: str = JSON
    ) -> dict[str, Any]:
        """Send a request, and return the answer's JSON object.

        Args:
            method: `GET`, `POST`, `PUT`, `PATCH` or `DELETE`.
            path: encoded path; see `path_of`.
            query: names and values, not encoded.
            body: bytes are sent as they are, all else as JSON; None is no body.
            content_type: of the body.
        """
        return decoded(self.raw(method, path, query, body, content_type))

    def raw(
        self,
        method: str,
        path: str,
        query: Query = (),
        body: Any = None,
        content_type: str = JSON,
        *,
        most: int = 0,
    ) -> bytes:
        """Send a request, and return the answer's body; `most` are its bytes, if less than any answer may have."""
        most = most or _MOST_BYTES
        data = self.exchange(method, target_of(path, query), body_of(body), content_type, most)
        if len(data) > most:
            raise KubectlError(f"the answer is longer than {most >> 10} KiB: ask for fewer objects")
        return data

    def exchange(self, method: str, target: str, body: bytes, content_type: str, most: int) -> bytes:
        """Send a request, and return the answer's body; of a longer one than `most` bytes, that many and one."""
        with self._answer(method, target, body, content_type, seconds=_SECONDS) as (answer, _):
            data = answer.read(most + 1)
            if answer.length and len(data) <= most:
                raise UnreachableError(f"the connection to {self} broke off in the middle of an answer")
            return data

    def lines(self, path: str, query: Query = (), *, ends: float | None = None) -> Iterator[bytes]:
        """Yield the lines of an endless answer, such as a watch, as they arrive, until the server ends it.

        Args:
            path: encoded path.
            query: names and values, not encoded.
            ends: time limit for the whole, in seconds of `time.monotonic`; None waits for ever.

        Raises:
            TimedOutError: `ends` has come.
        """
        with self._answer("GET", target_of(path, query), b"", "", seconds=None) as (answer, connection):
            while line := _line(answer, connection, ends):
                if len(line) == _LONGEST_LINE:
                    raise KubectlError(f"a line of the answer is longer than {_LONGEST_LINE >> 20} MiB")
                if line.strip():
                    yield line

    @contextmanager
    def _answer(
        self, method: str, target: str, body: bytes, content_type: str, seconds: float | None
    ) -> Iterator[tuple[HTTPResponse, socket.socket]]:
        """Send a request, and yield the answer, when it has begun, with its connection."""
        from http.client import HTTPException  # noqa: PLC0415 - the start of other commands is quick without it

        connection = self._connected()
        try:
            headers = {"Accept": JSON} | ({"Content-Type": content_type} if body else {})
            stream = connection.sock
            with suppress(BrokenPipeError, ConnectionResetError):  # it may answer before it has read the whole body
                connection.request(method, target, body or None, headers)
            with connection.getresponse() as answer:
                stream.settimeout(seconds)
                self._print_warnings(answer)
                if answer.status >= 300:
                    raise status_error(answer.status, answer.read(_MOST_OF_AN_ERROR))
                yield answer, stream
        except (OSError, HTTPException) as error:
            why = "no answer in time" if isinstance(error, TimeoutError) else str(error) or type(error).__name__
            raise UnreachableError(f"the connection to {self} broke off: {why}") from error
        finally:
            connection.close()

    def _connected(self) -> HTTPConnection:
        from http.client import HTTPConnection  # noqa: PLC0415

        host, port = ("localhost", 80) if isinstance(self.address, Path) else self.address
        connection = HTTPConnection(host, port, timeout=_SECONDS)
        try:
            if isinstance(self.address, Path):
                connection.sock = connect_unix(self.address, _SECONDS)
            else:
                connection.connect()
        except OSError as error:
            hint = "only its owner may connect" if isinstance(error, PermissionError) else self._hint
            why = f"{error.strerror or error}{f' ({hint})' if hint else ''}"
            raise UnreachableError(f"cannot reach the server at {self}: {why}") from error
        return connection

    def _print_warnings(self, answer: HTTPResponse) -> None:
        """Print the warnings of an answer on standard error, each only once."""
        for value in (answer.headers.get_all("Warning") or ()) if self._prints_warnings else ():
            found = _WARNING.match(value)
            if found and found[1] not in self._warned and len(self._warned) < 1000:
                self._warned.add(found[1])
                text = re.sub(r"\\(.)", r"\1", found[1])
                print_text(f"Warning: {text}", to=sys.stderr)


def _line(answer: HTTPResponse, connection: socket.socket, ends: float | None) -> bytes:
    """Return the next line of an answer; empty at its end. Raise TimedOutError at `ends`."""
    if ends is None:
        return answer.readline(_LONGEST_LINE)
    connection.settimeout(max(_SHORTEST, ends - time.monotonic()))
    try:
        return answer.readline(_LONGEST_LINE)
    except TimeoutError:
        raise TimedOutError from None


def path_of(*parts: str) -> str:
    """Return an encoded path; empty parts are left out."""
    return "".join(f"/{quote(part, safe='')}" for part in parts if part)


def object_path(kind: Kind, namespace: str = "", name: str = "") -> str:
    """Return the encoded path of the objects of a kind, or of one of them."""
    root = ("apis", *kind.api_version.split("/")) if kind.api_group else ("api", kind.api_version)
    inside = ("namespaces", namespace) if kind.namespaced and namespace else ()
    return path_of(*root, *inside, kind.plural, name)


def target_of(path: str, query: Query) -> str:
    """Return the target of a request: an encoded path, and names and values that are not encoded."""
    return f"{path}?{urlencode(query)}" if query else path


def body_of(content: Any) -> bytes:
    """Return the body of a request: bytes as they are, all else as JSON, None as no body."""
    if content is None:
        return b""
    return content if isinstance(content, bytes) else msgspec.json.encode(content)


def decoded(data: bytes) -> dict[str, Any]:
    """Return the JSON object in a body. Raises KubectlError."""
    try:
        found = decode_json(data)
    except msgspec.DecodeError as error:
        raise KubectlError(f"the server's answer is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise KubectlError("the server's answer is not a JSON object")
    return found


def status_error(code: int, body: bytes) -> StatusError:
    """Return the error that an answer describes: a `metav1.Status`, or any text."""
    try:
        found = decode_json(body)
    except msgspec.DecodeError:
        found = None
    if not isinstance(found, dict) or found.get("kind") != "Status":
        text = body[:1000].decode(errors="replace").strip()
        return StatusError(code, "", text or f"the server answered with status {code}")
    details = found.get("details")
    message = str(found.get("message") or f"the server answered with status {code}")
    return StatusError(code, str(found.get("reason") or ""), message, details if isinstance(details, dict) else None)
