"""watch: the present objects, or the changes since a version, then every change as it is committed."""

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import nullcontext
from itertools import chain
from typing import Final, NamedTuple

import msgspec

from beehive.clock import Clock
from beehive.http.responses import Peer
from modules.apimachinery.autoscaler_versions import is_of_older, to_older
from modules.apimachinery.event_versions import is_newer, to_events
from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.object_encoder import ObjectEncoder, encoded
from modules.apimachinery.options import Form, ReadOptions
from modules.apimachinery.resources import Resource
from modules.apimachinery.selectors import Selector
from modules.cloud.apiextensions.objects import in_version
from modules.cloud.apiserver.endpoints.event_texts import EventTexts
from modules.cloud.apiserver.endpoints.list_answers import Turn, in_pieces, in_turns
from modules.cloud.apiserver.endpoints.subscriptions import SlowClientError, Subscription
from modules.cloud.storage.watch_history import ObjectChanged

BOOKMARK_SECONDS: Final = 60.0
"""Seconds between bookmarks without events (an API server: about a minute)."""

_DELETED: Final = "DELETED"


class WatchBegin(NamedTuple):
    """The beginning of a watch."""

    version: int
    """The resourceVersion after which the subscription goes on."""
    changes: Iterable[ObjectChanged]
    """The present objects, or the changes so far; a `HeldObjects` for a client."""
    subscription: Subscription
    """The changes after them."""


class ObjectWatch:
    """The watch of one client.

    Args:
        resource: the kind.
        namespace: "" is all namespaces.
        options: of the request.
        clock: for its end, bookmarks and ages.
        texts: of events that other clients get, too.
        turn: returns the context for encoding a part of the present objects.
    """

    def __init__(
        self,
        resource: Resource,
        namespace: str,
        options: ReadOptions,
        clock: Clock,
        texts: EventTexts,
        turn: Turn = nullcontext,
    ) -> None:
        self._turn = turn
        self._texts = texts
        self._resource = resource
        self._namespace = namespace
        self._options = options
        self._clock = clock
        self._begin = self._marked = clock.monotonic()
        """Monotonic seconds of the last bookmark."""

    def pieces(self, peer: Peer, begin: WatchBegin) -> Generator[bytes, None, None]:
        """Yield events as lines of JSON until the time is over, the client goes or the subscription ends."""
        try:
            yield from in_turns(self._begun(begin), self._turn)
        except SlowClientError:
            return
        for step in self._later(begin):
            if isinstance(step, float):
                if peer.gone_within(step, begin.subscription.descriptor):
                    return
            else:
                yield step
            del step

    def steps(self, begin: WatchBegin, woken: Callable[[], None] | None = None) -> Iterator[bytes | float]:
        """Yield the lines, and wherever the caller has to wait for more, the longest time to wait, in seconds.

        Args:
            begin: the beginning, and the changes after it.
            woken: called when there is more, instead of the subscription's descriptor; it must not wait.
        """
        if woken is not None:
            begin.subscription.wake(woken)
        try:
            yield from self._begun(begin)
        except SlowClientError:
            return
        yield from self._later(begin)

    def _begun(self, begin: WatchBegin) -> Iterator[bytes]:
        """Yield the lines of the present objects, or of the changes so far."""
        asked = self._options.initial_events and self._options.bookmarks
        end = [self._bookmark(begin.version, is_end=True)] if asked else []
        yield from in_pieces(chain(self._lines(begin.changes), end))

    def _later(self, begin: WatchBegin) -> Iterator[bytes | float]:
        deadline, version = self._begin + self._options.seconds, begin.version
        while True:
            changes, ended = begin.subscription.pop_some()
            later = [change for change in changes if change.version > begin.version]
            version = max([version, *(change.version for change in later)])
            lines = b"".join(self._lines(later))
            has_more, has_lines = bool(changes), bool(lines)
            del changes, later
            if has_lines:
                yield lines
            del lines  # the next ones may come in an hour
            if self._options.bookmarks and (has_lines or self._until_bookmark() <= 0):
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
                yield self._line(encoder, kind, sent_object(change, kind))

    def _line(self, encoder: ObjectEncoder, kind: str, obj: JsonObject) -> bytes:
        def made() -> bytes:
            return _event(kind, encoder.encode_object(encoded(self._in_version(obj))))

        if self._options.form is Form.TABLE:  # it has ages
            return made()
        form = kind, self._resource.group_version, self._options.form
        return self._texts.text(obj, form, made, self._clock.monotonic())

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
