"""The sockets of the name server: one thread answers what the node knows, a few more ask other servers."""

import logging
import select
import socket
import struct
import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple

from beehive import Clock
from beehive.files.descriptors import SHORTAGES
from beehive.wakeup import Wakeup
from modules.apimachinery.types import Pod
from modules.edge.edgemesh.backends import MeshBackend
from modules.edge.edgemesh.counters import MeshCounters
from modules.edge.edgemesh.dns.explaining import Resolution, explain
from modules.edge.edgemesh.dns.resolving import DnsNames, answer_to
from modules.edge.edgemesh.dns.turns import PLACES, AskingTurns
from modules.edge.edgemesh.dns.wire import EDNS_SIZE, LARGEST, Code, DnsAnswer, Question, write
from modules.edge.edgemesh.objects import Service, ServiceKey

_log = logging.getLogger(__name__)

A_TURN: Final = 64
"""Datagrams that are answered before the thread looks at anything else."""
MOST_CONNECTIONS: Final = 64
REST_SECONDS: Final = 1.0
"""Until connections are accepted again, at most, after a want of descriptors."""
IDLE_SECONDS: Final = 30.0
RATE: Final = 1000.0
"""Queries of one client in a second; it may save up `BURST`."""
BURST: Final = 2000.0
MOST_CLIENTS: Final = 4096
AGAIN_SECONDS: Final = 5.0

_LENGTH = struct.Struct("!H")
_MOST_UNSENT: Final = 256 * 1024
_LONGEST_QUERY: Final = 4096

OpenSockets = Callable[[], "tuple[socket.socket, socket.socket]"]
"""Returns the UDP socket and the listening TCP socket; raises OSError."""


