"""The answer to a list: whole, or in pieces when it is long."""

from collections.abc import Generator, Iterator
from typing import Final

import msgspec

from beehive.http.responses import Reply, Stream, json
from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.object_encoder import encoded

_PIECE_BYTES: Final = 256 * 1024
"""Bytes after which a piece is sent; an object in it may have more."""
_WHOLE_BYTES: Final = 8 * 1024 * 1024
"""Bytes of an answer that is made in memory before its first byte is sent."""


def list_answer(found: JsonObject) -> Reply:
    """Return the answer with a list of objects. One of more than 8 MiB is encoded while it is sent: its client may have
    asked for all objects of a cluster.
    """
    pieces = _pieces(found)
    begun = bytearray()
    for piece in pieces:
        begun += piece
        if len(begun) > _WHOLE_BYTES:
            break
    else:
        return json(bytes(begun))

    def all_pieces(_client: object) -> Generator[bytes, None, None]:
        yield bytes(begun)
        yield from pieces

    return Stream("application/json", all_pieces, lambda: None, all_pieces)


def _pieces(found: JsonObject) -> Iterator[bytes]:
    """Yield the JSON of a list."""
    head = {name: value for name, value in found.items() if name != "items"}
    piece = bytearray(msgspec.json.encode(head)[:-1] + b',"items":[')
    for number, item in enumerate(found["items"]):
        if number:
            piece += b","
        piece += encoded(item)
        if len(piece) >= _PIECE_BYTES:
            yield bytes(piece)
            piece.clear()
    yield bytes(piece) + b"]}"
