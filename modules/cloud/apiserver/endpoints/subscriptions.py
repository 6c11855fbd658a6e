"""The queues between the actor that learns of changes and the threads that serve watches."""

import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

from modules.cloud.apiserver.watch_history import ObjectChanged

WAITING: Final = 4096
"""Changes that may wait for one watch; a slower one is ended."""


class Subscription:
    """The changes of one kind for one watch, from `Subscriptions.subscribe` until `close`."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.descriptor = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        """Readable when there are changes, or the subscription has ended."""
        self.woken: Callable[[], None] = lambda: None
        """Called when there are changes, for a watch that waits for no descriptor; it must not wait."""
        self._lock = threading.Lock()
        self._waiting: deque[ObjectChanged] = deque()
        self._ended = False
        self._closed = False

    def put(self, changed: ObjectChanged) -> None:
        """Adds a change, or ends the subscription when too many wait."""
        with self._lock:
            if len(self._waiting) >= WAITING:
                self._ended = True
            else:
                self._waiting.append(changed)
            self._wake()

    def end(self) -> None:
        """Ends the subscription: no more changes come."""
        with self._lock:
            self._ended = True
            self._wake()

    def take(self) -> tuple[list[ObjectChanged], bool]:
        """Returns the changes that wait, and whether it has ended."""
        with self._lock:
            if not self._closed:
                with contextlib.suppress(BlockingIOError):
                    os.eventfd_read(self.descriptor)
            found = list(self._waiting)
            self._waiting.clear()
            return found, self._ended

    def close(self) -> None:
        """Closes the descriptor; may be called twice."""
        with self._lock:
            if not self._closed:
                self._closed = True
                os.close(self.descriptor)

    def _wake(self) -> None:
        if not self._closed:
            os.eventfd_write(self.descriptor, 1)
            self.woken()


class Subscriptions:
    """All subscriptions. One thread publishes, others subscribe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._all: set[Subscription] = set()

    def subscribe(self, kind: str) -> Subscription:
        """Returns a new subscription to the changes of a kind."""
        subscription = Subscription(kind)
        with self._lock:
            self._all.add(subscription)
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """Closes a subscription."""
        with self._lock:
            self._all.discard(subscription)
        subscription.close()

    @contextlib.contextmanager
    def calling(self, descriptor: int | None, woken: Callable[[], None]) -> Iterator[None]:
        """Call a function when the subscription of a descriptor has changes, until the end of the block."""
        with self._lock:
            found = next((each for each in self._all if each.descriptor == descriptor), None)
        if found is None:
            yield
            return
        found.woken = woken
        yield
        found.woken = lambda: None

    def publish(self, changed: ObjectChanged) -> None:
        """Passes a change to the subscriptions of its kind."""
        kind = changed.kind
        with self._lock:
            for subscription in self._all:
                if subscription.kind == kind:
                    subscription.put(changed)

    def close(self) -> None:
        """Closes all subscriptions, whoever waits for them."""
        with self._lock:
            subscriptions, self._all = list(self._all), set()
        for subscription in subscriptions:
            subscription.close()

    def end_all(self) -> None:
        """Ends all subscriptions."""
        with self._lock:
            for subscription in self._all:
                subscription.end()
