"""Composition of an object out of its stored row and edged's status. Pure.

The store has the object as the cloud sent it, byte for byte, with the cloud's status. edged has the current status, and
static pods, which the cloud did not send. The API serves the stored object with edged's status.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from beehive.decoding import decode_json, json_decoder
from modules.apimachinery.pods.static import CONFIG_MIRROR
from modules.apimachinery.printing.fields import map_at, text_at
from modules.apimachinery.resources import Resource

_DOCUMENT: Final = json_decoder(dict[str, msgspec.Raw])


class LiveStatus(NamedTuple):
    """edged's status of an object."""

    uid: str
    """UID of the object; empty matches every UID."""
    status: bytes
    """JSON text."""
    whole: bytes = b""
    """JSON text of edged's object, served when the store lacks it; may be empty."""


def compose(row: bytes | None, statuses: Iterable[LiveStatus]) -> bytes | None:
    """Return the object, None without one."""
    newest_first = tuple(statuses)[::-1]
    if row is None:
        return next((live.whole for live in newest_first if live.whole), None)
    if not newest_first:
        return row
    document = _DOCUMENT.decode(row)
    metadata = {"metadata": decode_json(document.get("metadata", b"{}"))}
    uid, mirror = text_at(metadata, "metadata.uid"), CONFIG_MIRROR in map_at(metadata, "metadata.annotations")
    for live in newest_first:
        if mirror or live.uid in ("", uid):
            document["status"] = msgspec.Raw(live.status)
            return msgspec.json.encode(document)
    return row


def normalize(resource: Resource, text: bytes) -> bytes | None:
    """Return a stored object with its kind, which Go omits after create and patch; None for text that is no object."""
    try:
        document = _DOCUMENT.decode(text)
    except (msgspec.DecodeError, UnicodeError):
        return None
    if bytes(document.get("metadata", b""))[:1] != b"{":
        return None
    kind = msgspec.json.encode(resource.kind)
    if bytes(document.get("kind", b"")) == kind and "apiVersion" in document:
        return text
    rest = {key: value for key, value in document.items() if key not in ("kind", "apiVersion")}
    head = {"kind": msgspec.Raw(kind), "apiVersion": msgspec.Raw(msgspec.json.encode(resource.group_version))}
    return msgspec.json.encode(head | rest)
