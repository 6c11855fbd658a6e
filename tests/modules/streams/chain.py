"""All layers of a stream in one process: the runtime's streaming server, the node's server, the tunnel between
edgestream and cloudstream, and the embedded API server. The connections' buffers are small.
"""

import re
import select
import socket
import ssl
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, cast
from urllib.parse import urlencode

from beehive import Hive, ModuleName, Threads
from beehive.http.http_server import HttpServer
from beehive.http.listening import listen_tcp, listen_unix
from beehive.http.router import Router
from edged.cri.contract import ContainerId, ContainerRuntime, SandboxId, StreamingUrl, Streams
from edged.server.routes import acting_routes, reading_routes
from edged.server.snapshots import Snapshots
from edged.server.streaming import StreamingSettings
from edgehub.settings import EdgeHubSettings
from edgehub.websocket import WebsocketLink
from modules.apimachinery.types import Pod, from_value
from modules.cloud.apiserver.endpoints.module_caller import ApiCaller
from modules.cloud.apiserver.endpoints.service import ApiService, Requester
from modules.cloud.apiserver.endpoints.subscriptions import Subscriptions
from modules.cloud.client.calls import ApiCall, ApiResult
from modules.cloud.cloudstream.opening import NodeStreams
from modules.edge.edgestream.counters import StreamCounters
from modules.edge.edgestream.module import EdgeStream
from modules.processes.edgecore.edge_stream import node_dialler
from modules.runtimes.streaming import StreamingServer
from modules.streams import credit
from modules.streams.frames import MAX_FRAME
from protos.cri.v1 import api_pb2 as cri
from tests.end_to_end.processes import wait_until
from tests.modules.cloud.cloudstream.sites import Site
from tests.modules.edge.edgestream.beds import registered
from tests.modules.runtimes.streaming.backend import Conmon, LocalBackend
from tests.support.clocks import StandingClock
from tests.support.patience import PATIENCE

BUFFER = 64 * 1024
"""Bytes for which each side of a client's connection has room, about."""
LAYERS = ("runtime", "node", "tunnel", "api")
_POD = {
    "metadata": {"name": "p", "namespace": "n1", "uid": "u"},
    "spec": {"nodeName": "n1", "containers": [{"name": "app", "image": "image"}]},
}


class CountedPoll:
    """A poll object (`select.poll`) whose calls are counted: what waits for nothing calls it again and again."""

    calls = 0
    _make = select.poll

    def __init__(self) -> None:
        self._poll = self._make()

    def poll(self, timeout: float | None = None) -> list[tuple[int, int]]:
        """Wait."""
        CountedPoll.calls += 1
        return self._poll.poll(timeout)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._poll, name)


class Asked(NamedTuple):
    """A stream, as each layer's request names it."""

    kind: str
    """`exec`, `attach`, `portforward`, `proxy` or `log`."""
    command: tuple[str, ...] = ()
    stdin: bool = False
    port: int = 0
    follow: bool = False


class _Runtime:
    """The part of a container runtime that streams and logs want."""

    def __init__(self, streaming: StreamingServer, log: Path) -> None:
        self._streaming = streaming
        self._log = log

    def exec_url(self, container: ContainerId, command: Sequence[str], streams: Streams) -> StreamingUrl:
        request = cri.ExecRequest(container_id=container, cmd=command, stdin=streams.stdin, stdout=streams.stdout)
        return StreamingUrl(self._streaming.exec_url(request))

    def attach_url(self, container: ContainerId, streams: Streams) -> StreamingUrl:
        return StreamingUrl(
            self._streaming.attach_url(cri.AttachRequest(container_id=container, stdout=streams.stdout))
        )

    def port_forward_url(self, sandbox: SandboxId, ports: Sequence[int]) -> StreamingUrl:
        request = cri.PortForwardRequest(pod_sandbox_id=sandbox, port=ports)
        return StreamingUrl(self._streaming.port_forward_url(request))

    def list_pod_sandboxes(self, _filter: cri.PodSandboxFilter) -> list[cri.PodSandbox]:
        return [cri.PodSandbox(id="s")]

    def container_status(self, _container: ContainerId) -> cri.ContainerStatusResponse:
        return cri.ContainerStatusResponse(status=cri.ContainerStatus(log_path=str(self._log)))


