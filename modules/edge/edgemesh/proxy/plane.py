"""A `DataPlane` of sockets of this process, on one thread.

With root it listens on the ClusterIPs, which a route makes addresses of the node. Without root each Service has an
address of 127.0.0.0/8, where anybody may listen: programs of the node reach it, such as processes of the embedded
runtime. Endpoints see connections from the node. Where there is no endpoint nothing listens, so that connections are
refused.
"""

import errno
import hashlib
import ipaddress
import logging
import random
import resource
import select
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import ExitStack, closing
from functools import partial
from operator import attrgetter
from typing import Final

from beehive import Clock
from beehive.files.descriptors import SHORTAGES
from beehive.on_failure import on_failure
from beehive.wakeup import Wakeup
from modules.edge.edgemesh.nft.addresses import AddressError, HostAddresses
from modules.edge.edgemesh.nft.watch import RulesWatch
from modules.edge.edgemesh.plane import PlaneError, Tables
from modules.edge.edgemesh.proxy.affinity import ClientAffinity
from modules.edge.edgemesh.proxy.relay import DESCRIPTORS, Relay, reset
from modules.edge.edgemesh.proxy.udp import UdpClients
from modules.edge.edgemesh.tables import Address, PortTable, target_to

_log = logging.getLogger(__name__)

MOST_CONNECTIONS: Final = 1024
MOST_OF_A_SERVICE: Final = 256
MOST_UDP_CLIENTS: Final = 1024
OPEN_FILES: Final = 16_384
"""Open files that the process allows itself, if it may; the proxy takes half of its limit."""
HIGH_PORTS: Final = 20_000
"""Added to ports below 1024, which only root may listen on."""
APPLY_SECONDS: Final = 30.0
TICK_SECONDS: Final = 0.5
"""Between two looks at deadlines, while there are any."""
_PRIVILEGED: Final = 1024
_BACKLOG: Final = 128
_EDGES: Final = select.EPOLLIN | select.EPOLLOUT | select.EPOLLRDHUP | select.EPOLLET


def listen_address(table: PortTable) -> Address:
    """Return where the proxy listens for a port of a Service without root: at an address that its name gives."""
    digest = hashlib.sha256(f"{table.namespace}/{table.service}".encode()).digest()
    port = table.port if table.port >= _PRIVILEGED else table.port + HIGH_PORTS
    return f"127.{96 + digest[2] % 32}.{digest[0]}.{digest[1] % 254 + 1}", port


