"""One object out of what the store has of it and what edged says of it now.

The store has the object as the cloud sent it, byte for byte, with the status that the cloud had; edged knows the
status of this moment, and pods that no cloud has sent (static ones). What is told is the stored object with edged's
status. Pure.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from modules.metaserver.resources import Resource
from modules.printing.fields import map_at, text_at

MIRROR: Final = "kubernetes.io/config.mirror"
"""Annotation by which a pod is the cloud's picture of a static pod: another uid, the same pod."""

_DOCUMENT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


class Live(NamedTuple):
    """What edged says of an object."""

    uid: str
    """Empty: whatever the uid is."""
    status: bytes
    """JSON text."""
    whole: bytes = b""
    """JSON text of the object as edged has it, for when the store has none; empty: then there is none."""


def compose(row: bytes | None, lives: Iterable[Live]) -> bytes | None:
    """The object; None when there is none."""
    newest_first = tuple(lives)[::-1]
    if row is None:
        return next((live.whole for live in newest_first if live.whole), None)
    if not newest_first:
        return row
    document = _DOCUMENT.decode(row)
    metadata = {"metadata": msgspec.json.decode(document.get("metadata", b"{}"))}
    uid, mirror = text_at(metadata, "metadata.uid"), MIRROR in map_at(metadata, "metadata.annotations")
    for live in newest_first:
        if mirror or live.uid in ("", uid):
            document["status"] = msgspec.Raw(live.status)
            return msgspec.json.encode(document)
    return row


def normal(resource: Resource, text: bytes) -> bytes | None:
    """A stored object with its kind, which Go leaves out of what it created or patched; None for what is no object."""
    try:
        document = _DOCUMENT.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    if bytes(document.get("metadata", b""))[:1] != b"{":
        return None
    kind = msgspec.json.encode(resource.kind)
    if bytes(document.get("kind", b"")) == kind and "apiVersion" in document:
        return text
    rest = {key: value for key, value in document.items() if key not in ("kind", "apiVersion")}
    head = {"kind": msgspec.Raw(kind), "apiVersion": msgspec.Raw(msgspec.json.encode(resource.group_version))}
    return msgspec.json.encode(head | rest)
