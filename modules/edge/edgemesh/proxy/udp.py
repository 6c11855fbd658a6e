"""The clients of one UDP Service through the proxy: each has a socket of its own to its endpoint."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final, Protocol

from modules.edge.edgemesh.proxy.affinity import ClientAffinity
from modules.edge.edgemesh.tables import Address, PortTable

SILENT_SECONDS: Final = 30.0
"""After which a client that sends nothing is forgotten."""
MOST_CLIENTS: Final = 256
A_TURN: Final = 64
"""Datagrams that are moved before others have their turn."""
_LARGEST: Final = 65535


class WatchedClients(Protocol):
    """The sockets of all clients, with the one poll that watches them."""

    def has_room_for_client(self) -> bool:
        """Return whether there may be one more client."""

    def watch_client(self, client: socket.socket, answer: Callable[[], None]) -> None:
        """Watch the socket of a client for answers of its endpoint. Raises OSError."""

    def forget_client(self, client: socket.socket) -> None:
        """Stop watching the socket of a client."""


class UdpClients:
    """The clients of one port. The proxy's thread calls everything here.

    Args:
        listening: the socket that clients send to.
        table: of the port.
        watched: watches the socket of each new client.
        affinity: chooses endpoints.
    """

    def __init__(
        self,
        listening: socket.socket,
        table: PortTable,
        watched: WatchedClients,
        affinity: ClientAffinity,
    ) -> None:
        self.listening = listening
        self.table = table
        self._watched = watched
        self._affinity = affinity
        self._clients: dict[Any, tuple[socket.socket, Address, float]] = {}

    def forward(self, now: float) -> None:
        """Pass on what clients have sent."""
        for _ in range(A_TURN):
            try:
                data, source = self.listening.recvfrom(_LARGEST)
            except OSError:
                return
            client = self._client(source, now)
            if client is not None:
                try:
                    client.send(data)
                except BlockingIOError:
                    pass  # datagrams may be lost
                except OSError:
                    self._forget(source)  # its endpoint refuses: the next datagram goes to another one

    def answer(self, client: socket.socket, source: Any) -> None:
        """Pass on the answers of an endpoint."""
        for _ in range(A_TURN):
            try:
                data = client.recv(_LARGEST)
            except BlockingIOError:
                return
            except OSError:
                self._forget(source)
                return
            with suppress(OSError):
                self.listening.sendto(data, source)

    def set_table(self, table: PortTable) -> None:
        """Take new endpoints; clients whose endpoint serves no more get another one."""
        self.table = table
        for source in [each for each, (_, to, _) in self._clients.items() if to not in table.serving]:
            self._forget(source)

    def expire(self, now: float) -> None:
        """Forget clients that are silent."""
        for source in [each for each, (_, _, at) in self._clients.items() if now - at >= SILENT_SECONDS]:
            self._forget(source)

    def close(self) -> None:
        """End."""
        for source in list(self._clients):
            self._forget(source)
        self.listening.close()

    def _client(self, source: Any, now: float) -> socket.socket | None:
        known = self._clients.get(source)
        if known is not None:
            self._clients[source] = (known[0], known[1], now)
            return known[0]
        endpoints = self._affinity.order(self.table, source[0], now)
        if not endpoints:
            return None
        has_room = self._watched.has_room_for_client()
        if len(self._clients) >= MOST_CLIENTS or (self._clients and not has_room):
            self._forget(self._least_needed())
        elif not has_room:
            return None
        to = endpoints[0]
        self._affinity.record(self.table, source[0], to, now)
        try:
            client = socket.socket(socket.AF_INET6 if ":" in to[0] else socket.AF_INET, socket.SOCK_DGRAM)
        except OSError:
            return None
        client.settimeout(0)
        try:
            client.connect(to)
            self._watched.watch_client(client, partial(self.answer, client, source))
        except OSError:
            client.close()
            return None
        self._clients[source] = (client, to, now)
        return client

    def _least_needed(self) -> Any:
        """Return the client that has been silent longest, of all clients at the address with the most: each port of an
        address is a client, and many ports must not displace the clients of other addresses.
        """
        held = Counter(source[0] for source in self._clients)
        most = max(held.values())
        return min((each for each in self._clients if held[each[0]] == most), key=lambda each: self._clients[each][2])

    def _forget(self, source: Any) -> None:
        gone = self._clients.pop(source, None)
        if gone is not None:
            self._watched.forget_client(gone[0])
            gone[0].close()
