"""watch: the present objects, or the changes since a version, then every change as it is committed."""

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import nullcontext
from itertools import chain
from typing import Final

import msgspec

from beehive.clock import Clock
from beehive.http.responses import Peer
from modules.apimachinery.autoscaler_versions import is_of_older, to_older
from modules.apimachinery.event_versions import is_newer, to_events
from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.object_encoder import ObjectEncoder, encoded
from modules.apimachinery.options import ReadOptions
from modules.apimachinery.resources import Resource
from modules.apimachinery.selectors import Selector
from modules.cloud.apiextensions.objects import in_version
from modules.cloud.apiserver.endpoints.list_answers import Turn, in_pieces, in_turns
from modules.cloud.apiserver.endpoints.subscriptions import Subscription
from modules.cloud.storage.watch_history import ObjectChanged, WatchStart

BOOKMARK_SECONDS: Final = 60.0
"""Seconds between bookmarks without events (an API server: about a minute)."""

_DELETED: Final = "DELETED"


class ObjectWatch:
    """The watch of one client.

    Args:
        resource: the kind.
        namespace: "" is all namespaces.
        options: of the request.
        clock: for its end, bookmarks and ages.
        turn: returns the context for encoding a part of the present objects.
    """

    def __init__(
        self, resource: Resource, namespace: str, options: ReadOptions, clock: Clock, turn: Turn = nullcontext
    ) -> None:
        self._turn = turn
        self._resource = resource
        self._namespace = namespace
        self._options = options
        self._clock = clock
        self._begin = self._marked = clock.monotonic()
        """Monotonic seconds of the last bookmark."""

    def pieces(self, peer: Peer, start: WatchStart, subscription: Subscription) -> Generator[bytes, None, None]:
        """Yield events as lines of JSON until the time is over, the client goes or the subscription ends."""
        yield from in_turns(self._begun(start), self._turn)
        for step in self._later(start, subscription):
            if isinstance(step, bytes):
                yield step
            elif peer.gone_within(step, subscription.descriptor):
                return

    def steps(
        self, start: WatchStart, subscription: Subscription, woken: Callable[[], None] | None = None
    ) -> Iterator[bytes | float]:
        """Yield the lines, and wherever the caller has to wait for more, the longest time to wait, in seconds.

        Args:
            start: the beginning.
            subscription: the changes after it.
            woken: called when there is more, instead of the subscription's descriptor; it must not wait.
        """
        if woken is not None:
            subscription.wake(woken)
        yield from self._begun(start)
        yield from self._later(start, subscription)

    def _begun(self, start: WatchStart) -> Iterator[bytes]:
        """Yield the lines of the present objects, or of the changes so far."""
        asked = self._options.initial_events and self._options.bookmarks
        end = [self._bookmark(start.version, is_end=True)] if asked else []
        yield from in_pieces(chain(self._lines(start.changes), end))

    def _later(self, start: WatchStart, subscription: Subscription) -> Iterator[bytes | float]:
        deadline, version = self._begin + self._options.seconds, start.version
        while True:
            changes, ended = subscription.pop_some()
            later = [change for change in changes if change.version > start.version]
            version = max([version, *(change.version for change in later)])
            lines = b"".join(self._lines(later))
            has_more = bool(changes)
            del changes, later
            if lines:
                yield lines
            if self._options.bookmarks and (lines or self._until_bookmark() <= 0):
                yield self._bookmark(version)
            left = deadline - self._clock.monotonic()
            if ended or left <= 0:
                return
            if not has_more:
                yield max(0.0, min(left, self._until_bookmark()))

    def _until_bookmark(self) -> float:
        due = self._marked + BOOKMARK_SECONDS if self._options.bookmarks else self._clock.monotonic() + BOOKMARK_SECONDS
        return due - self._clock.monotonic()

    def _lines(self, changes: Iterable[ObjectChanged]) -> Iterator[bytes]:
        encoder = self._encoder()
        for change in changes:
            kind = event_type(change, self._options.selector)
            if kind and self._namespace in ("", change.object["metadata"].get("namespace")):
                yield _event(kind, encoder.encode_object(encoded(self._in_version(sent_object(change, kind)))))

    def _in_version(self, obj: JsonObject) -> JsonObject:
        if is_newer(self._resource):
            return to_events(obj)
        if is_of_older(self._resource):
            return to_older(obj)
        return in_version(obj, self._resource) if self._resource.is_custom else obj

    def _bookmark(self, version: int, *, is_end: bool = False) -> bytes:
        self._marked = self._clock.monotonic()
        return _event("BOOKMARK", self._encoder().encode_bookmark(version, is_end=is_end))

    def _encoder(self) -> ObjectEncoder:
        return ObjectEncoder(self._resource, self._options.form, self._options.included, self._clock.now())


def event_type(change: ObjectChanged, selector: Selector) -> str:
    """Return the type of a change for a client with a selector; "" when it concerns only other objects.

    An object that the selector no longer selects is deleted for this client.
    """
    if change.is_selected_alike:
        return "MODIFIED" if selector.selects(change.object) else ""
    was, is_ = _selects(selector, change.old), change.change != _DELETED and _selects(selector, change.object)
    if is_:
        return "MODIFIED" if was else "ADDED"
    if was or (change.change == _DELETED and change.old is None and _selects(selector, change.object)):
        return _DELETED
    return ""


def sent_object(change: ObjectChanged, kind: str) -> JsonObject:
    """Return the object of an event: the one after the change; of an object that a selector no longer selects, the one
    before it, with the new resourceVersion, as an API server sends it.
    """
    if kind != _DELETED or change.old is None:
        return change.object
    version = change.object["metadata"]["resourceVersion"]
    return {**change.old, "metadata": {**change.old["metadata"], "resourceVersion": version}}


def _selects(selector: Selector, obj: JsonObject | None) -> bool:
    return obj is not None and selector.selects(obj)


def _event(kind: str, text: bytes) -> bytes:
    return msgspec.json.encode({"type": kind, "object": msgspec.Raw(text)}) + b"\n"
