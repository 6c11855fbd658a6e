"""`/exec`, `/attach`, `/portForward` and `/run`: a kubelet's paths into containers.

The runtime has a streaming server on the loopback interface and returns an address that works once. The client's
connection is relayed to it, so that a client needs to reach edgecore only; with `redirectContainerStreaming` (the
kubelet's former flag, which KubeEdge 2019 has) the client is redirected to the address.

Any page in a browser could open such a connection, so requests with an `Origin` are refused.

The relay changes no byte, so that client and runtime may use new versions of SPDY and WebSocket; it only looks for the
last frame of the runtime (`UpgradedEnd`), without which the client's connection is reset. One thread serves both
directions and buffers at most one read of each: it does not read for a side that does not receive. Each side may end
its own direction. Both connections are closed when both directions have ended, when one has ended and the other is
silent for `LINGER`, or when both are silent for the idle time (`streamingConnectionIdleTimeout`).
"""

import contextlib
import logging
import select
import socket
from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

import msgspec

from beehive import Clock
from beehive.http.errors import HttpStatusError
from beehive.http.lingering_close import reset_at_close
from beehive.http.request import Request
from beehive.http.responses import Reply, Response, Takeover, json, text
from beehive.http.upgraded_end import UpgradedEnd
from edged.cri.contract import ContainerRuntime, SandboxId, Streams
from edged.pods.labels import POD_UID
from edged.server.pod_lookup import find_pod, running_container
from edged.server.snapshots import Snapshots
from modules.apimachinery.types import Pod
from protos.cri.v1 import api_pb2 as cri

RUN_SECONDS = 120
"""Timeout of a command of `/run`, which has no streams."""

METHODS = ("GET", "POST")
"""Methods that begin a stream: WebSocket uses GET, SPDY either."""

_MOST_PORTS = 32

Url = Callable[[ContainerRuntime, Pod, Request], str]

_log = logging.getLogger(__name__)

LINGER: Final = 30.0
"""Seconds that one direction may be silent after the other has ended."""
CONNECT_SECONDS: Final = 5.0
_READ_BYTES: Final = 64 * 1024
_PASSED_ON: Final = ("connection", "upgrade", "x-stream-protocol-version", "user-agent", "content-length")
"""Headers that are forwarded, beside WebSocket's; not the client's credentials."""


class StreamingSettings(msgspec.Struct, frozen=True):
    """Settings of streams."""

    redirect: bool = False
    """Redirect clients to the runtime's address instead of relaying their connections."""
    idle: float = 4 * 3600.0
    """Seconds without data after which a stream ends."""


class StreamingHandlers:
    """Handlers of exec, attach, port-forward and run."""

    def __init__(self, snapshots: Snapshots, clock: Clock, settings: StreamingSettings) -> None:
        self._snapshots = snapshots
        self._clock = clock
        self._settings = settings

    def serve(self, request: Request, url_of: Url) -> Reply:
        """Relay the connection to the streaming address that `url_of` gets from the runtime."""
        _refuse_pages(request)
        if not request.header("upgrade"):
            raise HttpStatusError(400, "a stream begins with an upgrade", request.path, "to SPDY/3.1 or websocket")
        pod = find_pod(self._snapshots.pods, request.parts[1], request.parts[2], _uid(request.parts))
        with self._snapshots.calling() as runtime:
            url = url_of(runtime, pod, request)
        if not url.isprintable() or " " in url:
            raise HttpStatusError(502, "the runtime's streaming address cannot be read")
        if self._settings.redirect:
            return Response(302, "text/plain; charset=utf-8", b"", location=url)
        server = connect(url)

        def carry_on(client: socket.socket) -> None:
            relay(client, server, forwarded_head(request, url), self._clock, self._settings.idle, UpgradedEnd())

        return Takeover(carry_on, server.close)

    def run(self, request: Request) -> Response:
        """Run a command to its end and answer with its output; `cmd` is split at blanks, as a kubelet does.

        Beyond the kubelet: `command` for each word, and with `Accept: application/json` output, errors and exit code
        apart, so that `edgecore exec` works on a runtime without streams.
        """
        _refuse_pages(request)
        if request.method != "POST":
            raise HttpStatusError(405, "only POST runs a command")
        _, namespace, name, *_, container = request.parts
        which = running_container(find_pod(self._snapshots.pods, namespace, name, _uid(request.parts)), container)
        with self._snapshots.calling() as runtime:
            words = request.all("command") or tuple(request.first("cmd").split(" "))
            result = runtime.exec_sync(which, words, RUN_SECONDS)
        if request.header("accept") == "application/json":
            return json(msgspec.json.encode(result._asdict()))
        output = result.stdout + result.stderr
        if result.exit_code:
            return text(500, f"the command ended with {result.exit_code}: {output.decode(errors='replace')}")
        return Response(200, "text/plain; charset=utf-8", output)