class Limiter:
    """Limits of the queries of each client. Only the server's thread uses it.

    Args:
        clock: for times.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._clients: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def charge(self, client: str, size: int) -> None:
        """Count the size of an answer: what would be several messages over UDP counts as many queries."""
        if size > EDNS_SIZE and client in self._clients:
            saved, at = self._clients[client]
            self._clients[client] = (max(-BURST, saved - size // EDNS_SIZE), at)

    def allows(self, client: str) -> bool:
        """Count a query; return whether it is answered."""
        now = self._clock.monotonic()
        saved, at = self._clients.pop(client, (BURST, now))
        saved = min(BURST, saved + (now - at) * RATE)
        self._clients[client] = (saved - 1.0 if saved >= 1.0 else saved, now)
        if len(self._clients) > MOST_CLIENTS:
            self._clients.popitem(last=False)
        return saved >= 1.0


class _Asked(NamedTuple):
    """A question of a client to other servers."""

    question: Question
    send: Callable[[bytes], None]
    """Sends the answer."""
    udp: bool


class NameServer:
    """The server. Its thread begins with `start`, and opens the sockets, again and again if it cannot.

    Args:
        names: what is answered.
        open_sockets: opens the sockets.
        may_ask: returns whether an address may ask; others get no answer.
        clock: for times.
        counters: of the module.
    """

    def __init__(
        self,
        names: DnsNames,
        open_sockets: OpenSockets,
        may_ask: Callable[[str], bool],
        clock: Clock,
        counters: MeshCounters,
    ) -> None:
        self._names = names
        self._open = open_sockets
        self._may_ask = may_ask
        self._clock = clock
        self._counters = counters
        self._limiter = Limiter(clock)
        self._wakeup = Wakeup()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="edgemesh/dns", daemon=True)
        self._pool = ThreadPoolExecutor(PLACES, thread_name_prefix="edgemesh/dns-ask")
        self._turns: AskingTurns[_Asked] = AskingTurns()
        self._done: deque[Callable[[], None]] = deque()
        self._connections: dict[int, DnsConnection] = {}
        self._rests = False
        """Whether no connection is accepted for a moment, for want of descriptors."""
        self._complaint = "it has not begun to listen"

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def stop(self) -> None:
        """End, with the threads."""
        self._stopping.set()
        self._wakeup.wake()
        if self._thread.ident is not None:
            self._thread.join()
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._wakeup.close()

    def known(self) -> None:
        """See `Names.known`."""
        self._names.known()

    def put(
        self, key: ServiceKey, service: Service | None, addresses: Sequence[str], backends: Sequence[MeshBackend]
    ) -> None:
        """See `Names.put`."""
        self._names.put(key, service, addresses, backends)

    def pods_changed(self, pods: tuple[Pod, ...]) -> None:
        """See `Names.pods_changed`."""
        self._names.pods_changed(pods)

    def explain(self, name: str, namespace: str, type_: str) -> Resolution:
        """See `Names.explain`."""
        problem = f"the name server does not listen: {self._complaint}" if self._complaint else ""
        return explain(self._names, name, namespace, type_, problem)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                udp, tcp = self._open()
            except OSError as error:
                if str(error) != self._complaint:
                    self._complaint = str(error)
                    _log.error("the name server cannot listen, and tries again each %g s: %s", AGAIN_SECONDS, error)
                self._stopping.wait(AGAIN_SECONDS)
                continue
            self._complaint = ""
            _log.info("the name server listens at %s", udp.getsockname()[0])
            with udp, tcp:
                try:
                    self._serve(udp, tcp)
                except Exception:  # noqa: BLE001 - whatever somebody has sent: without this thread no name is answered
                    _log.exception("the name server begins anew")
            for connection in self._connections.values():
                connection.close()
            self._connections.clear()

    def _serve(self, udp: socket.socket, tcp: socket.socket) -> None:
        udp.settimeout(0)
        tcp.settimeout(0)
        poll = select.poll()
        for each in (udp, tcp, self._wakeup):
            poll.register(each, select.POLLIN)
        while not self._stopping.is_set():
            idle = IDLE_SECONDS if self._connections else None
            found = poll.poll(1000 * REST_SECONDS if self._rests else idle and 1000 * idle)
            if self._rests:
                self._rests = False
                poll.modify(tcp, select.POLLIN)
            for descriptor, events in found:
                if descriptor == udp.fileno():
                    self._receive_datagrams(udp)
                elif descriptor == tcp.fileno():
                    self._accept(tcp, poll)
                elif descriptor == self._wakeup.fileno():
                    self._send_answers()
                elif (connection := self._connections.get(descriptor)) is not None:
                    self._receive_bytes(connection, events)
            self._tidy(poll)

    def _receive_datagrams(self, udp: socket.socket) -> None:
        for _ in range(A_TURN):
            try:
                data, source = udp.recvfrom(LARGEST)
            except OSError:  # none is left, or an earlier answer could not be delivered
                return
            if not self._may_ask(source[0]) or not self._limiter.allows(source[0]):
                self._counters.dropped += 1
                continue
            found = answer_to(data, self._names, self._count, udp=True)
            if isinstance(found, bytes):
                with suppress(OSError):
                    udp.sendto(found, source)
            elif found is not None:
                self._ask(source[0], _Asked(found, partial(_send_to, udp, source), udp=True))

    def _accept(self, tcp: socket.socket, poll: "select.poll") -> None:
        try:
            accepted, source = tcp.accept()
        except OSError as error:
            if error.errno in SHORTAGES:  # the client would wait in front of a thread that never sleeps
                self._rests = True
                poll.modify(tcp, 0)
            return
        if not self._may_ask(source[0]) or not self._has_room(source[0]):
            self._counters.dropped += 1
            accepted.close()
            return
        accepted.settimeout(0)
        self._connections[accepted.fileno()] = DnsConnection(accepted, source[0], self._clock)
        poll.register(accepted, select.POLLIN)

    def _has_room(self, client: str) -> bool:
        """Return whether a client may connect; of many connections the oldest of the client with most makes room."""
        if len(self._connections) < MOST_CONNECTIONS:
            return True
        held = Counter(each.source for each in self._connections.values() if each.is_open)
        (largest, most), *_ = held.most_common(1) or [(client, 0)]
        if held[client] + 1 >= most:
            return False
        oldest = min((each for each in self._connections.values() if each.source == largest), key=lambda each: each.at)
        oldest.is_open = False
        return True

    def _receive_bytes(self, connection: "DnsConnection", events: int) -> None:
        if events & select.POLLOUT:
            connection.send()
        if events & (select.POLLIN | select.POLLHUP | select.POLLERR):
            for data in connection.read():
                if not self._limiter.allows(connection.source):
                    self._counters.dropped += 1
                    connection.is_open = False
                    return
                found = answer_to(data, self._names, self._count, udp=False)
                if isinstance(found, bytes):
                    self._limiter.charge(connection.source, len(found))
                    connection.queue(found)
                elif found is not None:
                    self._ask(connection.source, _Asked(found, connection.queue, udp=False))

    def _tidy(self, poll: "select.poll") -> None:
        """Close connections that ended or idle, and wait for room where there is something to send."""
        now = self._clock.monotonic()
        for descriptor, connection in list(self._connections.items()):
            if not connection.is_open or now - connection.at > IDLE_SECONDS:
                poll.unregister(descriptor)
                connection.close()
                del self._connections[descriptor]
            else:
                poll.modify(descriptor, select.POLLIN | (select.POLLOUT if connection.unsent else 0))

    def _ask(self, client: str, asked: _Asked) -> None:
        """Ask other servers on another thread, in the client's turn; the answer is sent on this one."""
        refused = self._turns.put(client, asked)
        if refused is not None:
            self._answer(refused, DnsAnswer(Code.SERVFAIL, is_ours=False))
        self._ask_next()

    def _ask_next(self) -> None:
        while (following := self._turns.next()) is not None:
            self._pool.submit(self._run_question, *following)

    def _run_question(self, client: str, asked: _Asked) -> None:
        answer = DnsAnswer(Code.SERVFAIL, is_ours=False)
        try:
            answer = self._names.by_others(asked.question, client)
        except Exception:  # noqa: BLE001 - the client's turn ends in any case
            _log.exception("a question for other name servers failed")
        self._done.append(lambda: self._answered(client, asked, answer))
        self._wakeup.wake()

    def _answered(self, client: str, asked: _Asked, answer: DnsAnswer) -> None:
        self._turns.end(client)
        self._answer(asked, answer)

    def _answer(self, asked: _Asked, answer: DnsAnswer) -> None:
        self._count(answer.code)
        asked.send(write(asked.question, answer, udp=asked.udp))

    def _send_answers(self) -> None:
        self._wakeup.clear()
        while self._done:
            self._done.popleft()()
        self._ask_next()

    def _count(self, code: Code) -> None:
        self._counters.answers[code.name] = self._counters.answers.get(code.name, 0) + 1


