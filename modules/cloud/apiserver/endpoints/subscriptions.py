"""The queues between the actor that learns of changes and the threads that serve watches."""

import contextlib
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec

from modules.cloud.apiserver.endpoints.event_texts import EventTexts
from modules.cloud.storage.watch_history import ObjectChanged

WAITING: Final = 4096
"""Changes that may wait for one watch; a slower one is ended."""


WAITING_BYTES: Final = 64 * 1024 * 1024
"""Bytes of changes of all kinds that may be published while a change waits for a client's watch: no client that reads
nothing keeps older states in memory.
"""
_STEP: Final = 8 * 1024 * 1024
"""Published bytes between two looks at all subscriptions."""
_AT_ONCE: Final = 256 * 1024
"""Bytes of changes that a watch takes together."""
_Object = TypeVar("_Object")


class Subscription:
    """The changes of one kind for one watch, from `Subscriptions.subscribe` until `close`.

    Args:
        kind: as in keys of objects.
        published: returns the bytes of all changes so far; None: the watch is none of a client, and may be slow.
    """

    def __init__(self, kind: str, published: Callable[[], int] | None = None) -> None:
        self.kind = kind
        self.is_of_client = published is not None
        self._published = published or (lambda: 0)
        self._woken: Callable[[], None] | None = None
        self._lock = threading.Lock()
        self._descriptor: int | None = None
        self._waiting: deque[tuple[ObjectChanged, int]] = deque()
        """The changes, and the bytes that were published with each."""
        self._ended = False
        self._closed = False

    @property
    def descriptor(self) -> int:
        """Readable when there are changes, or the subscription has ended; for a watch that waits on a thread.

        Raises:
            ValueError: it is closed.
        """
        with self._lock:
            if self._closed:
                raise ValueError("the subscription is closed")
            if self._descriptor is None:
                self._descriptor = os.eventfd(int(bool(self._waiting) or self._ended), os.EFD_NONBLOCK | os.EFD_CLOEXEC)
            return self._descriptor

    def wake(self, woken: Callable[[], None] | None) -> None:
        """Have a function called when there are changes or the subscription has ended, for a watch that waits for no
        descriptor; it must not wait. None: no function.
        """
        self._woken = woken

    def put(self, changed: ObjectChanged) -> None:
        """Add a change, or end the subscription, without the waiting changes, when they are too many or too old."""
        with self._lock:
            if len(self._waiting) >= WAITING or self._is_old():
                self._ended = True
            if self._ended:
                self._waiting.clear()
            else:
                self._waiting.append((changed, self._published()))
            self._signal()
        self._notify()

    def end_if_old(self) -> None:
        """End the subscription, without the changes that wait, when they are too old."""
        with self._lock:
            is_old = self._is_old()
            if is_old:
                self._waiting.clear()
        if is_old:
            self.end()

    def _is_old(self) -> bool:
        return bool(self._waiting) and self._published() - self._waiting[0][1] > WAITING_BYTES

    def end(self) -> None:
        """End the subscription: no more changes come."""
        with self._lock:
            self._ended = True
            self._signal()
        self._notify()

    def drain(self) -> tuple[list[ObjectChanged], bool]:
        """Return the changes that wait, and whether it has ended."""
        with self._lock:
            if not self._closed and self._descriptor is not None:
                with contextlib.suppress(BlockingIOError):
                    os.eventfd_read(self._descriptor)
            found = [changed for changed, _ in self._waiting]
            self._waiting.clear()
            return found, self._ended

    def pop_some(self) -> tuple[list[ObjectChanged], bool]:
        """Return the oldest changes that wait, none if there are none, and whether it has ended after them."""
        with self._lock:
            found, size = list[ObjectChanged](), 0
            while self._waiting and size < _AT_ONCE:
                changed, _ = self._waiting.popleft()
                found.append(changed)
                size += len(changed.body) or _AT_ONCE  # one without its text may be of any size
            if not found and not self._closed and self._descriptor is not None:
                with contextlib.suppress(BlockingIOError):
                    os.eventfd_read(self._descriptor)
            return found, self._ended and not self._waiting

    def close(self) -> None:
        """Close the descriptor; may be called twice."""
        with self._lock:
            if not self._closed and self._descriptor is not None:
                os.close(self._descriptor)
            self._closed = True

    def _notify(self) -> None:
        woken = self._woken
        if woken is not None:
            woken()

    def _signal(self) -> None:
        if not self._closed and self._descriptor is not None:
            os.eventfd_write(self._descriptor, 1)