class Chain:
    """The layers; a client may connect to each of them.

    Args:
        directory: for files and the node's socket.
        clock: of all layers.
        idle: seconds after which the node's server leaves a silent stream.
    """

    def __init__(self, directory: Path, clock: StandingClock, idle: float = 3600.0) -> None:
        self.clock = clock
        self.backend = LocalBackend()
        self._end_container()
        self.streaming = StreamingServer(self.backend, self.clock)
        self.log = directory / "log"
        self._snapshots = Snapshots()
        self._snapshots.runtime = cast("ContainerRuntime", _Runtime(self.streaming, self.log))
        self.publish(runs=True)
        reading = reading_routes(
            self._snapshots, cast("Any", None), self.clock,
            metrics=lambda: b"", configuration={}, sync_period=60.0,
        )  # fmt: skip
        router = Router(reading + acting_routes(self._snapshots, self.clock, StreamingSettings(idle=idle)))
        self.node = HttpServer(listen_tcp("127.0.0.1", 0), router, self.clock)
        self._owner = HttpServer(listen_unix(directory / "s"), router, self.clock)
        (directory / "cloud").mkdir()
        self.site = Site(directory / "cloud", self.clock)
        nodes = NodeStreams(self.site.tunnels, self.clock)
        service = ApiService(Requester(cast(ApiCaller, self)), Subscriptions(), "v1.32.10", self.clock, nodes=nodes)
        context = self.site.streams._context
        self.api = HttpServer(listen_tcp("127.0.0.1", 0), service, self.clock, context=context)
        self._servers = {
            "runtime": self.streaming, "node": self.node, "tunnel": self.site.streams, "api": self.api,
        }  # fmt: skip
        for each in self._servers.values():
            each._listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER)
        for server in (self.streaming, self.node, self._owner, self.api):
            server.start()
        self._hive = Hive(Threads())
        self._counters = StreamCounters()
        self._hive.add(EdgeStream, self._link, node_dialler(directory / "s"), self._counters)
        self._hive.start()
        self._hive.send(ModuleName.EDGESTREAM, registered(self._hive.clock))
        self.await_tunnel()

    def await_tunnel(self) -> None:
        """Wait until both ends have the tunnel."""
        wait_until(lambda: self.has_tunnel, "the node has its tunnel")

    @property
    def has_tunnel(self) -> bool:
        """Whether both ends have the tunnel."""
        return self.site.tunnels.has("n1") and self._counters.connected

    def close(self) -> None:
        """Stop all."""
        self._hive.stop(PATIENCE)
        self._hive.clock.close()
        for server in (self.api, self._owner, self.node, self.streaming):
            server.stop()
        self.site.close()
        self.clock.close()

    def call(self, call: ApiCall) -> ApiResult:
        """The API server's pods."""
        return ApiResult(_POD) if call.plural == "pods" else ApiResult({"items": []})

    def publish(self, *, runs: bool) -> None:
        """The container's state, as edged has it."""
        state = {"running": {}} if runs else {"terminated": {"exitCode": 0, "containerID": "fake://c"}}
        status = {"containerStatuses": [{"name": "app", "containerID": "fake://c", "state": state}]}
        self._snapshots.pods = (from_value(Pod, {**_POD, "status": status}),)

    @contextmanager
    def attachable(self) -> Iterator[Conmon]:
        """A container for `attach`."""
        self.backend.conmon = Conmon()
        yield self.backend.conmon
        self._end_container()

    def _end_container(self) -> None:
        conmon = self.backend.conmon
        conmon.container.close()
        if not conmon.closed.is_set():
            conmon.close()

    @contextmanager
    def connected(self, layer: str) -> Iterator[socket.socket]:
        """A client's connection to a layer; the cloud's have TLS."""
        with socket.socket() as plain:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
            plain.settimeout(PATIENCE)
            plain.connect(("127.0.0.1", self._servers[layer].port))
            if layer in ("runtime", "node"):
                yield plain
                return
            with self.site.client_context.wrap_socket(plain, suppress_ragged_eofs=False) as secured:
                yield secured

    def url(self, layer: str, asked: Asked) -> str:
        """The address of a stream at a layer."""
        if layer == "runtime":
            return self._at_the_runtime(asked)
        of_api = layer == "api"
        pod = "/api/v1/namespaces/n1/pods/p" if of_api else ""
        words = [urlencode({"command": word}) for word in asked.command]
        match asked.kind:
            case "log":
                path = f"{pod}/log" if of_api else "/containerLogs/n1/p/app"
                words += ["follow=true"] if asked.follow else []
            case "proxy":
                path = f"{pod}:{asked.port}/proxy/"
            case "portforward":
                path = f"{pod}/portforward" if of_api else "/portForward/n1/p"
                words += [f"{'ports' if of_api else 'port'}={asked.port}"] if asked.port else []
            case kind:
                path = f"{pod}/{kind}" if of_api else f"/{kind}/n1/p/app"
                words += ["stdout=true"] if of_api else ["output=1"]
                words += [("stdin=true" if of_api else "input=1")] if asked.stdin else []
        return f"http://127.0.0.1:{self._servers[layer].port}{path}?{'&'.join(words)}"

    def cut(self, layer: str) -> None:
        """End the connections of a layer, as when its process is killed; the tunnel is dialled again."""
        if layer == "tunnel":
            [tunnel] = self.site.tunnels._by_node.values()
            tunnel.link.close()
            return
        for server in (self.node, self._owner) if layer == "node" else (self._servers[layer],):
            server._open.end_all()

    def held(self) -> Counter[str]:
        """What streams may leave behind: descriptors, threads, entries, processes. Of other tests some may go at any
        time, as what the garbage collector finds.
        """
        running = [each for each in self.backend.processes if each._process.poll() is None]
        return Counter(
            [
                *self.descriptors(),
                *(f"thread {each.name}" for each in threading.enumerate() if each.name != "clock"),
                *(f"stream {each}" for each in range(self.site.tunnels.streams())),
                *(f"process {each}" for each in running),
            ]
        )

    def descriptors(self) -> list[str]:
        """What each descriptor of this process is of, without numbers, which change with each connection."""
        return sorted(re.sub(r"\d+", "", str(each)) for each in _descriptors())

    @property
    def is_log_open(self) -> bool:
        """Whether the log of this chain is read; tests before may have logs of others open."""
        return self.log.resolve() in _descriptors()

    def _at_the_runtime(self, asked: Asked) -> str:
        match asked.kind:
            case "exec":
                request = cri.ExecRequest(container_id="c", cmd=asked.command, stdin=asked.stdin, stdout=True)
                return self.streaming.exec_url(request)
            case "attach":
                return self.streaming.attach_url(cri.AttachRequest(container_id="c", stdout=True))
        ports = [asked.port] if asked.port else []
        return self.streaming.port_forward_url(cri.PortForwardRequest(pod_sandbox_id="s", port=ports))

    def _link(self) -> WebsocketLink:
        settings = EdgeHubSettings(
            url=f"wss://127.0.0.1:{self.site.server.address[1]}/v1/kubeedge/connect",
            node="n1", max_frame_bytes=MAX_FRAME, read_deadline=PATIENCE, write_deadline=PATIENCE,
        )  # fmt: skip
        headers = {"SessionHostNameOverride": "n1", "SessionInternalIP": "127.0.0.1", credit.HEADER: credit.VERSION}
        context: Callable[[], ssl.SSLContext] = lambda: self.site.of_node("n1")  # noqa: E731
        return WebsocketLink(settings, self._hive.clock, context, headers)


def _descriptors() -> list[Path]:
    found = []
    for each in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # the directory's own
            found.append(each.readlink())
    return found
