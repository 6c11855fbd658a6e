"""Shells in containers, for the page: `sh` by `pods/exec`, as `kubectl exec -it` begins it.

The browser and the node's container runtime are the ends of the WebSocket. The page's server passes the browser's
handshake on, without its credentials, and then bytes; it bounds the shells by number and by time without input, the
node's messages in size, and ends a shell with its session or its right.
"""

import logging
import select
import socket
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Final, NamedTuple, Protocol

import msgspec
from websockets.frames import Frame, Opcode
from websockets.utils import accept_key

from beehive.clock import Clock
from beehive.errors import BeehiveError
from beehive.http.client import ClientExchange
from beehive.http.errors import HttpError, HttpStatusError
from beehive.http.forwarding import Fields
from beehive.http.request import Request
from beehive.http.responses import Takeover
from beehive.on_failure import on_failure
from beehive.printable import clipped
from modules.cli.errors import KubectlError
from modules.cli.rest import status_error
from modules.cloud.cloudstream.relay import ClientSocket
from modules.page.frames import BrowserFrameError, FrameBounds

_log = logging.getLogger(__name__)

EXEC: Final = "exec"
"""The action that the page must be allowed."""
COMMAND: Final = ("sh",)
PROTOCOLS: Final = ("v5.channel.k8s.io", "v4.channel.k8s.io")
KEY_PROTOCOL: Final = "key.page.edgecore."
"""Beginning of the WebSocket protocol that has the session's key: a browser's WebSocket can send no header."""
MOST: Final = 16
"""Shells at a time."""
MOST_OF_USER: Final = 8
IDLE_SECONDS: Final = 1800.0
"""A shell ends without input for so long."""
CHECK_SECONDS: Final = 5.0
"""Until a shell notes that its session or its right has ended."""
_ANSWER_SECONDS: Final = 40.0
"""The API server waits 30 s for a node."""
_HEAD_SECONDS: Final = 10.0
_HEAD_BYTES: Final = 64 * 1024
_REFUSAL_BYTES: Final = 4096
_LONGEST_REASON: Final = 500
_READ_BYTES: Final = 32 * 1024
_RESULT: Final = b"\x03"
"""The channel of the command's result."""


class ShellTarget(NamedTuple):
    """A container of a pod."""

    namespace: str
    pod: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.pod}, container {self.name}"


class ShellDoor(Protocol):
    """Access to the containers of a server, with the rights of whoever asks."""

    user: str = ""
    """Who that is; "" for the owner of the command."""

    def check(self, where: ShellTarget) -> None:
        """Raise HttpStatusError if no shell may be opened there."""

    def open(self, where: ShellTarget, fields: Fields) -> socket.socket:
        """Ask for a shell with the headers of a handshake, and return the connection, which brings the answer.

        Raises:
            BeehiveError, KubectlError: the server refuses, or is not reached.
        """


class DoorOf(Protocol):
    """The finder of a session's access to containers."""

    def __call__(self, *, is_use: bool) -> ShellDoor | None:
        """Return it, None if the session has ended; the session may be used by that."""


class ClosedDoor(ShellDoor):
    """No access: shells are refused.

    Args:
        command: allows them.
    """

    def __init__(self, command: str) -> None:
        self._command = command

    def check(self, where: ShellTarget) -> None:  # noqa: ARG002 - of `ShellDoor`
        """Raise HttpStatusError."""
        raise HttpStatusError(403, "this page is read only", hint=f"`{self._command}` allows shells")

    def open(self, where: ShellTarget, fields: Fields) -> socket.socket:  # noqa: ARG002 - of `ShellDoor`
        """Raise HttpStatusError."""
        self.check(where)
        raise AssertionError


class ShellPlace:
    """The place of a shell, until it is left, or given to another user.

    Args:
        user: whose shell it is.
    """

    def __init__(self, user: str) -> None:
        self.user = user
        self.is_given_away = False


