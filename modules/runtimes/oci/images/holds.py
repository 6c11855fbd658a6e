"""The images that containers need, by container. Only the engine's records survive a restart, not these."""

import threading
from collections.abc import Mapping


class Holds:
    """Holds by holder. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[str, str] = {}

    def add(self, holder: str, image_id: str) -> None:
        """Let a container hold an image."""
        with self._lock:
            self._held[holder] = image_id

    def drop(self, holder: str) -> str:
        """Drop a container's hold; return the image, "" without one."""
        with self._lock:
            return self._held.pop(holder, "")

    def set(self, holders: Mapping[str, str]) -> None:
        """Replace all holds."""
        with self._lock:
            self._held = dict(holders)

    def of(self, image_id: str) -> bool:
        """Whether any container holds an image."""
        with self._lock:
            return image_id in self._held.values()
