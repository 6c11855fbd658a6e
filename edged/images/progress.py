"""How far a pull is, as a runtime tells it in the information of its verbose Status.

CRI has no call for it. The runtimes `embedded://oci` and `embedded://docker` have the entry `pulls`, a JSON object: of
each image that is being pulled, by the name in the request, a list of `[DIGEST, SIZE, FETCHED, UNPACKED]` for each
layer that is missing. Other runtimes have no such entry.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from beehive.decoding import decode_json

ENTRY: Final = "pulls"
"""Key of the information."""
_LONGEST: Final = 4 * 1024 * 1024
_MOST_LAYERS: Final = 500
_LARGEST: Final = 1 << 50
"""Bytes; a number above it is taken for it."""
_LETTERS: Final = 12
_MEGABYTE: Final = 1e6


class PulledLayer(NamedTuple):
    """Progress of a layer, in bytes of the layer as the registry has it."""

    name: str
    """The first hexadecimal digits of its digest."""
    size: int
    fetched: int
    unpacked: int


class PullProgress(msgspec.Struct, frozen=True):
    """Progress of a pull."""

    layers: tuple[PulledLayer, ...]

    @property
    def size(self) -> int:
        """Bytes of all layers."""
        return sum(each.size for each in self.layers)

    @property
    def fetched(self) -> int:
        """Bytes that have come from the registry."""
        return sum(each.fetched for each in self.layers)

    @property
    def unpacked(self) -> int:
        """Bytes that were read to unpack the layers."""
        return sum(each.unpacked for each in self.layers)

    @property
    def completed(self) -> "PullProgress":
        """The progress of this pull when it has succeeded."""
        return PullProgress(tuple(each._replace(fetched=each.size, unpacked=each.size) for each in self.layers))

    def __str__(self) -> str:
        """Return the sums as a phrase: `12.5 of 77.0 MB fetched, 4.0 MB unpacked`."""
        fetched = f"{megabytes(self.fetched)} of {megabytes(self.size)} MB fetched"
        return f"{fetched}, {megabytes(self.unpacked)} MB unpacked"


def progress_of(image: str, info: Mapping[str, str]) -> PullProgress | None:
    """Return how far the pull of an image is; None when the runtime does not say it, or does not know any layer yet.

    Args:
        image: the name in the request.
        info: of the verbose Status. It is not trusted: layers, numbers and names are bounded.
    """
    text = info.get(ENTRY, "")
    if len(text) > _LONGEST:
        return None
    try:
        layers = decode_json(text, dict[str, list[tuple[str, int, int, int]]]).get(image)
    except (msgspec.MsgspecError, ValueError):
        return None
    return PullProgress(tuple(_layer(*each) for each in layers[:_MOST_LAYERS])) if layers else None


def megabytes(count: int) -> str:
    """Return bytes as a number of megabytes."""
    return f"{count / _MEGABYTE:,.1f}"


def _layer(digest: str, size: int, fetched: int, unpacked: int) -> PulledLayer:
    name = "".join(each for each in digest[:_LETTERS] if each in "0123456789abcdef")
    size = _within(_LARGEST, size)
    return PulledLayer(name, size, _within(size, fetched), _within(size, unpacked))


def _within(most: int, count: int) -> int:
    return max(0, min(most, count))
