"""Names of others: asked of the servers of the host, remembered, and answered from memory while no server answers."""

import os
import random
import select
import socket
import struct
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple

from beehive import Clock
from modules.edge.edgemesh.counters import MeshCounters
from modules.edge.edgemesh.dns.wire import (
    LARGEST,
    Code,
    DnsAnswer,
    Parsed,
    Question,
    Record,
    Type,
    WireError,
    minimum_of,
    query,
    read_message,
    target_of,
)

PORT: Final = 53
TRY_SECONDS: Final = 2.0
"""Time for one server."""
ALL_SECONDS: Final = 5.0
"""Time for all of them."""
REST_SECONDS: Final = 10.0
"""After which a server that did not answer is asked first again."""
MOST_MISMATCHES: Final = 8
"""Wrong answers to one query, which may be forged, after which it is asked over TCP."""
MOST_ANSWERS: Final = 2000
MOST_BYTES: Final = 1024 * 1024
LONGEST_TTL: Final = 3600
LONGEST_NEGATIVE: Final = 30
STALE_SECONDS: Final = 24 * 3600.0
"""For so long after its time an answer is given while no server answers (RFC 8767)."""
STALE_TTL: Final = 30
FAILURE_SECONDS: Final = 2.0
_LONGEST_CHAIN: Final = 8
_FAR: Final = (Code.SERVFAIL, Code.NOTIMP, Code.REFUSED)

Key = tuple[str, int]
"""Name and type."""

Ask = Callable[[str, bytes, float, Callable[[], None]], Parsed]
"""Asks one server, as `ask` does."""


class Cached(NamedTuple):
    """An answer in memory."""

    answer: DnsAnswer
    at: float
    """Its arrival, in monotonic seconds."""
    ttl: float
    size: int
    client: str
    """Who asked first."""
    again: float = 0.0
    """When no server has answered lately: until then the answer is given although its time is over."""


class _Share:
    """The answers of one client: their keys, the least recently used first, and their bytes."""

    def __init__(self) -> None:
        self.keys: OrderedDict[Key, None] = OrderedDict()
        self.size = 0


class Cache:
    """Answers of other servers. The lock of the resolver guards it.

    When it is full, the client with the largest share loses the least recently used of its answers, so that a client
    that asks for many names displaces no answers of others.

    Args:
        most: answers that are kept.
        most_bytes: bytes of their records.
    """

    def __init__(self, most: int = MOST_ANSWERS, most_bytes: int = MOST_BYTES) -> None:
        self._most, self._most_bytes = most, most_bytes
        self._answers: dict[Key, Cached] = {}
        self._shares: dict[str, _Share] = {}
        self._size = 0

    def __len__(self) -> int:
        return len(self._answers)

    def put(self, key: Key, answer: DnsAnswer, now: float, client: str = "") -> None:
        """Keep an answer to a client."""
        old = self._answers.get(key)
        client = client if old is None else old.client
        self._drop(key)
        size = 100 + len(key[0]) + sum(20 + len(each.name) + len(each.data) for each in _all(answer))
        if size > self._most_bytes:
            return
        self._answers[key] = Cached(answer, now, _ttl(answer), size, client)
        share = self._shares.setdefault(client, _Share())
        share.keys[key] = None
        share.size += size
        self._size += size
        while len(self._answers) > self._most or self._size > self._most_bytes:
            self._drop(next(iter(max(self._shares.values(), key=lambda each: each.size).keys)))

    def get(self, key: Key, now: float) -> DnsAnswer | None:
        """Return an answer whose time is not over."""
        found = self._answers.get(key)
        if found is None:
            return None
        if now - found.at >= found.ttl:
            return self.get_stale(key, now) if now < found.again else None
        self._shares[found.client].keys.move_to_end(key)
        return _aged(found.answer, int(now - found.at))

    def get_stale(self, key: Key, now: float) -> DnsAnswer | None:
        """Return an answer whose time is over, but not for long."""
        found = self._answers.get(key)
        if found is None or now - found.at - found.ttl > STALE_SECONDS or found.answer.code == Code.SERVFAIL:
            return None
        return _with_ttl(found.answer, STALE_TTL)

    def keep_stale(self, key: Key, now: float) -> None:
        """Give an answer whose time is over without asking for a while, so that not each question waits for servers
        that do not answer (RFC 8767, the failure recheck timer).
        """
        self._answers[key] = self._answers[key]._replace(again=now + STALE_TTL)

    def _drop(self, key: Key) -> None:
        gone = self._answers.pop(key, None)
        if gone is None:
            return
        self._size -= gone.size
        share = self._shares[gone.client]
        share.size -= gone.size
        del share.keys[key]
        if not share.keys:
            del self._shares[gone.client]


