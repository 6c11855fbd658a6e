"""watch: the present objects, if requested, then every change as it becomes durable."""

from collections.abc import Callable, Generator, Iterator
from typing import Final, NamedTuple

import msgspec

from beehive import Clock
from beehive.decoding import decode_json
from beehive.http.responses import Peer, Stream
from modules.apimachinery.errors import ApiStatusError
from modules.apimachinery.object_encoder import ObjectEncoder
from modules.apimachinery.options import ReadOptions
from modules.apimachinery.resources import Resource
from modules.apimachinery.selectors import Selector
from modules.apimachinery.watch_errors import error_event, failed_watch
from modules.edge.metaserver.watch_cache import CacheChange, TooOldError, WatchCache

BOOKMARK_SECONDS: Final = 60.0
"""Seconds between bookmarks without events (an API server: about a minute)."""

_ANY: Final = ("", "0")
"""Revisions of watches that may begin anywhere."""

LONGEST_WAIT: Final = 3600.0
"""Longest single wait of a watch, in seconds."""


class WatchSource(NamedTuple):
    """The source of a cache's changes while clients watch it."""

    refresh: Callable[[], bool] = lambda: True
    """Returns whether the cache is still kept up to date; if not, its watch ends."""
    seconds: float = LONGEST_WAIT
    """Longest time between two calls."""


FOLLOWED: Final = WatchSource()
"""A source that sends each change to the cache on its own."""


class WatchEvent(NamedTuple):
    """An event of one object."""

    type: str
    text: bytes


def transform(change: CacheChange, selector: Selector) -> WatchEvent | None:
    """Return the event of a change for a client with a selector; None without one.

    An object that the selector no longer selects is deleted for this client.
    """
    was = _selected(change.before, selector)
    is_ = _selected(change.after, selector)
    if is_ is not None:
        return WatchEvent("ADDED" if was is None else "MODIFIED", is_)
    if was is not None:
        return WatchEvent("DELETED", was)
    return None


def _selected(text: bytes | None, selector: Selector) -> bytes | None:
    if text is None or selector.selects_all or selector.selects(decode_json(text)):
        return text
    return None


class Watcher:
    """The server of watches of the cache.

    A client that asks for bookmarks gets one after each burst of events, so that it knows a revision when it connects
    again and need not list.

    Args:
        cache: has the objects and their latest changes.
        clock: for durations.
        source: brings the cache up to date.
    """

    def __init__(self, cache: WatchCache, clock: Clock, source: WatchSource = FOLLOWED) -> None:
        self._cache = cache
        self._clock = clock
        self._source = source

    def watch(self, resource: Resource, namespace: str, options: ReadOptions) -> Stream:
        """Return the stream of events; one error (410) when the history does not have the revision.

        A watch of no revision begins with the present objects, and says so, unless the client does not want them.
        """
        if options.revision in _ANY and options.initial_events is None:
            options = msgspec.structs.replace(options, initial_events=True)
        try:
            start = self._start(options)
        except TooOldError:
            return failed_watch(_too_old(options.revision).status())
        return Stream(
            "application/json",
            lambda peer: _Watch(self._cache, self._clock, resource, namespace, options, self._source).pieces(
                peer, start
            ),
            lambda: None,
        )

    def _start(self, options: ReadOptions) -> int | None:
        if options.initial_events:
            return None
        if options.revision in _ANY:
            return self._cache.revision
        text = options.revision
        revision = int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else -1
        if not self._cache.knows(revision):
            raise TooOldError
        return revision


class _Watch:
    """The watch of one client."""

    def __init__(
        self,
        cache: WatchCache,
        clock: Clock,
        resource: Resource,
        namespace: str,
        options: ReadOptions,
        source: WatchSource,
    ) -> None:
        self._source = source
        self._cache = cache
        self._clock = clock
        self._resource = resource
        self._namespace = namespace
        self._options = options
        self._marked = clock.monotonic()
        """Monotonic seconds of the last bookmark."""

    def pieces(self, peer: Peer, start: int | None) -> Generator[bytes, None, None]:
        """Yield events as lines of JSON; `start` None begins with the present objects."""
        deadline = self._clock.monotonic() + self._options.seconds
        with self._cache.listening() as wakeup:
            revision = start
            if revision is None:
                revision, first = self._first()
                yield from first
            gone = False
            while not gone:
                wakeup.clear()
                if not self._source.refresh():
                    return
                try:
                    revision, changes = self._cache.since(revision, self._resource.token)
                except TooOldError:
                    yield error_event(_too_old(str(revision)).status())
                    return
                yield from self._events_and_bookmark(changes, revision)
                left = deadline - self._clock.monotonic()
                gone = left <= 0 or peer.gone_within(
                    min(left, self._until_bookmark(), self._source.seconds), wakeup.fileno()
                )

    def _first(self) -> tuple[int, list[bytes]]:
        revision, entries = self._cache.objects(self._resource.token, self._namespace)
        texts = [text for _, text in entries if _selected(text, self._options.selector) is not None]
        encoder = self._encoder()
        events = [_event("ADDED", encoder.encode_object(text)) for text in texts]
        if self._options.initial_events and self._options.bookmarks:
            events.append(self._bookmark(revision, is_end=True))
        return revision, events

    def _events_and_bookmark(self, changes: list[CacheChange], revision: int) -> Iterator[bytes]:
        """Yield events, and a bookmark after events or when one is due."""
        events = b"".join(self._events(changes))
        if events:
            yield events
        if self._options.bookmarks and (events or self._until_bookmark() <= 0):
            yield self._bookmark(revision)

    def _until_bookmark(self) -> float:
        """Return the seconds until the next bookmark, at most `LONGEST_WAIT`."""
        due = self._marked + BOOKMARK_SECONDS if self._options.bookmarks else float("inf")
        return max(0.0, min(due - self._clock.monotonic(), LONGEST_WAIT))

    def _events(self, changes: list[CacheChange]) -> Iterator[bytes]:
        encoder = self._encoder()
        for change in changes:
            event = transform(change, self._options.selector)
            if event is not None and self._namespace in ("", change.key.namespace):
                yield _event(event.type, encoder.encode_object(event.text))

    def _bookmark(self, revision: int, *, is_end: bool = False) -> bytes:
        self._marked = self._clock.monotonic()
        return _event("BOOKMARK", self._encoder().encode_bookmark(revision, is_end=is_end))

    def _encoder(self) -> ObjectEncoder:
        return ObjectEncoder(self._resource, self._options.form, self._options.included, self._clock.now())


def _event(kind: str, text: bytes) -> bytes:
    return msgspec.json.encode({"type": kind, "object": msgspec.Raw(text)}) + b"\n"


def _too_old(revision: str) -> ApiStatusError:
    return ApiStatusError(410, f"too old resource version: {revision[:40]}; list again")