class DnsConnection:
    """A TCP connection of a client: messages with their length before them, several in a row."""

    def __init__(self, channel: socket.socket, source: str, clock: Clock) -> None:
        self._channel = channel
        self.source = source
        self._clock = clock
        self.at = clock.monotonic()
        """When the client has sent or taken something, in monotonic seconds."""
        self.is_open = True
        self.unsent = bytearray()
        self._read = bytearray()

    def read(self) -> list[bytes]:
        """Return the whole messages that have come; the connection ends after a message that is too long for a
        query.
        """
        try:
            data = self._channel.recv(LARGEST)
        except BlockingIOError:
            return []
        except OSError:
            data = b""
        if not data:
            self.is_open = False
            return []
        self.at = self._clock.monotonic()
        self._read += data
        found, at = list[bytes](), 0
        while len(self._read) - at >= _LENGTH.size:
            (size,) = _LENGTH.unpack_from(self._read, at)
            if size > _LONGEST_QUERY:
                self.is_open = False
                return []
            if len(self._read) - at - _LENGTH.size < size:
                break
            at += _LENGTH.size + size
            found.append(bytes(self._read[at - size : at]))
        del self._read[:at]
        return found

    def queue(self, message: bytes) -> None:
        """Send a message as soon as there is room."""
        if self.is_open and len(self.unsent) < _MOST_UNSENT:
            self.unsent += _LENGTH.pack(len(message)) + message
            self.send()

    def send(self) -> None:
        """Send what there is room for."""
        try:
            sent = self._channel.send(self.unsent)
        except BlockingIOError:
            return
        except OSError:
            self.is_open = False
            return
        if sent:
            self.at = self._clock.monotonic()
            del self.unsent[:sent]

    def close(self) -> None:
        """Close it."""
        self.is_open = False
        self._channel.close()


def _send_to(udp: socket.socket, source: object, message: bytes) -> None:
    with suppress(OSError):
        udp.sendto(message, source)  # type: ignore[call-overload]
