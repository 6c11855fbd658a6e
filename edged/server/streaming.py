"""`/exec`, `/attach`, `/portForward` and `/run`: a kubelet's paths into containers.

The runtime has a streaming server on the loopback interface and returns an address that works once. The client's
connection is relayed to it, so that a client needs to reach edgecore only; with `redirectContainerStreaming` (the
kubelet's former flag, which KubeEdge 2019 has) the client is redirected to the address.

Any page in a browser could open such a connection, so requests with an `Origin` are refused.
"""

import socket
from collections.abc import Callable

import msgspec

from beehive import Clock
from beehive.http.errors import HttpStatusError
from beehive.http.request import Request
from beehive.http.responses import Reply, Response, Takeover, json, text
from edged.api import Pod
from edged.cri.contract import ContainerRuntime, SandboxId, Streams
from edged.pods.labels import POD_UID
from edged.server.pod_lookup import find_pod, running_container
from edged.server.proxy import connect, forwarded_head, relay
from edged.server.snapshots import Snapshots
from protos.cri.v1 import api_pb2 as cri

RUN_SECONDS = 120
"""Timeout of a command of `/run`, which has no streams."""

METHODS = ("GET", "POST")
"""Methods that begin a stream: WebSocket uses GET, SPDY either."""

_MOST_PORTS = 32

Url = Callable[[ContainerRuntime, Pod, Request], str]


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
            relay(client, server, forwarded_head(request, url), self._clock, self._settings.idle)

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
        raise HttpStatusError(400, "a command is wanted", request.path, "?command=ls&command=-l")
    return runtime.exec_url(running_container(pod, request.parts[-1]), command, streams_of(request))


def attach_url(runtime: ContainerRuntime, pod: Pod, request: Request) -> str:
    """Return the address of the streams of a container's main process."""
    return runtime.attach_url(running_container(pod, request.parts[-1]), streams_of(request))


def port_forward_url(runtime: ContainerRuntime, pod: Pod, request: Request) -> str:
    """Return the address of port forwarding into the pod's sandbox; WebSocket names its ports here, SPDY later."""
    uid = pod.metadata.uid
    ready = cri.PodSandboxFilter(label_selector={POD_UID: uid}, state=cri.PodSandboxStateValue(state=cri.SANDBOX_READY))
    sandboxes = sorted(runtime.list_pod_sandboxes(ready), key=lambda sandbox: sandbox.created_at)
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
        raise HttpStatusError(400, "a stream is wanted", request.path, "one of input=1, output=1, error=1")
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
