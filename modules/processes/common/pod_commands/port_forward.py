"""The command `port-forward`: local ports that lead to ports of a pod."""

from __future__ import annotations

import errno
import os
import select
import socket
import threading
from contextlib import ExitStack, closing, suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from beehive.http.authority import authority
from beehive.http.lingering_close import reset_at_close
from beehive.http.spdy import ConnectionEnd, StreamData, StreamEnd
from beehive.printable import clipped
from beehive.whole_numbers import whole_number
from modules.apimachinery.printing.terminal import print_lines
from modules.processes.common.exit_codes import ExitCode
from modules.processes.common.pod_commands.client import NodeClient, report_errors
from modules.processes.common.pod_commands.errors import NodeError
from modules.processes.common.pod_commands.spdy_link import PORT_FORWARD, SpdyLink
from modules.processes.common.pod_commands.target import pod_target

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Sequence

    from beehive.http.spdy import SpdyEvent
    from modules.apimachinery.types import Pod

_BACKLOG: Final = 64
_LOCALHOST: Final = ("127.0.0.1", "::1")
_MOST_PORTS: Final = 65_535

_READ_BYTES: Final = 32 * 1024
_LONGEST_ERROR: Final = 4096


class PortPair(NamedTuple):
    """A local port, and the port of the pod that it leads to."""

    local: int
    """0: any free one."""
    remote: int


class Route(NamedTuple):
    """A listening socket, and the port of the pod that its connections lead to."""

    listening: socket.socket
    port: int


class SpdyPorts:
    """Ports in a pod's network, through the node and its container runtime.

    Each connection has a SPDY connection of its own, so that it outlives neither another one nor a restart of the pod.

    Args:
        server: has the pod.
        target: path of the request.
    """

    def __init__(self, server: NodeClient, target: str) -> None:
        self._server = server
        self._target = target

    def carry(self, client: socket.socket, port: int) -> None:
        """Carry a connection to a port until it ends. Raises NodeError or OSError."""
        with closing(SpdyLink(self._server, self._target, PORT_FORWARD)) as link:
            _Tunnel(link, client, port).run()


class _Tunnel:
    """One connection over SPDY. Nothing is read for a side that has not taken earlier bytes."""

    def __init__(self, link: SpdyLink, client: socket.socket, port: int) -> None:
        self._link = link
        self._client = client
        self._to_client = bytearray()
        self._problem = b""
        self._sends = True
        headers = {"port": str(port), "requestid": "0"}
        self._error = link.streams.open_stream({"streamtype": "error", **headers}, ended=True)
        self._data = link.streams.open_stream({"streamtype": "data", **headers})
        self._open = {self._error, self._data}
        client.settimeout(0)

    def run(self) -> None:
        """Carry bytes until the pod's side has ended.

        Raises:
            NodeError: the pod's side does not take the connection.
            OSError: the client's side broke off.
        """
        while self._open or self._to_client:
            self._link.send()
            ready = self._wait()
            if self._sends and self._client.fileno() in ready:
                self._read_client()
            if self._to_client:
                with suppress(BlockingIOError):
                    del self._to_client[: self._client.send(self._to_client)]
            elif self._link.fileno() in ready or self._link.has_received:
                events = self._link.receive()
                self._handle(events if events is not None else [ConnectionEnd()])
        if self._problem:
            raise NodeError(clipped(self._problem.decode(errors="replace").strip()))

    def _wait(self) -> set[int]:
        poll = select.poll()
        unsent = bool(self._link.streams.unsent)
        if unsent or not self._to_client:  # otherwise its end, which is always reported, would end each wait
            poll.register(self._link, (0 if self._to_client else select.POLLIN) | (select.POLLOUT if unsent else 0))
        wanted = (select.POLLIN if self._sends and not unsent else 0) | (select.POLLOUT if self._to_client else 0)
        if wanted:
            poll.register(self._client, wanted)
        return {descriptor for descriptor, _ in poll.poll(0 if self._link.has_received else None)}

    def _read_client(self) -> None:
        with suppress(BlockingIOError):
            data = self._client.recv(_READ_BYTES)
            self._link.streams.send(self._data, data, last=not data)
            self._sends = bool(data)

    def _handle(self, events: Iterable[SpdyEvent]) -> None:
        for event in events:
            match event:
                case StreamData(self._error, data):
                    self._problem = (self._problem + data)[:_LONGEST_ERROR]
                case StreamData(self._data, data):
                    self._to_client += data
                case StreamEnd(self._data, True) if not self._problem:
                    reset_at_close(self._client)
                    raise ConnectionResetError("the pod's side has not sent all")
                case StreamEnd(stream):
                    self._open.discard(stream)
                case ConnectionEnd():
                    self._open.clear()


