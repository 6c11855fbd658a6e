"""What mosquitto's sessions hold, in the file that it stores them in, and which of them are ended to bound it. Pure.

mosquitto bounds the queue of each session, and not the number of sessions, which any client may raise: 33 of them fill
its memory, and then it passes nothing on. Its file has them all, with the sessions of an earlier start, in the order in
which their clients connected last. The format is `persist.h` of mosquitto 1.6 to 2.0 (versions 5 and 6 of the file).
"""

import struct
from collections import Counter
from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

MOST_BYTES: Final = 24 * 1024 * 1024
"""Memory that sessions may hold together. Beyond it, messages of clients that take them have too little."""
LARGEST: Final = 256 * 1024 * 1024
"""Bytes of a file that is read; mosquitto's memory has a quarter."""

_MAGIC: Final = b"\x00\xb5\x00mosquitto db"
_HEAD: Final = struct.Struct("!II")
"""Of the file, after the magic: a check sum and its version. Of a chunk: its kind and length."""
_VERSIONS: Final = (5, 6)
_MESSAGE, _QUEUED, _RETAINED, _SUBSCRIPTION, _CLIENT = 2, 3, 4, 5, 6
_NUMBER: Final = struct.Struct("=Q")
_EXPIRY: Final = struct.Struct("=q")
_LENGTH: Final = struct.Struct("!H")
_NAMES: Final = {_QUEUED: (10, 16), _SUBSCRIPTION: (4, 12), _CLIENT: (14, 24)}
"""Where chunks have the length of a client's name, and the name."""
_OF_A_MESSAGE, _OF_AN_ENTRY, _OF_A_SUBSCRIPTION, _OF_A_SESSION = 150, 80, 400, 2048
"""Bytes of memory beside the content, measured with mosquitto 2.0.11 and rounded up."""


class UnreadableError(Exception):
    """The file is of a version that is not known, or is damaged."""


class StoredSession(NamedTuple):
    """A session of a client that mosquitto keeps."""

    client_id: bytes
    is_absent: bool


class Held(NamedTuple):
    """Sessions in the order of their clients' last connections, and their messages."""

    sessions: tuple[StoredSession, ...]
    messages: dict[int, int]
    """Bytes of each message that is kept, by its number."""
    queued: dict[bytes, list[int]]
    """Messages that wait for each client."""
    own: dict[bytes, int]
    """Bytes that each client has for itself."""

    def to_end(self, kept: bytes, most: int) -> list[bytes]:
        """Return the clients whose sessions have to be ended so that the others hold no more than `most` bytes.

        Absent clients go before connected ones, and in both groups the newest sessions go first: however many sessions
        a client makes, older sessions stay.

        Args:
            kept: a client whose session stays.
            most: bytes.
        """
        waiting = Counter(number for numbers in self.queued.values() for number in numbers)
        total = sum(self.own.values()) + sum(self.messages[each] for each in waiting if each in self.messages)
        found: list[bytes] = []
        latest = self.sessions[::-1]
        for one in (*(each for each in latest if each.is_absent), *(each for each in latest if not each.is_absent)):
            if total <= most:
                break
            if one.client_id == kept:
                continue
            found.append(one.client_id)
            total -= self.own.get(one.client_id, 0)
            for number in self.queued.get(one.client_id, ()):
                waiting[number] -= 1
                if not waiting[number]:
                    total -= self.messages.get(number, 0)
        return found


def read_held(data: bytes) -> Held:
    """Return the sessions in a file, and the messages that they hold. Raises UnreadableError."""
    start = len(_MAGIC) + _HEAD.size
    if not data.startswith(_MAGIC) or len(data) < start or _HEAD.unpack_from(data, len(_MAGIC))[1] not in _VERSIONS:
        raise UnreadableError("mosquitto stores its sessions in a form that is not known")
    sessions: list[StoredSession] = []
    messages: dict[int, int] = {}
    queued: dict[bytes, list[int]] = {}
    own: Counter[bytes] = Counter()
    try:
        for kind, chunk in _chunks(data, start):
            if kind == _MESSAGE:
                messages[_NUMBER.unpack_from(chunk)[0]] = len(chunk) + _OF_A_MESSAGE
            elif kind == _QUEUED:
                name = _name(chunk, *_NAMES[kind])
                queued.setdefault(name, []).append(_NUMBER.unpack_from(chunk)[0])
                own[name] += _OF_AN_ENTRY
            elif kind == _SUBSCRIPTION:
                own[_name(chunk, *_NAMES[kind])] += len(chunk) + _OF_A_SUBSCRIPTION
            elif kind == _CLIENT:
                name = _name(chunk, *_NAMES[kind])
                sessions.append(StoredSession(name, _EXPIRY.unpack_from(chunk)[0] != 0))
                own[name] += len(chunk) + _OF_A_SESSION
            elif kind == _RETAINED:
                _NUMBER.unpack_from(chunk)  # `without` reads it
    except struct.error:
        raise UnreadableError("mosquitto's stored sessions are damaged") from None
    return Held(tuple(sessions), messages, queued, dict(own))


def without(data: bytes, ended: Collection[bytes]) -> bytes:
    """Return a file that can be read without the sessions of these clients, and without messages that nobody waits for.

    mosquitto reads all messages of its file before it drops those, and does not start if they do not fit.
    """
    start = len(_MAGIC) + _HEAD.size
    dropped = set(ended)
    chunks = [
        (kind, chunk)
        for kind, chunk in _chunks(data, start)
        if kind not in _NAMES or _name(chunk, *_NAMES[kind]) not in dropped
    ]
    wanted = {_NUMBER.unpack_from(chunk)[0] for kind, chunk in chunks if kind in (_QUEUED, _RETAINED)}
    kept = [data[:start]]
    for kind, chunk in chunks:
        if kind != _MESSAGE or _NUMBER.unpack_from(chunk)[0] in wanted:
            kept += (_HEAD.pack(kind, len(chunk)), bytes(chunk))
    return b"".join(kept)


def _chunks(data: bytes, at: int) -> Iterator[tuple[int, memoryview]]:
    view = memoryview(data)
    while at < len(data):
        kind, length = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        if at + length > len(data):
            raise UnreadableError("mosquitto's stored sessions are cut off")
        yield kind, view[at : at + length]
        at += length


def _name(chunk: memoryview, length_at: int, at: int) -> bytes:
    """Return the name of a client in a chunk."""
    (length,) = _LENGTH.unpack_from(chunk, length_at)
    return bytes(chunk[at : at + length])
