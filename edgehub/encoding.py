"""Encodes messages to the cloud as frames. Pure."""

from typing import NamedTuple

from msgspec import Raw

from beehive import ContentError, Message, encode
from edgehub.classes import Entry, classify
from edgehub.counters import Refusal


class EncodingRefused(NamedTuple):
    """Reason why a message cannot be encoded."""

    why: Refusal
    detail: str


def encode_frame(message: Message, limit: int, now: float) -> Entry | EncodingRefused:
    """Encode a message in at most `limit` bytes; `now` is in monotonic seconds.

    A message whose content alone exceeds the limit is refused before it is encoded. `sync` has a meaning in this
    process only: it is cleared, as by KubeEdge's hub.
    """
    size = _known_size(message)
    frame = b""
    if size <= limit:
        try:
            frame = encode(message.with_header(sync=False) if message.header.sync else message)
        except ContentError as error:
            return EncodingRefused(Refusal.NOT_JSON, str(error))
        size = len(frame)
    if size > limit:
        return EncodingRefused(Refusal.TOO_LARGE, f"{size} bytes are over the limit of {limit}")
    return Entry(message.with_content(None), frame, classify(message), now)


def _known_size(message: Message) -> int:
    """Return a lower bound of the message's size in bytes, without encoding it."""
    content = message.content
    return len(content) if isinstance(content, (str, bytes, bytearray, Raw)) else 0