class Forwarder:
    """A forwarder of connections, each on a thread of its own; the error of one is a line, and ends no other.

    Args:
        routes: listening sockets and their ports.
        ports: the pod's.
        say: prints an error.
    """

    def __init__(self, routes: Iterable[Route], ports: SpdyPorts, say: Callable[[str], None]) -> None:
        self._say = say
        self._routes = {route.listening.fileno(): route for route in routes}
        self._ports = ports

    def serve(self) -> None:
        """Serve until an exception, such as KeyboardInterrupt, ends it."""
        poll = select.poll()
        for descriptor in self._routes:
            poll.register(descriptor, select.POLLIN)
        while True:
            for descriptor, _ in poll.poll():
                self._accept(self._routes[descriptor])

    def _accept(self, route: Route) -> None:
        try:
            client, _ = route.listening.accept()
        except OSError as error:
            self._say(f"error: no connection can be accepted: {error.strerror}")
            return
        print_lines([f"Handling connection for {route.listening.getsockname()[1]}"])
        threading.Thread(target=self._carry, args=(client, route), daemon=True).start()

    def _carry(self, client: socket.socket, route: Route) -> None:
        local = route.listening.getsockname()[1]
        with client:
            try:
                self._ports.carry(client, route.port)
            except NodeError as error:
                self._say(f"error: forwarding {local} -> {route.port}: {error}")
            except ConnectionRefusedError:
                self._say(f"error: forwarding {local} -> {route.port}: nothing listens there")
            except OSError:
                return


def port_forward(chosen: argparse.Namespace) -> int:
    """Forward until Ctrl-C."""
    with report_errors(chosen.program), ExitStack() as stack:
        if len(chosen.words) < 2:
            raise NodeError(
                "a pod and a port are wanted", hint=f"{chosen.program} port-forward POD 8080:80", usage=True
            )
        word, *ports = chosen.words
        node = chosen.connect(chosen)
        pod = node.pod(pod_target(word, chosen.namespace))
        pairs = [port_pair(text, pod) for text in ports]
        addresses = addresses_of(chosen.address)
        carrier = _ports_of(node, pod)
        routes = [route for pair in pairs for route in listen(pair, addresses, stack)]
        try:
            Forwarder(routes, carrier, node.print_remark).serve()
        except KeyboardInterrupt:
            return ExitCode.OK
    return ExitCode.OK


def _ports_of(node: NodeClient, pod: Pod) -> SpdyPorts:
    """Return the pod's ports. Raises NodeError if the pod does not run."""
    target = node.stream_url("portForward", pod.metadata.namespace, pod.metadata.name)
    SpdyLink(node, target, PORT_FORWARD).close()
    return SpdyPorts(node, target)


def port_pair(text: str, pod: Pod) -> PortPair:
    """Return the ports in `80`, `8080:80` or `:80`; the pod's port may be named as in its containers.

    Raises:
        NodeError: they are no ports.
    """
    before, colon, after = text.partition(":")
    remote = _number(after if colon else before) or _named(after if colon else before, pod)
    local = (0 if before in ("", "0") else _number(before) or -1) if colon else remote
    if not remote or local < 0:
        raise NodeError("these are no ports", text, "8080:80, 80, or :80 for any free local one", usage=True)
    return PortPair(local, remote)


def _number(text: str) -> int:
    """Return a port, or 0."""
    number = whole_number(text, 5) or 0
    return number if number <= _MOST_PORTS else 0


def _named(name: str, pod: Pod) -> int:
    ports = (port for each in pod.spec.all_containers for port in each.ports)
    return next((port.container_port for port in ports if name and port.name == name), 0)


def addresses_of(text: str) -> tuple[str, ...]:
    """Return the addresses of `--address`.

    Raises:
        NodeError: one of them is no IP address.
    """
    found: list[str] = []
    for part in text.split(","):
        if part.strip() == "localhost":
            found += _LOCALHOST
        else:
            found.append(part.strip())
            _family(part.strip())
    return tuple(found)


def _family(address: str) -> socket.AddressFamily:
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, address)
        except OSError:
            continue
        return family
    raise NodeError("this is no address to listen on", address, "an IP address, or localhost", usage=True)


def listen(pair: PortPair, addresses: Sequence[str], stack: ExitStack) -> list[Route]:
    """Listen on a port of each address, and print where. One of localhost's two addresses may be missing.

    Raises:
        NodeError: it cannot be listened on.
    """
    routes: list[Route] = []
    port, failed = pair.local, None
    for address in addresses:
        listening = stack.enter_context(socket.socket(_family(address), socket.SOCK_STREAM))
        try:
            _bind(listening, address, port)
        except OSError as error:
            failed = _refused(address, pair, error)
            if address not in _LOCALHOST or (error.errno == errno.EADDRINUSE and pair.local):
                raise failed from error
            continue
        port = listening.getsockname()[1]
        print_lines([f"Forwarding from {authority(address, port)} -> {pair.remote}"])
        routes.append(Route(listening, pair.remote))
    if failed is not None and not routes:
        raise failed
    return routes


def _bind(listening: socket.socket, address: str, port: int) -> None:
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if listening.family == socket.AF_INET6:
        listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    listening.bind((address, port))
    listening.listen(_BACKLOG)


def _refused(address: str, pair: PortPair, error: OSError) -> NodeError:
    hints = {
        errno.EADDRINUSE: f"another process has it; :{pair.remote} takes any free one",
        errno.EACCES: f"ports below 1024 are root's; :{pair.remote} takes any free one",
    }
    reason = os.strerror(error.errno) if error.errno else str(error)
    hint = hints.get(error.errno or 0, "")
    return NodeError(f"cannot listen on {address}:{pair.local}: {reason}", "", hint)