class ShellPlaces:
    """The places of shells, which are shared by user: no user keeps others out. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken: list[ShellPlace] = []

    def acquire(self, user: str) -> ShellPlace:
        """Return a place. If all are taken, it is the oldest one of the user with the most, unless that user would then
        have fewer than this one.

        Raises:
            HttpStatusError: there is none.
        """
        with self._lock:
            shells = Counter(each.user for each in self._taken)
            if shells[user] >= MOST_OF_USER:
                raise HttpStatusError(429, f"{shells[user]} shells are open already; close one")
            if len(self._taken) >= MOST:
                most, count = shells.most_common(1)[0]
                if count <= shells[user] + 1:
                    raise HttpStatusError(429, f"{MOST} shells are open already, which other users share")
                oldest = next(each for each in self._taken if each.user == most)
                oldest.is_given_away = True
                self._taken.remove(oldest)
            self._taken.append(place := ShellPlace(user))
            return place

    def leave(self, place: ShellPlace) -> None:
        """End the use of a place."""
        with self._lock:
            if not place.is_given_away:
                self._taken.remove(place)


class Shells:
    """The manager of shells, which opens and bounds them.

    Args:
        clock: for their times.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._places = ShellPlaces()

    def reply(self, request: Request, where: ShellTarget, door: DoorOf) -> Takeover:
        """Return the shell in a container, or a WebSocket that gives the reason why there is none: a script of a page
        cannot read the refusal of a handshake.

        Args:
            request: the handshake, which has been checked.
            where: the container.
            door: finds the way of the session to containers; input counts as the session's use.
        """
        try:
            upstream = self._opened(request, where, door)
        except (BeehiveError, KubectlError) as error:
            why = clipped(str(error), _LONGEST_REASON)
            return Takeover(lambda client: _refuse(client, request, why, self._clock), lambda: None)

        def carry_on(client: socket.socket) -> None:
            client.settimeout(_HEAD_SECONDS)
            client.sendall(_head(request, upstream.protocol))
            talk = _Talk(ClientSocket(client), ClientSocket(upstream.connection), self._clock)
            why = talk.run(
                request.rest, upstream.first, lambda typed: _end_of(door, where, upstream.place, typed=typed)
            )
            _log.info("a shell of the page in %s has ended%s", where, f": {why}" if why else "")

        def done() -> None:
            upstream.connection.close()
            self._places.leave(upstream.place)

        return Takeover(carry_on, done)

    def _opened(self, request: Request, where: ShellTarget, door: DoorOf) -> "_Upstream":
        way = door(is_use=True)
        if way is None:
            raise HttpStatusError(401, "the session has ended")
        way.check(where)
        place = self._places.acquire(way.user)
        with on_failure(lambda: self._places.leave(place)):
            fields = [each for each in request.headers if each[0] in ("sec-websocket-key", "sec-websocket-version")]
            offered = ", ".join(each for each in protocols_of(request) if each in PROTOCOLS)
            upgrade = [("connection", "Upgrade"), ("upgrade", "websocket"), ("sec-websocket-protocol", offered)]
            connection = way.open(where, (*upgrade, *fields))
            with on_failure(connection.close):
                return _answered(connection, place)


def protocols_of(request: Request) -> Sequence[str]:
    """Return the protocols that a WebSocket handshake offers."""
    offered = ",".join(value for name, value in request.headers if name == "sec-websocket-protocol")
    return [each.strip() for each in offered.split(",")]


def key_of(request: Request) -> str:
    """Return the session's key of a handshake, "" without one. Raise HttpStatusError with 400 if it is none."""
    offered = protocols_of(request)
    is_one = request.method == "GET" and request.header("upgrade").lower() == "websocket"
    if not is_one or request.header("sec-websocket-version") != "13" or not request.header("sec-websocket-key"):
        raise HttpStatusError(400, "a shell is a WebSocket")
    if not set(PROTOCOLS) & set(offered):
        raise HttpStatusError(400, f"of its protocols one is wanted of {', '.join(PROTOCOLS)}")
    keys = [each.removeprefix(KEY_PROTOCOL) for each in offered if each.startswith(KEY_PROTOCOL)]
    return keys[0] if len(keys) == 1 else ""


class _Upstream(NamedTuple):
    connection: socket.socket
    protocol: str
    first: bytes
    """The first bytes of the new protocol."""
    place: ShellPlace


def _answered(connection: socket.socket, place: ShellPlace) -> _Upstream:
    """Return the stream that a server grants. Raise HttpStatusError."""
    exchange = ClientExchange(_HEAD_BYTES)
    connection.settimeout(_ANSWER_SECONDS)

    def receive() -> bytes:
        return connection.recv(_READ_BYTES)

    try:
        fields = [("Host", "localhost"), ("Connection", "Upgrade"), ("Upgrade", "websocket")]
        exchange.request("GET", "/", fields)  # h11 reads an upgrade only as the answer to one
        head = exchange.read_head(receive)
        if head.status == HTTPStatus.SWITCHING_PROTOCOLS:
            protocol = head.headers.get("sec-websocket-protocol", "")
            if protocol not in PROTOCOLS or head.headers.get("sec-websocket-extensions"):
                raise HttpStatusError(502, "the node's answer is no stream for a browser")
            return _Upstream(connection, protocol, exchange.rest, place)
        body = exchange.read_body(receive, _REFUSAL_BYTES)[:_REFUSAL_BYTES]
    except (OSError, HttpError) as error:
        raise HttpStatusError(502, "there is no answer", hint=str(error)) from error
    raise HttpStatusError(502, status_error(head.status, body).message)


