"""Docker's report about a pull, line by line, as the progress of its layers."""

from collections.abc import Callable
from typing import Final

from modules.runtimes.docker.answers import Progress
from modules.runtimes.oci.images.worker_process import LayerProgress

_FETCHING: Final = "Downloading"
_FETCHED: Final = ("Verifying Checksum", "Download complete")
_UNPACKING: Final = "Extracting"
_DONE: Final = "Pull complete"
_MOST_LAYERS: Final = 500


class ReportedLayers:
    """The layers of a pull. Docker names them by the beginning of their digests.

    A layer is told once Docker has said its size: a small layer is fetched without that, and only unpacked with it.

    Args:
        told: takes how far a layer is.
    """

    def __init__(self, told: Callable[[LayerProgress], None]) -> None:
        self._told = told
        self._layers: dict[str, LayerProgress] = {}

    def take(self, line: Progress) -> None:
        """Take a line of the report; one that is not about a layer, or of an unknown kind, changes nothing."""
        layer = self._changed(line)
        if layer is not None and (line.id in self._layers or len(self._layers) < _MOST_LAYERS):
            self._layers[line.id] = layer
            self._told(layer)

    def _changed(self, line: Progress) -> LayerProgress | None:
        before = self._layers.get(line.id)
        size = max(line.detail.total, before.size if before is not None else 0)
        if not line.id or size <= 0:
            return None
        digest, fetched = f"sha256:{line.id}", before.fetched if before is not None else 0
        if line.status == _FETCHING:
            return LayerProgress(digest, size, max(fetched, _within(line.detail.current, size)))
        if line.status in _FETCHED:
            return LayerProgress(digest, size, size)
        if line.status == _UNPACKING:
            return LayerProgress(digest, size, size, _within(line.detail.current, size))
        return LayerProgress(digest, size, size, size) if line.status == _DONE else None


def _within(count: int, size: int) -> int:
    return max(0, min(count, size))
