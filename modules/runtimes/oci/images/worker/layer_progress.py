"""How far each layer of a pull is: bytes fetched, and bytes that the unpacking has read."""

import threading
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from modules.runtimes.oci.images.worker.documents import Descriptor

_TELL_EVERY: Final = 2 * 1024 * 1024
"""Bytes between two reports about one layer."""


class LayerReport(NamedTuple):
    """Progress of a layer. All numbers are bytes of the layer as the registry has it, none is above `size`."""

    digest: str
    size: int
    fetched: int = 0
    unpacked: int = 0


class LayersProgress:
    """The progress of layers: it counts, and reports each layer at its beginning, from time to time, and at its end.
    Thread-safe.

    Args:
        layers: those to fetch.
        tell: gets a report; one call at a time.
    """

    def __init__(self, layers: Sequence[Descriptor], tell: Callable[[LayerReport], None]) -> None:
        self._lock = threading.Lock()
        self._tell = tell
        self._known = {each.digest: LayerReport(each.digest, each.size) for each in layers}
        self._told: dict[str, LayerReport] = {}
        for each in self._known.values():
            self._put(each)

    def add_fetched(self, digest: str, count: int) -> None:
        """Count bytes that came; a negative count is of bytes that were thrown away."""
        with self._lock:
            known = self._known[digest]
            self._put(known._replace(fetched=_within(known.size, known.fetched + count)))

    def set_unpacked(self, digest: str, position: int) -> None:
        """Note how many bytes of a layer the unpacking has read."""
        with self._lock:
            known = self._known[digest]
            self._put(known._replace(unpacked=max(known.unpacked, _within(known.size, position))))

    def _put(self, now: LayerReport) -> None:
        self._known[now.digest] = now
        told = self._told.get(now.digest)
        if told is None or _is_far_from(told, now):
            self._told[now.digest] = now
            self._tell(now)


def _is_far_from(told: LayerReport, now: LayerReport) -> bool:
    moved = abs(now.fetched - told.fetched) + now.unpacked - told.unpacked
    is_fetched = now.fetched == now.size != told.fetched
    is_unpacked = now.unpacked == now.size != told.unpacked
    return moved >= _TELL_EVERY or is_fetched or is_unpacked


def _within(size: int, count: int) -> int:
    return max(0, min(size, count))
