"""The connections that a server has accepted: their number, in all and for an address, and who makes room."""

import logging
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from enum import Enum, auto
from ipaddress import IPv6Address
from typing import Final, NamedTuple

import msgspec

from beehive.clock import Clock
from beehive.http.lingering_close import reset_now

_log = logging.getLogger(__name__)

_FRESH_SECONDS: Final = 1.0
"""Seconds within which a client sends its request, unless it is slow or never sends one."""
_LOG_SECONDS: Final = 60.0
"""Seconds between two log lines about connections that were closed."""
_FEW: Final = 16
"""A client with less than this part of the streams may use the last quarter of them."""
_PRIVILEGED: Final = 8
"""The last part of the streams, which only privileged clients may use."""


class Phase(Enum):
    """The state of a connection."""

    UNFINISHED = auto()
    """Its request has not been received to the end."""
    ANSWERED = auto()
    """Its whole request was received."""
    IDLE = auto()
    """It waits for another request."""
    STREAM = auto()
    """It carries a stream; streams are bounded by `StreamShares`."""


class Client(NamedTuple):
    """Who asks, as bounds that several clients share tell them apart. Nothing in it may be of the client's choice."""

    name: str
    """Of its share; "" for clients that cannot be told apart."""
    is_privileged: bool = False
    """Whether it may use what is reserved for those who keep the others' programs alive: administrators, nodes."""


class OpenConnection(msgspec.Struct, eq=False):
    """One client's connection."""

    address: str
    """Of the client, as `address_of` returns it."""
    socket: socket.socket
    since: float
    """Monotonic seconds of the start of the present phase."""
    phase: Phase = Phase.UNFINISHED
    credentials: str = ""
    """The header `Authorization` of the last request."""
    is_ended: bool = False
    is_upgraded: bool = False
    """Whether it carries another protocol, in which a client may take any end for that of a whole stream."""

    def end(self) -> None:
        """End the connection, also while its thread waits for it; one that is upgraded is reset."""
        self.is_ended = True
        if self.is_upgraded and reset_now(self.socket):
            return
        try:
            socket.socket.shutdown(self.socket, socket.SHUT_RDWR)  # SSLSocket's would let plain text out
        except OSError:
            _log.debug("a connection of %s had ended already", self.address)


