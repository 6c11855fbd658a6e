"""Connections of a forwarded port: over the node to the pod, or straight to a port of this machine."""

from __future__ import annotations

import select
import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from beehive.http.spdy import ConnectionEnd, StreamData, StreamEnd
from beehive.printable import clipped
from modules.processes.common.pod_commands.errors import NodeError
from modules.processes.common.pod_commands.spdy_link import PORT_FORWARD, SpdyLink
from modules.tools.printing.terminal import print_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from beehive.http.spdy import SpdyEvent
    from modules.processes.common.pod_commands.client import NodeClient

_READ_BYTES: Final = 32 * 1024
_LONGEST_ERROR: Final = 4096
_CONNECT_SECONDS: Final = 10.0


class Route(NamedTuple):
    """A listening socket, and the port of the pod that its connections lead to."""

    listening: socket.socket
    port: int


class PodPorts(Protocol):
    """Ports of a pod."""

    def carry(self, client: socket.socket, port: int) -> None:
        """Carry a connection to a port until it ends. Raises NodeError or OSError."""


class DirectPorts:
    """Ports of pods that share this machine's network."""

    def carry(self, client: socket.socket, port: int) -> None:
        """See `PodPorts`."""
        with socket.create_connection(("localhost", port), _CONNECT_SECONDS) as server:
            server.settimeout(None)
            back = threading.Thread(target=_copy, args=(server, client), daemon=True)
            back.start()
            _copy(client, server)
            back.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    """Pass bytes on in one direction until its end, and tell the end."""
    with suppress(OSError):
        while data := source.recv(_READ_BYTES):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


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
        """See `PodPorts`."""
        link = SpdyLink(self._server, self._target, PORT_FORWARD)
        try:
            _Tunnel(link, client, port).run()
        finally:
            link.close()


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
                self._take(events if events is not None else [ConnectionEnd()])
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

    def _take(self, events: Iterable[SpdyEvent]) -> None:
        for event in events:
            match event:
                case StreamData(self._error, data):
                    self._problem = (self._problem + data)[:_LONGEST_ERROR]
                case StreamData(self._data, data):
                    self._to_client += data
                case StreamEnd(stream):
                    self._open.discard(stream)
                case ConnectionEnd():
                    self._open.clear()


class Forwarder:
    """Accepts connections and carries each on a thread of its own; the error of one is a line, and ends no other.

    Args:
        routes: listening sockets and their ports.
        ports: the pod's.
        say: prints an error.
    """

    def __init__(self, routes: Iterable[Route], ports: PodPorts, say: Callable[[str], None]) -> None:
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
