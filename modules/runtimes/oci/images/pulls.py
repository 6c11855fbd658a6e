"""The pulls that are under way, and how far each is: CRI's PullImage tells nothing before its end."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from modules.runtimes.oci.images.worker_process import LayerProgress

_LETTERS: Final = 12
"""Letters of a layer's digest that are shown, as by other tools."""
_MOST: Final = 100
"""Pulls that are described."""


class PullsUnderWay:
    """Pulls with the progress of their layers. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pulls: dict[object, tuple[str, dict[str, LayerProgress]]] = {}

    @contextmanager
    def one(self, name: str) -> Iterator[Callable[[LayerProgress], None]]:
        """Count a pull until the context ends; the function that it yields takes how far a layer is."""
        token, layers = object(), dict[str, LayerProgress]()

        def update(layer: LayerProgress, /) -> None:
            with self._lock:
                layers[layer.digest] = layer

        with self._lock:
            self._pulls[token] = (name, layers)
        try:
            yield update
        finally:
            with self._lock:
                del self._pulls[token]

    def all(self) -> dict[str, tuple[LayerProgress, ...]]:
        """Return the layers by the images' names; of two pulls of one image, the later one's."""
        with self._lock:
            return {name: tuple(layers.values()) for name, layers in self._pulls.values()}

    def described(self) -> str:
        """Return the pulls as JSON: names, and of each layer `[DIGEST, SIZE, FETCHED, UNPACKED]`, in bytes."""
        shown = list(self.all().items())[-_MOST:]
        return json.dumps({name: [_described(each) for each in layers] for name, layers in shown})


def _described(layer: LayerProgress) -> tuple[str, int, int, int]:
    return layer.digest.partition(":")[2][:_LETTERS], layer.size, layer.fetched, layer.unpacked