class OpenConnections:
    """The open connections of a server that any client may connect to. Thread-safe.

    When a new connection exceeds a bound, another one makes room: of the same address if that has reached its bound,
    otherwise of the address with the most that could. The oldest that has sent no whole request within a second goes
    first, then whichever has waited longest for another request, then the oldest without a whole request. A new
    connection is refused only while all others are answered. So clients that send nothing, or a byte now and then,
    keep no other client out.

    Args:
        name: of the server, for the log.
        clock: for deadlines.
        most: open connections in all, without streams.
        of_address: open connections of one address, without streams.
        also: further connections of the server's own kind, such as streams, which may be open at the same time.
    """

    def __init__(self, name: str, clock: Clock, most: int, of_address: int, also: int = 0) -> None:
        self.name = name
        self._monotonic = clock.monotonic
        self._most = most
        self._of_address = of_address
        self._most_threads = 2 * most + also
        self._lock = threading.Lock()
        self._open: dict[OpenConnection, None] = {}
        self._logged_at = -_LOG_SECONDS

    def __len__(self) -> int:
        return len(self._open)

    def accept(self, address: str, accepted: socket.socket) -> OpenConnection | None:
        """Add an accepted connection, or return None when none can make room for it."""
        connection = OpenConnection(address, accepted, self._monotonic())
        with self._lock:
            if len(self._open) >= self._most_threads or not self._make_room(address):
                self._log_closed(f"the one of {address or 'this machine'} that has come last")
                return None
            self._open[connection] = None
        return connection

    def replace_socket(self, connection: OpenConnection, secure: socket.socket) -> None:
        """Replace the socket by its TLS socket; end it if the connection was ended meanwhile."""
        connection.socket = secure
        if connection.is_ended:
            connection.end()

    def enter(self, connection: OpenConnection, phase: Phase) -> bool:
        """Begin a phase, and return whether the connection is still open."""
        with self._lock:
            connection.phase = phase
            connection.since = self._monotonic()
            return not connection.is_ended

    def remove(self, connection: OpenConnection) -> None:
        """Remove a connection whose thread has ended."""
        with self._lock:
            self._open.pop(connection, None)

    def end_overdue(self, seconds: float) -> None:
        """End the connections whose present phase has lasted so long."""
        now = self._monotonic()
        with self._lock:
            for connection in self._open:
                if now - connection.since >= seconds:
                    connection.end()

    def end_one(self) -> bool:
        """End a connection as for a new one; return whether one could be."""
        with self._lock:
            return self._end_one(self._counted())

    def end_where(self, ends: Callable[[OpenConnection], bool]) -> None:
        """End the connections that `ends` selects, in every phase."""
        with self._lock:
            found = list(self._open)
        for connection in found:
            if ends(connection):
                connection.end()

    def end_all(self) -> None:
        """End all connections."""
        with self._lock:
            for connection in self._open:
                connection.end()

    def _counted(self) -> list[OpenConnection]:
        return [each for each in self._open if not each.is_ended and each.phase is not Phase.STREAM]

    def _make_room(self, address: str) -> bool:
        present = self._counted()
        same = [each for each in present if each.address == address]
        if len(same) >= self._of_address:
            return self._end_one(same)
        return len(present) < self._most or self._end_one(present)

    def _end_one(self, present: Iterable[OpenConnection]) -> bool:
        could = [each for each in present if each.phase in (Phase.UNFINISHED, Phase.IDLE)]
        if not could:
            return False
        count = Counter(each.address for each in could)
        most = max(count.values())
        now = self._monotonic()

        def turn(connection: OpenConnection) -> tuple[int, float]:
            if connection.phase is Phase.IDLE:
                return 1, connection.since
            return (0 if now - connection.since >= _FRESH_SECONDS else 2), connection.since

        chosen = min((each for each in could if count[each.address] == most), key=turn)
        chosen.end()
        waited = "waited for another request" if chosen.phase is Phase.IDLE else "sent no whole request"
        self._log_closed(f"one of {chosen.address or 'this machine'} that has {waited}")
        return True

    def _log_closed(self, closed: str) -> None:
        """Log a connection that was closed, once a minute."""
        now = self._monotonic()
        if now - self._logged_at >= _LOG_SECONDS:
            self._logged_at = now
            _log.warning("%s: %d connections are open; closed is %s", self.name, len(self._open), closed)


class StreamShares:
    """The streams of a server, bounded in number. Thread-safe.

    The last quarter of them is for clients that have few: so one client cannot have all. Of that the last half is for
    privileged clients: so others cannot have all of it, however many they are.

    Args:
        most: streams at a time.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._lock = threading.Lock()
        self._of_client: Counter[str] = Counter()

    def acquire(self, client: Client) -> bool:
        """Count a stream of a client, and return True; False if there are too many."""
        with self._lock:
            count = self._of_client.total()
            most = self.most if client.is_privileged else self.most - self.most // _PRIVILEGED
            has_few = not client.name or self._of_client[client.name] < max(1, self.most // _FEW)
            if count >= most or (count >= self.most - self.most // 4 and not has_few):
                return False
            self._of_client[client.name] += 1
            return True

    def release(self, client: Client) -> None:
        """Count a stream of a client no more."""
        with self._lock:
            self._of_client[client.name] -= 1
            if not self._of_client[client.name]:
                del self._of_client[client.name]


def address_of(connection: socket.socket) -> str:
    """Return the address of a connection's peer as `network_of` does, "" on a unix socket."""
    address = peer_address(connection)
    return network_of(address) if address else ""


def peer_address(connection: socket.socket) -> str:
    """Return the IP address of a connection's peer, "" on a unix socket, and of one that has gone."""
    try:
        peer = connection.getpeername()
    except OSError:
        return ""
    return str(peer[0]) if isinstance(peer, tuple) else ""


def network_of(host: str) -> str:
    """Return an address of IPv4 or of this machine, or the network of an IPv6 address: a host may have all addresses of
    a /64 network (RFC 4291).
    """
    if ":" not in host:
        return host
    address = IPv6Address(host.partition("%")[0])
    if address.is_loopback:
        return host
    return str(address.ipv4_mapped or f"{IPv6Address(int(address) >> 64 << 64)}/64")
