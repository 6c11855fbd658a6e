"""watch: what there is, if that is wanted, and then every change as it becomes durable.

What an object's change means to a client depends on its selector: one that no longer fits is gone for it
(`transform`, pure). After each burst of events comes a bookmark, for who wants them, so that a client that connects
again knows a revision of ours and need not list anew.
"""

from collections.abc import Generator, Iterator
from typing import Final, NamedTuple

import msgspec

from beehive import Clock
from edged.server.answers import Peer, Stream
from modules.metaserver.errors import ApiError
from modules.metaserver.forms import Shown
from modules.metaserver.options import ReadOptions
from modules.metaserver.resources import Resource
from modules.metaserver.selectors import Selector
from modules.metaserver.view import Change, TooOldError, View, heard

BOOKMARK_SECONDS: Final = 60.0
"""Between bookmarks while nothing happens (an API server: about a minute)."""

LONGEST_WAIT: Final = 3600.0
"""Seconds that a watch waits in one go."""

_INITIAL_END: Final = {"k8s.io/initial-events-end": "true"}


class WatchEvent(NamedTuple):
    """What a client is told of an object."""

    type: str
    text: bytes


def transform(change: Change, selector: Selector) -> WatchEvent | None:
    """What a change means to who sees only what a selector selects; None: nothing."""
    was = _selected(change.before, selector)
    is_ = _selected(change.after, selector)
    if is_ is not None:
        return WatchEvent("ADDED" if was is None else "MODIFIED", is_)
    if was is not None:
        return WatchEvent("DELETED", was)
    return None


def _selected(text: bytes | None, selector: Selector) -> bytes | None:
    if text is None or selector.selects_all or selector.selects(msgspec.json.decode(text)):
        return text
    return None


class Watcher:
    """See the module's docstring."""

    def __init__(self, view: View, clock: Clock) -> None:
        self._view = view
        self._clock = clock

    def watch(self, resource: Resource, namespace: str, options: ReadOptions) -> Stream:
        """The stream of events. Raises ApiError (410) when the history does not reach back so far."""
        start = self._start(options)
        return Stream(
            "application/json",
            lambda peer: _Watch(self._view, self._clock, resource, namespace, options).pieces(peer, start),
            lambda: None,
        )

    def _start(self, options: ReadOptions) -> int | None:
        if options.revision in ("", "0") or options.initial_events:
            return None
        text = options.revision
        revision = int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else -1
        if not self._view.knows(revision):
            raise _too_old(text)
        return revision


class _Watch:
    """One client's."""

    def __init__(self, view: View, clock: Clock, resource: Resource, namespace: str, options: ReadOptions) -> None:
        self._view = view
        self._clock = clock
        self._resource = resource
        self._namespace = namespace
        self._options = options
        self._marked = clock.monotonic()
        """When a bookmark was sent last."""

    def pieces(self, peer: Peer, start: int | None) -> Generator[bytes, None, None]:
        """The events, as JSON texts with newlines between them; `start` None begins with what there is."""
        deadline = self._clock.monotonic() + self._options.seconds
        with self._view.listening() as descriptor:
            revision = start
            if revision is None:
                revision, first = self._first()
                yield from first
            gone = False
            while not gone:
                heard(descriptor)
                try:
                    revision, changes = self._view.since(revision, self._resource.token)
                except TooOldError:
                    yield _event("ERROR", msgspec.json.encode(_too_old(str(revision)).status()))
                    return
                yield from self._told(changes, revision)
                left = deadline - self._clock.monotonic()
                gone = left <= 0 or peer.gone_within(min(left, self._until_bookmark()), descriptor)

    def _first(self) -> tuple[int, list[bytes]]:
        revision, entries = self._view.objects(self._resource.token, self._namespace)
        texts = [text for _, text in entries if _selected(text, self._options.selector) is not None]
        shown = self._shown()
        events = [_event("ADDED", shown.one(text)) for text in texts]
        if self._options.initial_events:
            events.append(self._bookmark(revision, _INITIAL_END))
        return revision, events

    def _told(self, changes: list[Change], revision: int) -> Iterator[bytes]:
        """Events, and a bookmark when there were any or none was sent for long."""
        events = b"".join(self._events(changes))
        if events:
            yield events
        if self._options.bookmarks and (events or self._until_bookmark() <= 0):
            yield self._bookmark(revision)

    def _until_bookmark(self) -> float:
        """Seconds until the next one is due; without bookmarks nothing is due, and the wait is as long as any."""
        due = self._marked + BOOKMARK_SECONDS if self._options.bookmarks else float("inf")
        return max(0.0, min(due - self._clock.monotonic(), LONGEST_WAIT))

    def _events(self, changes: list[Change]) -> Iterator[bytes]:
        shown = self._shown()
        for change in changes:
            event = transform(change, self._options.selector)
            if event is not None and self._namespace in ("", change.key.namespace):
                yield _event(event.type, shown.one(event.text))

    def _bookmark(self, revision: int, annotations: dict[str, str] | None = None) -> bytes:
        self._marked = self._clock.monotonic()
        metadata: dict[str, object] = {"resourceVersion": str(revision), "creationTimestamp": None}
        if annotations:
            metadata["annotations"] = annotations
        return _event("BOOKMARK", self._shown().nothing(metadata))

    def _shown(self) -> Shown:
        return Shown(self._resource, self._options.form, self._options.included, self._clock.now())


def _event(kind: str, text: bytes) -> bytes:
    return msgspec.json.encode({"type": kind, "object": msgspec.Raw(text)}) + b"\n"


def _too_old(revision: str) -> ApiError:
    return ApiError(410, f"too old resource version: {revision[:40]}; list again")