class UpstreamResolver:
    """A resolver that asks other servers. Blocks; any thread.

    Equal questions at the same time are one. Each query has a random number, a port of its own, and letters in random
    case (draft-vixie-dnsext-dns0x20); an answer counts only from the asked address with all of them.

    Args:
        servers: returns the addresses of the servers for a name, the best first.
        clock: for times.
        counters: of the module.
        exchange: asks one server; for tests.
        serve_stale: whether answers whose time is over are given while no server answers.
    """

    def __init__(
        self,
        servers: Callable[[str], Sequence[str]],
        clock: Clock,
        counters: MeshCounters,
        exchange: Ask | None = None,
        *,
        serve_stale: bool = True,
    ) -> None:
        self._servers = servers
        self._clock = clock
        self._counters = counters
        self._exchange = exchange or partial(ask, clock)
        self._serve_stale = serve_stale
        self._lock = threading.Lock()
        self._cache = Cache()
        self._asking: dict[Key, _Asking] = {}
        self._resting: dict[str, float] = {}
        self._random = random.SystemRandom()

    def remembered(self, name: str, type_: int) -> DnsAnswer | None:
        """Return the answer from memory, if its time is not over. Does not block for long."""
        with self._lock:
            return self._cache.get((name, type_), self._clock.monotonic())

    def resolve(self, question: Question, client: str = "") -> DnsAnswer:
        """Return the answer of the servers to a client; SERVFAIL when none answers."""
        key = (question.name, question.type)
        with self._lock:
            found = self._cache.get(key, self._clock.monotonic())
            if found is not None:
                return found
            asking = self._asking.get(key)
            is_first = asking is None
            if asking is None:
                asking = self._asking[key] = _Asking()
        if not is_first:
            asking.done.wait(ALL_SECONDS + TRY_SECONDS)
            return asking.answer
        try:
            asking.answer = self._ask_all(question, client)
        finally:
            with self._lock:
                del self._asking[key]
            asking.done.set()
        return asking.answer

    def _ask_all(self, question: Question, client: str) -> DnsAnswer:
        key = (question.name, question.type)
        deadline = self._clock.monotonic() + ALL_SECONDS
        for server in self._in_order(question.name):
            left = deadline - self._clock.monotonic()
            if left <= 0:
                break
            try:
                parsed = self._exchange(server, self._spelled(question), min(left, TRY_SECONDS), self._count_mismatch)
            except (OSError, WireError):
                self._resting[server] = self._clock.monotonic() + REST_SECONDS
                continue
            self._resting.pop(server, None)
            if parsed.code in _FAR:
                continue
            answer = trusted(question, parsed)._replace(source=server)
            with self._lock:
                self._cache.put(key, answer, self._clock.monotonic(), client)
            return answer
        return self._without_servers(key, client)

    def _without_servers(self, key: Key, client: str) -> DnsAnswer:
        now = self._clock.monotonic()
        with self._lock:
            stale = self._cache.get_stale(key, now) if self._serve_stale else None
            if stale is not None:
                self._counters.stale += 1
                self._cache.keep_stale(key, now)
                return stale._replace(source=f"{stale.source}, remembered: no name server answers")
            failure = DnsAnswer(Code.SERVFAIL, is_ours=False)
            self._cache.put(key, failure, now, client)
        return failure

    def _in_order(self, name: str) -> list[str]:
        """Return the servers; the ones without a recent answer come last."""
        now = self._clock.monotonic()
        servers = list(dict.fromkeys(self._servers(name)))
        return sorted(servers, key=lambda each: self._resting.get(each, 0.0) > now)

    def _spelled(self, question: Question) -> bytes:
        """Return the question with letters in random case."""
        raw = bytearray(question.raw)
        at = 0
        while raw[at]:
            for place in range(at + 1, at + 1 + raw[at]):
                if chr(raw[place]).isascii() and chr(raw[place]).isalpha():
                    raw[place] ^= 0x20 * self._random.getrandbits(1)
            at += raw[at] + 1
        return bytes(raw)

    def _count_mismatch(self) -> None:
        self._counters.mismatches += 1


class _Asking:
    """A question under way."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.answer = DnsAnswer(Code.SERVFAIL, is_ours=False)


def trusted(question: Question, parsed: Parsed) -> DnsAnswer:
    """Return the trusted part of an answer: the chain from the question's name, and the SOA record. Pure."""
    names = {question.name}
    chain: dict[Record, None] = {}
    for _ in range(_LONGEST_CHAIN):
        added = [each for each in parsed.answers if each.name in names and each not in chain and _fits(each, question)]
        if not added:
            break
        chain |= dict.fromkeys(added)
        names |= {target_of(each) for each in added if each.type == Type.CNAME}
    soa = tuple(
        each
        for each in parsed.authority[:1]
        if each.type == Type.SOA and any(_is_in(name, each.name) for name in names)
    )
    code = Code(parsed.code) if parsed.code in (Code.NOERROR, Code.NXDOMAIN) else Code.SERVFAIL
    return DnsAnswer(code, tuple(chain), () if chain and code == Code.NOERROR else soa, is_ours=False)