def _uid(parts: tuple[str, ...]) -> str:
    """Return the pod's uid of a path that has one; empty otherwise."""
    without = 3 if parts[0] == "portForward" else 4
    return parts[3] if len(parts) > without else ""


def exec_url(runtime: ContainerRuntime, pod: Pod, request: Request) -> str:
    """Return the address of a command's streams; the query has `command` once for each of its words."""
    command = request.all("command")
    if not command:
        raise HttpStatusError(400, "a command is required", request.path, "?command=ls&command=-l")
    return runtime.exec_url(running_container(pod, request.parts[-1]), command, streams_of(request))


def attach_url(runtime: ContainerRuntime, pod: Pod, request: Request) -> str:
    """Return the address of the streams of a container's main process."""
    return runtime.attach_url(running_container(pod, request.parts[-1]), streams_of(request))


def port_forward_url(runtime: ContainerRuntime, pod: Pod, request: Request) -> str:
    """Return the address of port forwarding into the pod's sandbox; WebSocket names its ports here, SPDY later."""
    uid = pod.metadata.uid
    ready = cri.PodSandboxFilter(label_selector={POD_UID: uid}, state=cri.PodSandboxStateValue(state=cri.SANDBOX_READY))
    sandboxes = sorted(runtime.list_pod_sandboxes(ready), key=lambda each: (each.metadata.attempt, each.created_at))
    if not sandboxes:
        about = f"{pod.metadata.namespace}/{pod.metadata.name}"
        raise HttpStatusError(400, "the pod does not run", about, "it has no sandbox that is ready")
    return runtime.port_forward_url(SandboxId(sandboxes[-1].id), ports_of(request))


def streams_of(request: Request) -> Streams:
    """Return the requested streams, by the kubelet's names or the API server's; a terminal includes stderr.

    Raises:
        HttpStatusError: 400; no stream is requested.
    """
    stdin = request.flag("input") or request.flag("stdin")
    stdout = request.flag("output") or request.flag("stdout")
    tty = request.flag("tty")
    stderr = (request.flag("error") or request.flag("stderr")) and not tty
    if not (stdin or stdout or stderr):
        raise HttpStatusError(400, "a stream is required", request.path, "one of input=1, output=1, error=1")
    return Streams(stdin=stdin, stdout=stdout, stderr=stderr, tty=tty)


def ports_of(request: Request) -> tuple[int, ...]:
    """Return the ports of the query.

    Raises:
        HttpStatusError: 400; one of them is no port number, or they are too many.
    """
    texts = [text for value in request.all("port") for text in value.split(",")]
    ports = tuple(int(text) for text in texts if text.isascii() and text.isdecimal() and len(text) <= 5)
    if len(ports) != len(texts) or len(ports) > _MOST_PORTS or not all(0 < port < 65_536 for port in ports):
        raise HttpStatusError(400, "the ports cannot be read", request.path, f"?port=80, at most {_MOST_PORTS} times")
    return ports


def _refuse_pages(request: Request) -> None:
    if request.header("origin"):
        raise HttpStatusError(403, "pages of browsers are not served", request.path)


