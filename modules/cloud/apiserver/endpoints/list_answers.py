"""The answer to a list: whole, or in pieces when it is long."""

from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, nullcontext
from http import HTTPStatus
from itertools import chain
from typing import Final

from beehive.http.responses import Reply, Response, Stream

Turn = Callable[[], AbstractContextManager[None]]
"""Returns the context for computing a piece of an answer."""

PIECE_BYTES: Final = 64 * 1024
"""Bytes after which a piece is sent; an object in it may have more."""
_WHOLE_BYTES: Final = 256 * 1024
"""Bytes of an answer that is made in memory before its first byte is sent: clients may read none of it for minutes."""


def list_answer(parts: Iterator[bytes], turn: Turn = nullcontext) -> Reply:
    """Return the answer with a list of objects. One of more than 256 KiB is encoded while it is sent: its client may
    have asked for all objects of a cluster.

    Args:
        parts: its beginning, each object and its end.
        turn: returns the context for encoding a further piece.
    """
    pieces = in_pieces(chain(parts, (b"\n",)))
    begun = list[bytes]()
    for piece in pieces:
        begun.append(piece)
        if sum(map(len, begun)) > _WHOLE_BYTES:
            break
    else:
        return Response(HTTPStatus.OK, "application/json", b"".join(begun))

    def all_pieces(_client: object) -> Generator[bytes, None, None]:
        while begun:
            yield begun.pop(0)
        yield from in_turns(pieces, turn)

    return Stream("application/json", all_pieces, lambda: None, lambda _: chain(begun, pieces))


def in_turns(pieces: Iterator[bytes], turn: Turn) -> Iterator[bytes]:
    """Yield pieces; each one is made in a context of its own."""
    while True:
        with turn():
            piece = next(pieces, None)
        if piece is None:
            return
        yield piece


def in_pieces(parts: Iterator[bytes]) -> Iterator[bytes]:
    """Yield parts together, in pieces of 64 KiB and more; a larger part after a piece is a piece of its own, the same
    bytes as it was.
    """
    begun, size = list[bytes](), 0
    for part in parts:
        if begun and len(part) >= PIECE_BYTES:
            yield b"".join(begun)
            begun, size = [], 0
        begun.append(part)
        size += len(part)
        del part  # a client may let the piece wait for minutes
        if size >= PIECE_BYTES:
            piece, begun, size = b"".join(begun), [], 0
            yield piece
            del piece
    if begun:
        yield b"".join(begun)