def _end_of(door: DoorOf, where: ShellTarget, place: ShellPlace, *, typed: bool) -> str:
    """Return why a shell must end, "" if it need not."""
    if place.is_given_away:
        return "another user opens a shell, and this was the oldest one of the user with the most"
    way = door(is_use=typed)
    if way is None:
        return "the session has ended"
    try:
        way.check(where)
    except BeehiveError as error:
        return str(error)
    return ""


def _head(request: Request, protocol: str) -> bytes:
    accepted = accept_key(request.header("sec-websocket-key"))
    lines = (
        "HTTP/1.1 101 Switching Protocols", "Connection: Upgrade", "Upgrade: websocket",
        f"Sec-WebSocket-Accept: {accepted}", f"Sec-WebSocket-Protocol: {protocol}",
    )  # fmt: skip
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def _failure(why: str) -> bytes:
    """Return the message of a command that could not be run, or not to its end, and the end of the WebSocket."""
    result = _RESULT + msgspec.json.encode({"status": "Failure", "message": clipped(why, _LONGEST_REASON)})
    close = Frame(Opcode.CLOSE, (1000).to_bytes(2))
    return Frame(Opcode.BINARY, result).serialize(mask=False) + close.serialize(mask=False)


def _refuse(client: socket.socket, request: Request, why: str, clock: Clock) -> None:
    client.settimeout(_HEAD_SECONDS)
    protocol = next(each for each in PROTOCOLS if each in protocols_of(request))
    client.sendall(_head(request, protocol) + _failure(why))
    ClientSocket(client).end(clock)


class _Talk:
    """The bytes of a shell between a browser and a node, on one thread, which reads a side only while the other side
    takes what was read before.
    """

    def __init__(self, browser: ClientSocket, node: ClientSocket, clock: Clock) -> None:
        self._browser = browser
        self._node = node
        self._clock = clock
        self._bounds = FrameBounds()
        self._input = FrameBounds(masked=True)
        self._typed = clock.monotonic()
        """When the browser has sent data last; a node could have a pong for each ping."""

    def run(self, typed: bytes, said: bytes, end_of: Callable[[bool], str]) -> str:
        """Pass bytes on until one of the sides ends; return why the shell was ended here, "" if it was not.

        Args:
            typed: bytes that the browser has sent already.
            said: bytes that the node has sent already.
            end_of: is asked every `CHECK_SECONDS`; see `_end_of`.

        Raises:
            OSError: a side has gone.
        """
        try:
            self._to_node(typed)
            self._to_browser(said)
            return self._until_the_end(end_of)
        except BrowserFrameError as error:
            return str(error)

    def _until_the_end(self, end_of: Callable[[bool], str]) -> str:
        checked = self._clock.monotonic()
        why = ""
        while True:
            taken = self._forward_input()
            if taken is None:
                return ""
            now = self._clock.monotonic()
            if now - checked >= CHECK_SECONDS:  # before the output: what answers an input comes after its use is noted
                why = end_of(self._typed >= checked)
                checked = now
            if not why and now - self._typed >= IDLE_SECONDS:
                why = f"nothing was typed for {IDLE_SECONDS / 60:g} minutes"
            if why:
                return self._ended(why)
            given = self._give_output()
            if given is None:
                return ""
            if not taken and not given:
                self._wait(CHECK_SECONDS)

    def _forward_input(self) -> bool | None:
        """Move bytes to the node; return whether there were any, None at the end of the browser."""
        if self._node.writes:
            return self._node.write() > 0
        data = self._browser.read(_READ_BYTES)
        if data == b"":
            return None
        if data:
            self._to_node(data)
        return bool(data)

    def _give_output(self) -> bool | None:
        """Move bytes to the browser; return whether there were any, None at the end of the node."""
        if self._browser.writes:
            return self._browser.write() > 0
        said = self._node.read(_READ_BYTES)
        if said == b"":
            self._browser.end(self._clock)
            return None
        if said:
            self._to_browser(said)
        return bool(said)

    def _to_node(self, typed: bytes) -> None:
        before = self._input.frames
        self._input.check(typed)
        if self._input.frames > before:
            self._typed = self._clock.monotonic()
        self._node.write(typed)

    def _to_browser(self, said: bytes) -> None:
        self._bounds.check(said)
        self._browser.write(said)

    def _wait(self, seconds: float) -> None:
        poll = select.poll()
        for side, other in ((self._browser, self._node), (self._node, self._browser)):
            events = (0 if other.writes else select.POLLIN) | (select.POLLOUT if side.writes else 0)
            if events:
                poll.register(side, events)
        poll.poll(seconds * 1000)

    def _ended(self, why: str) -> str:
        """Tell the browser why its shell ends, if that can be said between two messages of the node."""
        if self._bounds.is_between and not self._browser.writes:
            self._browser.write(_failure(why))
            self._browser.end(self._clock)
        return why