def _most_descriptors() -> int:
    """Return how many descriptors the proxy may have, after allowing this process more of them: clients that open
    connections must not take the descriptors of other modules.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    return (OPEN_FILES if soft == resource.RLIM_INFINITY else soft) // 2


def _is_reached(table: PortTable) -> bool:
    """Return whether somebody may answer: an endpoint, or a former one of UDP clients."""
    return bool(table.inside.packed or (table.protocol == "udp" and table.serving))


def _carry_out(step: Callable[[], None]) -> None:
    try:
        step()
    except Exception:  # noqa: BLE001 - one connection must not end those of all Services
        _log.exception("a connection through the proxy failed")


class ProxyPlane:
    """See the module.

    Args:
        clock: for deadlines and choices.
        addresses: of the machine.
        service_cidrs: ranges of Services' addresses.
    """

    kind: Final = "userspace"

    def __init__(self, clock: Clock, addresses: HostAddresses, service_cidrs: Iterable[str]) -> None:
        self._clock = clock
        self._addresses = addresses
        self._cidrs = tuple(each for each in service_cidrs if ":" not in each)
        self._ranges = [ipaddress.ip_network(each) for each in self._cidrs]
        self._has_route = False
        self._affinity = ClientAffinity(random.Random(clock.random.random()))  # noqa: S311 - endpoints are no secrets
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._commands: list[Callable[[], None]] = []
        self._stopping = False
        self._listeners: dict[str, socket.socket | UdpClients] = {}
        self._tables: dict[str, PortTable] = {}
        self._taken: set[str] = set()
        """Ports of Services whose address an older Service has."""
        self._handlers: dict[int, Callable[[], None]] = {}
        self._relays: dict[Relay, tuple[str, str]] = {}
        """With the Service and the client's address of each, the oldest first."""
        self._beginning: set[Relay] = set()
        """Those whose endpoint has yet to answer."""
        self._resting: list[socket.socket] = []
        """Listening sockets that are not looked at for a while, because no connection could be accepted."""
        self._most = 0
        self._udp_clients = 0
        self._more: list[Relay] = []
        """Relays that have more to move."""
        self._next_look = 0.0

    def prepare(self) -> None:
        """See `DataPlane`."""
        if self._thread is not None:
            return
        with ExitStack() as opened:
            try:
                self._epoll = opened.enter_context(select.epoll())
                self._wakeup = opened.enter_context(closing(Wakeup()))
                self._epoll.register(self._wakeup, select.EPOLLIN)
            except OSError as error:
                raise PlaneError(str(error)) from error
            self._stopping = False
            self._most = _most_descriptors()
            self._has_route = self._route()
            thread = threading.Thread(target=self._run, name="edgemesh/proxy", daemon=True)
            thread.start()
            opened.pop_all()
        self._thread = thread

    def _route(self) -> bool:
        """Make the Services' addresses ones of this node; return whether this user may."""
        try:
            for cidr in self._cidrs:
                self._addresses.add_local_route(cidr)
        except AddressError as error:
            _log.info("Services have addresses of 127.96.0.0/11: theirs cannot be routed here: %s", error)
            return False
        return bool(self._cidrs)

    def apply(self, tables: Tables, pods: Iterable[str]) -> None:  # noqa: ARG002 - only the kernel's rules need pods
        """See `DataPlane`. A port that cannot be listened on does not stop the others."""
        wanted = {
            key: found
            for key, each in self._oldest(tables).items()
            if _is_reached(found := self._without_services(each))
        }
        done = threading.Event()
        self._command(partial(self._set_tables, wanted, done))
        if not done.wait(APPLY_SECONDS):
            raise PlaneError("the proxy is too busy to take changes")

    def _oldest(self, tables: Tables) -> Tables:
        """Return the tables of IPv4, of those with one address and port only the oldest Service's: whoever may write
        Services of a namespace can find a name whose address another one has, and would be sent its connections.
        """
        holders: dict[tuple[Address, str], PortTable] = {}
        own = {key: (self.reach(each), each.protocol) for key, each in tables.items() if not each.is_ipv6}
        for key, at in own.items():
            holders[at] = min(holders.get(at, tables[key]), tables[key], key=attrgetter("age"))
        taken = {key for key, at in own.items() if holders[at].age != tables[key].age}
        for key in sorted(taken - self._taken):
            _log.warning("the proxy does not listen for Service %s: an older one has its loopback address", key)
        self._taken = taken
        return {key: tables[key] for key in own if key not in taken}

    def _without_services(self, table: PortTable) -> PortTable:
        """Return a table without endpoints at addresses of Services: the proxy would connect to itself, without end."""
        given = table.inside.endpoints
        endpoints = tuple(each for each in given if not self._is_service(each))
        if len(endpoints) == len(given):
            return table
        return table._replace(inside=target_to(endpoints, drops=table.inside.drops))

    def _is_service(self, address: Address) -> bool:
        parsed = ipaddress.ip_address(address[0])
        return any(parsed in each for each in self._ranges)

    def reach(self, table: PortTable) -> Address:
        """See `DataPlane`."""
        return (table.addresses[0], table.port) if self._has_route or table.is_ipv6 else listen_address(table)

    def clean(self) -> None:
        """See `DataPlane`: nothing is left."""

    def watch(self) -> RulesWatch | None:
        """See `DataPlane`: nobody else changes it."""
        return None

    def restore(self) -> None:
        """See `DataPlane`: nothing is lost."""

    def is_whole(self) -> bool:
        """See `DataPlane`."""
        return True

    def close(self) -> None:
        """See `DataPlane`. Connections end."""
        if self._thread is None:
            return
        self._command(self._stop)
        self._thread.join()
        self._thread = None

    def _command(self, command: Callable[[], None]) -> None:
        with self._lock:
            self._commands.append(command)
        self._wakeup.wake()

    def _stop(self) -> None:
        self._stopping = True

    def _run(self) -> None:
        while not self._stopping:
            pending, self._more = self._more, []
            for descriptor, _ in self._epoll.poll(0 if pending else self._wait_seconds()):
                handler = self._run_commands if descriptor == self._wakeup.fileno() else self._handlers.get(descriptor)
                if handler is not None:
                    _carry_out(handler)
            for relay in pending:
                _carry_out(partial(self._resume, relay))
            _carry_out(self._expire)
        for each in (*self._relays, *self._listeners.values()):
            each.close()
        self._relays.clear()
        for collection in (self._listeners, self._handlers, self._beginning, self._resting, self._more):
            collection.clear()
        self._epoll.close()
        self._wakeup.close()

    def _wait_seconds(self) -> float | None:
        """Return how long nothing needs a look: for ever without connections that begin and clients of UDP."""
        return TICK_SECONDS if self._beginning or self._resting or self._udp_clients else None

    def _run_commands(self) -> None:
        self._wakeup.clear()
        with self._lock:
            commands, self._commands = self._commands, []
        for command in commands:
            command()

    def _set_tables(self, tables: dict[str, PortTable], done: threading.Event) -> None:
        for key in list(self._listeners):
            if key not in tables or self._tables[key].addresses != tables[key].addresses:
                self._end_listening(key)
        self._tables = tables
        for key, table in tables.items():
            known = self._listeners.get(key)
            if isinstance(known, UdpClients):
                known.set_table(table)
            elif known is None:
                try:
                    self._listen(key, table)
                except OSError as error:
                    _log.warning("the proxy cannot listen for Service %s/%s: %s", table.namespace, table.service, error)
        done.set()

    def _end_listening(self, key: str) -> None:
        known = self._listeners.pop(key)
        listening = known.listening if isinstance(known, UdpClients) else known
        del self._handlers[listening.fileno()]
        if listening in self._resting:
            self._resting.remove(listening)
        known.close()

    def _listen(self, key: str, table: PortTable) -> None:
        if not self._has_room(1):
            raise OSError(errno.EMFILE, f"it may have {self._most} descriptors")
        is_udp = table.protocol == "udp"
        listening = socket.socket(socket.AF_INET, socket.SOCK_DGRAM if is_udp else socket.SOCK_STREAM)
        listening.settimeout(0)
        with on_failure(listening.close):
            if not is_udp:
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            address = self.reach(table)
            listening.bind(address)
            if not is_udp:
                listening.listen(_BACKLOG)
            self._epoll.register(listening, select.EPOLLIN)
        _log.info("Service %s/%s, port %d, is at %s:%d", table.namespace, table.service, table.port, *address)
        if is_udp:
            clients = UdpClients(listening, table, self, self._affinity)
            self._listeners[key] = clients
            self._handlers[listening.fileno()] = lambda: clients.forward(self._clock.monotonic())
        else:
            self._listeners[key] = listening
            self._handlers[listening.fileno()] = partial(self._accept, key, listening)

    def _has_room(self, descriptors: int) -> bool:
        """Return whether the proxy may have more descriptors; a connection counts with all that it may need."""
        taken = len(self._relays) * DESCRIPTORS + len(self._listeners) + self._udp_clients
        return taken + descriptors <= self._most

    def has_room_for_client(self) -> bool:
        """Return whether there may be one more client of UDP."""
        return self._udp_clients < MOST_UDP_CLIENTS and self._has_room(1)

    def watch_client(self, client: socket.socket, answer: Callable[[], None]) -> None:
        """Watch the socket of a client of UDP for answers of its endpoint. Raises OSError."""
        self._epoll.register(client, select.EPOLLIN)
        self._handlers[client.fileno()] = answer
        self._udp_clients += 1

    def forget_client(self, client: socket.socket) -> None:
        """Stop watching the socket of a client of UDP."""
        del self._handlers[client.fileno()]
        self._udp_clients -= 1

    def _accept(self, key: str, listening: socket.socket) -> None:
        try:
            client, source = listening.accept()
        except OSError as error:
            if error.errno in SHORTAGES:  # by others: the client would wait in front of a thread that never sleeps
                self._epoll.modify(listening, 0)
                self._resting.append(listening)
            return
        try:
            self._begin(key, client, source)
        except BaseException:
            client.close()
            raise

    def _begin(self, key: str, client: socket.socket, source: Address) -> None:
        table = self._tables[key]
        service = f"{table.namespace}/{table.service}"
        if not self._make_room(service, source[0]):
            reset(client)
            return
        now = self._clock.monotonic()
        endpoints = self._affinity.order(table, source[0], now)

        def record(endpoint: Address) -> None:
            self._affinity.record(table, source[0], endpoint, now)

        record(endpoints[0])  # its next connection may come before this one has an answer
        relay = Relay(client, endpoints, self, record)
        self._relays[relay] = service, source[0]
        self._beginning.add(relay)
        relay.begin(now)
        self._forget_if_closed(relay)

    def _make_room(self, service: str, client: str) -> bool:
        """Return whether a client may connect to a Service. If there are too many connections, the client with the most
        of them loses its oldest one, unless it would then have fewer than the new one's client.
        """
        crowd = [relay for relay, (name, _) in self._relays.items() if name == service]
        if len(crowd) < MOST_OF_A_SERVICE:
            if len(self._relays) < MOST_CONNECTIONS and self._has_room(DESCRIPTORS):
                return True
            crowd = list(self._relays)
        held = Counter(self._relays[each][1] for each in crowd)
        largest, most = max(held.items(), key=lambda each: each[1], default=(client, 0))
        if most <= held[client] + 1:
            return False
        oldest = next(each for each in crowd if self._relays[each][1] == largest)
        oldest.break_off()
        self._forget_if_closed(oldest)
        return True

    def watch_relay(self, relay: Relay, channel: socket.socket) -> None:
        """Watch a socket of a connection for edges. Raises OSError."""
        self._epoll.register(channel, _EDGES)
        self._handlers[channel.fileno()] = partial(self._resume, relay)

    def forget_socket(self, channel: socket.socket) -> None:
        """Stop watching a socket before it is closed: the next socket may have its number."""
        self._handlers.pop(channel.fileno(), None)

    def _resume(self, relay: Relay) -> None:
        try:
            if relay.event(self._clock.monotonic()):
                self._more.append(relay)
        except Exception:
            relay.break_off()
            raise
        finally:
            self._forget_if_closed(relay)

    def _forget_if_closed(self, relay: Relay) -> None:
        if not relay.is_open:
            self._relays.pop(relay, None)
        if not relay.is_open or relay.is_connected:
            self._beginning.discard(relay)

    def _expire(self) -> None:
        now = self._clock.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + TICK_SECONDS
        for listening in self._resting:
            self._epoll.modify(listening, select.EPOLLIN)
        self._resting.clear()
        for relay in list(self._beginning):
            relay.expire(now)
            self._forget_if_closed(relay)
        for each in self._listeners.values():
            if isinstance(each, UdpClients):
                each.expire(now)