def connect(url: str) -> socket.socket:
    """Return a connection to a streaming server.

    Raises:
        HttpStatusError: 502; the server cannot be reached, or its URL is not plain HTTP.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or 80
    except ValueError:
        raise HttpStatusError(502, "the runtime's streaming address cannot be read") from None
    if parts.scheme != "http" or not host:
        hint = "redirectContainerStreaming lets clients go there themselves"
        raise HttpStatusError(502, "the runtime's streaming server is not plain HTTP", parts.scheme, hint)
    try:
        return socket.create_connection((host, port), CONNECT_SECONDS)
    except OSError as error:
        raise HttpStatusError(
            502, "the runtime's streaming server does not answer", f"{host}:{port}", str(error)
        ) from error


def forwarded_head(request: Request, url: str) -> bytes:
    """Return the request for the streaming server, with the bytes that the client sent after its own."""
    parts = urlsplit(url)
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    lines = [f"{request.method} {target} HTTP/1.1", f"Host: {parts.netloc}"]
    passed = [each for each in request.headers if each[0] in _PASSED_ON or each[0].startswith("sec-websocket-")]
    lines += [f"{name}: {value}" for name, value in passed]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + request.rest


class _Direction:
    """One direction of the relay: source, target, and the bytes read but not yet written."""

    def __init__(
        self,
        source: socket.socket,
        target: socket.socket,
        first: bytes = b"",
        end: UpgradedEnd | None = None,
    ) -> None:
        self.source, self.target = source, target
        self._end = end or UpgradedEnd("")
        self._held = memoryview(first)
        self._ended = self.over = False

    @property
    def reads(self) -> bool:
        """Whether it waits to read."""
        return not self._held and not self._ended

    @property
    def writes(self) -> bool:
        """Whether it waits to write."""
        return bool(self._held)

    def read(self) -> None:
        """Read once from the source."""
        with contextlib.suppress(BlockingIOError):
            data = self.source.recv(_READ_BYTES)
            self._end.receive(data)
            self._held, self._ended = memoryview(data), not data

    def write(self) -> None:
        """Write as much as the target accepts; end the target's direction after the last byte. Bytes for a target that
        has gone are dropped: what it has sent before is still on its way, and unread bytes would reset the source's
        connection.

        Raises:
            ConnectionAbortedError: the source has ended before its protocol's end.
        """
        if self._held:
            try:
                self._held = self._held[self.target.send(self._held) :]
            except BlockingIOError:
                pass
            except OSError:
                self._held = memoryview(b"")
        if self._ended and not self._held and not self.over:
            self.over = True
            if not self._end.is_whole:
                raise ConnectionAbortedError("the stream has no end")
            with contextlib.suppress(OSError):
                self.target.shutdown(socket.SHUT_WR)


def relay(
    client: socket.socket,
    server: socket.socket,
    first: bytes,
    clock: Clock,
    idle: float,
    end: UpgradedEnd | None = None,
) -> None:
    """Relay bytes until both directions end or are silent; the caller closes the sockets.

    Args:
        client: connection from the client.
        server: connection to the runtime.
        first: bytes that the server receives before the client's.
        clock: for the idle time.
        idle: seconds of silence after which the connection is given up.
        end: reads the server's bytes, as one that is killed ends politely; None: any end is one.

    Raises:
        OSError: one of the connections has broken off; the other is reset, too, when it is closed.
    """
    client.settimeout(0)
    server.settimeout(0)
    is_whole = False
    try:
        is_whole = _relay((_Direction(client, server, first), _Direction(server, client, end=end)), clock, idle)
    finally:
        if not is_whole:
            reset_at_close(client)
            reset_at_close(server)


def _relay(directions: tuple[_Direction, _Direction], clock: Clock, idle: float) -> bool:
    """Relay bytes; return whether those of the server have come to their end. Raise OSError."""
    last = clock.monotonic()
    while not all(each.over for each in directions):
        longest = LINGER if any(each.over for each in directions) else idle
        left = last + longest - clock.monotonic()
        if left <= 0 or not _serve(directions, left):
            _log.debug("a stream to the runtime was closed: no data for %g s", longest)
            return directions[1].over
        last = clock.monotonic()
    return True


def _serve(directions: tuple[_Direction, ...], seconds: float) -> bool:
    """Wait for a readable or writable socket and move bytes; return False after a timeout. Raise OSError."""
    events_of: dict[int, int] = {}
    actions: list[tuple[int, int, Callable[[], None]]] = []
    for each in directions:
        for waits, one, event, action in (
            (each.reads, each.source, select.POLLIN, each.read),
            (each.writes, each.target, select.POLLOUT, each.write),
        ):
            if waits:
                events_of[one.fileno()] = events_of.get(one.fileno(), 0) | event
                actions.append((one.fileno(), event | select.POLLHUP | select.POLLERR, action))
    poll = select.poll()
    for descriptor, events in events_of.items():
        poll.register(descriptor, events)
    ready = dict(poll.poll(seconds * 1000))
    for descriptor, events, action in actions:
        if ready.get(descriptor, 0) & events:
            action()
    for each in directions:
        each.write()
    return bool(ready)
