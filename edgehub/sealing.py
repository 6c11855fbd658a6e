"""From a message to the frame it leaves as, or why it cannot leave. Pure."""

from typing import NamedTuple

from msgspec import Raw

from beehive import ContentError, Message, encode
from edgehub.classes import Entry, classify
from edgehub.counters import Refusal


class Refused(NamedTuple):
    """Why a message cannot leave."""

    why: Refusal
    detail: str


def sealed(message: Message, limit: int, now: float) -> Entry | Refused:
    """The entry of a message, of at most `limit` bytes; `now` is monotonic.

    One that is over the limit by its content alone is refused before anything is made of it. `sync` is a matter of this
    process: KubeEdge's hub clears it before writing.
    """
    size = _known_size(message)
    frame = b""
    if size <= limit:
        try:
            frame = encode(message.with_header(sync=False) if message.header.sync else message)
        except ContentError as error:
            return Refused(Refusal.NOT_JSON, str(error))
        size = len(frame)
    if size > limit:
        return Refused(Refusal.TOO_LARGE, f"{size} bytes are over the limit of {limit}")
    return Entry(message, frame, classify(message), now)


def _known_size(message: Message) -> int:
    """Bytes that a message has at least, as far as that is known before its frame is made."""
    content = message.content
    return len(content) if isinstance(content, (str, bytes, bytearray, Raw)) else 0