class _Deadline:
    """The end of the time for a server, however it spreads what it sends.

    Args:
        clock: for times.
        seconds: until then.
    """

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._at = clock.monotonic() + seconds

    def left(self) -> float:
        """Return the seconds that are left. Raises TimeoutError when none are."""
        left = self._at - self._clock.monotonic()
        if left <= 0:
            raise TimeoutError("there is no answer in time")
        return left


def ask(clock: Clock, server: str, raw: bytes, seconds: float, mismatch: Callable[[], None]) -> Parsed:
    """Ask one server over UDP, and over TCP where the answer is too long or others answer in its place.

    Args:
        clock: for times.
        server: address of the server; its port after `#`, if it is not 53.
        raw: the question.
        seconds: time for it, UDP and TCP each.
        mismatch: called for each message that is no answer to it.

    Raises:
        OSError: no answer in time.
        WireError: the answer cannot be read.
    """
    address, _, port = server.partition("#")
    at = (address, int(port or PORT))
    number = int.from_bytes(os.urandom(2), "big")
    found = _ask_udp(at, number, raw, _Deadline(clock, seconds), mismatch)
    return found if found is not None and not found.is_cut else _ask_tcp(at, number, raw, _Deadline(clock, seconds))


def _ask_udp(
    at: tuple[str, int], number: int, raw: bytes, deadline: _Deadline, mismatch: Callable[[], None]
) -> Parsed | None:
    family = socket.AF_INET6 if ":" in at[0] else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
        channel.connect(at)
        channel.send(query(number, raw))
        poll = select.poll()
        poll.register(channel, select.POLLIN)
        for _ in range(MOST_MISMATCHES):
            if not poll.poll(deadline.left() * 1000):
                raise TimeoutError(f"{at[0]} does not answer")
            with suppress(WireError):
                found = read_message(channel.recv(LARGEST))
                if found.is_response and found.id == number and found.question == raw:
                    return found
                if found.is_response and found.id == number and found.question.lower() == raw.lower():
                    mismatch()
                    return None  # some servers do not keep the letters' case
            mismatch()
    return None


def _ask_tcp(at: tuple[str, int], number: int, raw: bytes, deadline: _Deadline) -> Parsed:
    with socket.create_connection(at, timeout=deadline.left()) as channel:
        message = query(number, raw)
        channel.sendall(struct.pack("!H", len(message)) + message)
        (size,) = struct.unpack("!H", _exactly(channel, 2, deadline))
        found = read_message(_exactly(channel, size, deadline))
    if not found.is_response or found.id != number or found.question.lower() != raw.lower():
        raise WireError("it is no answer to the question")
    return found


def _exactly(channel: socket.socket, size: int, deadline: _Deadline) -> bytes:
    parts = b""
    while len(parts) < size:
        channel.settimeout(deadline.left())
        part = channel.recv(size - len(parts))
        if not part:
            raise ConnectionResetError("the server has closed the connection")
        parts += part
    return parts


def _is_in(name: str, zone: str) -> bool:
    return not zone or name == zone or name.endswith(f".{zone}")


def _fits(record: Record, question: Question) -> bool:
    return record.type in (question.type, Type.CNAME)


def _all(answer: DnsAnswer) -> tuple[Record, ...]:
    return (*answer.answers, *answer.authority)


def _ttl(answer: DnsAnswer) -> float:
    if answer.code == Code.SERVFAIL:
        return FAILURE_SECONDS
    if answer.answers and answer.code == Code.NOERROR:
        return min(LONGEST_TTL, *(each.ttl for each in answer.answers))
    return min([LONGEST_NEGATIVE, *(minimum_of(each) for each in answer.authority)]) if answer.authority else 0.0


def _aged(answer: DnsAnswer, seconds: int) -> DnsAnswer:
    def older(records: tuple[Record, ...]) -> tuple[Record, ...]:
        return tuple(each._replace(ttl=max(0, min(each.ttl, LONGEST_TTL) - seconds)) for each in records)

    return answer._replace(answers=older(answer.answers), authority=older(answer.authority))


def _with_ttl(answer: DnsAnswer, ttl: int) -> DnsAnswer:
    def renewed(records: tuple[Record, ...]) -> tuple[Record, ...]:
        return tuple(each._replace(ttl=ttl) for each in records)

    return answer._replace(answers=renewed(answer.answers), authority=renewed(answer.authority))
