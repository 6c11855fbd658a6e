"""The order of sandboxes at the network's attach and detach."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

MOST_CHAINS: Final = 4
"""Sandboxes that are attached or detached at one time."""


class Turns:
    """The turns of sandboxes: at most `MOST_CHAINS` are served at one time, and each by one thread.

    While sandboxes wait to be attached, at most one is detached: starting pods do not wait for ending ones.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._served: set[str] = set()
        self._detached: set[str] = set()
        self._waiting: list[str] = []
        """Sandboxes that wait to be attached."""

    def concern(self, sandbox_id: str) -> bool:
        """Return whether a sandbox is served, or waits to be attached."""
        with self._changed:
            return sandbox_id in self._served or sandbox_id in self._waiting

    @contextmanager
    def to_attach(self, sandbox_id: str) -> Iterator[None]:
        """Wait for the sandbox's turn."""
        with self._changed:
            self._waiting.append(sandbox_id)
            try:
                self._changed.wait_for(lambda: self._may_serve(sandbox_id))
            finally:
                self._waiting.remove(sandbox_id)
            self._served.add(sandbox_id)
        with self._serving(sandbox_id):
            yield

    @contextmanager
    def to_detach(self, sandbox_id: str) -> Iterator[None]:
        """Wait for the sandbox's turn."""
        with self._changed:
            self._changed.wait_for(lambda: self._may_serve(sandbox_id) and not (self._waiting and self._detached))
            self._served.add(sandbox_id)
            self._detached.add(sandbox_id)
        with self._serving(sandbox_id):
            yield

    def _may_serve(self, sandbox_id: str) -> bool:
        return sandbox_id not in self._served and len(self._served) < MOST_CHAINS

    @contextmanager
    def _serving(self, sandbox_id: str) -> Iterator[None]:
        try:
            yield
        finally:
            with self._changed:
                self._served.discard(sandbox_id)
                self._detached.discard(sandbox_id)
                self._changed.notify_all()