class SlowClientError(Exception):
    """A client took an answer so slowly that its objects were let go."""


class HeldObjects(Generic[_Object]):
    """The objects of an answer that its client has not taken yet. Thread-safe; iterated once.

    Args:
        objects: the objects.
        published: returns the bytes of all changes so far.
    """

    def __init__(self, objects: Iterable[_Object], published: Callable[[], int]) -> None:
        self._published = published
        self._since = published()
        self._objects = deque(objects)
        self._is_old = False

    def __iter__(self) -> Iterator[_Object]:
        """Yield the objects. Raise SlowClientError once they are let go."""
        while self._objects or self._is_old:
            try:
                yield self._objects.popleft()
            except IndexError:
                raise SlowClientError from None

    def end_if_old(self) -> None:
        """Let the objects go when so much has changed that memory would have their older states as well."""
        if self._objects and self._published() - self._since > WAITING_BYTES:
            self._is_old = True
            self._objects.clear()


class Subscriber(Protocol):
    """A receiver of the changes of one kind, on the publisher's thread: its methods must not wait."""

    @property
    def kind(self) -> str:
        """The kind as in keys of objects."""

    def put(self, changed: ObjectChanged) -> None:
        """Take a change."""

    def end(self) -> None:
        """Take that no more changes come."""

    def close(self) -> None:
        """Release its resources; may be called twice."""


class Subscriptions:
    """The subscribers to changes of objects. One thread publishes, without the lock, while others subscribe: no step of
    theirs hides another subscriber.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_kind: dict[str, tuple[Subscriber, ...]] = {}
        self._answers: weakref.WeakSet[HeldObjects[Any]] = weakref.WeakSet()
        self._published = 0
        self.texts = EventTexts()
        """Of events."""

    def subscribe(self, kind: str, *, of_client: bool = False) -> Subscription:
        """Return a new subscription to the changes of a kind; a client's subscription ends when the client is too
        slow.
        """
        subscription = Subscription(kind, lambda: self._published) if of_client else Subscription(kind)
        self.add(subscription)
        return subscription

    def hold(self, objects: Iterable[_Object]) -> HeldObjects[_Object]:
        """Return objects for an answer to a client, which are let go when the client is too slow."""
        held = HeldObjects(objects, lambda: self._published)
        with self._lock:
            self._answers.add(held)
        return held

    def add(self, subscriber: Subscriber) -> None:
        """Publish to a subscriber from now on."""
        kind = subscriber.kind
        with self._lock:
            if subscriber not in (known := self._by_kind.get(kind, ())):
                self._by_kind[kind] = (*known, subscriber)

    def remove(self, subscriber: Subscriber) -> None:
        """Publish to a subscriber no longer."""
        kind = subscriber.kind
        with self._lock:
            others = tuple(each for each in self._by_kind.get(kind, ()) if each is not subscriber)
            if others:
                self._by_kind[kind] = others
            else:
                self._by_kind.pop(kind, None)

    def unsubscribe(self, subscription: Subscription) -> None:
        """Remove a subscription, and close it."""
        self.remove(subscription)
        subscription.close()

    def publish(self, changed: ObjectChanged) -> None:
        """Pass a change to the subscriptions of its kind."""
        before = self._published
        self._published += len(changed.body) or len(msgspec.json.encode(changed.object))
        if before // _STEP != self._published // _STEP:
            with self._lock:
                answers = list(self._answers)
            for each in (*self._all, *answers):
                if isinstance(each, Subscription | HeldObjects):
                    each.end_if_old()
        for subscription in self._by_kind.get(changed.kind, ()):
            subscription.put(changed)

    def close(self) -> None:
        """Close all subscriptions, and wake the threads that wait for them."""
        with self._lock:
            subscriptions, self._by_kind = self._all, {}
        for subscription in subscriptions:
            subscription.close()

    def end_all(self) -> None:
        """End all subscriptions."""
        with self._lock:
            subscriptions = self._all
        for subscription in subscriptions:
            subscription.end()

    def end_clients(self) -> None:
        """End the subscriptions of clients."""
        with self._lock:
            subscriptions = self._all
        for subscription in subscriptions:
            if isinstance(subscription, Subscription) and subscription.is_of_client:
                subscription.end()

    @property
    def _all(self) -> list[Subscriber]:
        return [each for some in list(self._by_kind.values()) for each in some]
