"""The reflector of one kind: a list, then a watch from the list's version, and the recovery when one of them fails."""

import random
from collections.abc import Iterator
from typing import Final

from beehive.printable import clipped
from modules.cloud.client.reflector.bodies import MAX_REFUSAL
from modules.cloud.client.reflector.decoding import (
    ListPage,
    MalformedError,
    WatchedEvent,
    event_of,
    object_of,
    page_of,
    refusal_of,
    version_of,
)
from modules.cloud.client.reflector.effects import (
    CancelRequest,
    EpochChanged,
    ReflectorEffect,
    Refused,
    Retrying,
    StartRequest,
    Synced,
    WakeReflectorAt,
)
from modules.cloud.client.reflector.known_objects import KnownObjects
from modules.cloud.client.reflector.request_state import RunningRequest, Step, is_lower
from modules.cloud.client.reflector.selection import Selection
from modules.cloud.client.reflector.silence import Silence
from modules.cloud.client.retry import RetryDelays, retry_after
from modules.cloud.client.transport import ResponseHead

REFUSED_SECONDS: Final = (30.0, 60.0)
"""Between these a refused list is asked for again."""
MAX_PAGES: Final = 4000
"""Pages that a list has at most."""
_SHORTEST_WATCH: Final = 1.0
"""Seconds; a watch that ends sooner counts as failed (client-go's VeryShortWatchError)."""
_WATCH_AGAIN: Final = frozenset({429, 502, 503, 504})
"""Statuses of a watch that say nothing about its version."""
_GONE: Final = 410


class Reflector:
    """Keeps the knowledge of the objects of a selection up to date.

    Each method takes an event, with the time where it matters, and returns the resulting effects, in order. Responses
    carry the number of their `StartRequest`; those of an earlier request are ignored. At most one request is under way.
    Changes of one object come in order, none twice with the same version while versions do not go back.

    A watch goes on after the last version that was seen. The objects are listed again when the server does not have
    that version any more, and when no object and no bookmark came for `SILENCE` seconds, over all watches since: a
    server that was restored to an older state accepts a watch of a version that it has not reached, and says nothing.

    Args:
        selection: the objects.
        source: of jitter and of the duration of watches.
    """

    def __init__(self, selection: Selection, source: random.Random) -> None:
        self._selection = selection
        self._source = source
        self._known = KnownObjects()
        self._delays = RetryDelays(source)
        self._request: RunningRequest | None = None
        self._number = 0
        self._next = Step.NOTHING
        self._wake_at = 0.0
        self._version = ""
        """After which a watch begins."""
        self._list_version = ""
        """The version of the present or the last list."""
        self._pages = 0
        self._silence = Silence()
        self.dropped = 0
        """Entries and events without an object that has a name."""

    def __len__(self) -> int:
        """Return the number of known objects."""
        return len(self._known)

    @property
    def heard_at(self) -> float:
        """When the server last told something of the objects: a complete list, an object or a bookmark; 0 for never."""
        return self._silence.since

    def start(self, now: float) -> list[ReflectorEffect]:
        """Begin with a list."""
        return list(self._list(now))

    def stop(self) -> list[ReflectorEffect]:
        """End; only `start` goes on, and reports the changes until then."""
        self._next = Step.NOTHING
        return list(self._cancelled())

    def on_head(self, number: int, head: ResponseHead) -> None:
        """Take the beginning of a response."""
        request = self._request
        if request is not None and request.number == number:
            request.head = head

    def on_data(self, number: int, data: bytes, now: float) -> list[ReflectorEffect]:
        """Take a piece of a response's body, wherever it is cut."""
        request = self._request
        if request is None or request.number != number:
            return []
        return list(self._read(request, data, now))

    def on_end(self, number: int, now: float) -> list[ReflectorEffect]:
        """Take the end of a complete response."""
        request = self._finished(number)
        if request is None:
            return []
        if not request.is_accepted:
            return list(self._refused(request, now))
        return list(self._watch_ended(request, now) if request.is_watch else self._page_ended(request, now))

    def on_error(self, number: int, error: Exception, now: float) -> list[ReflectorEffect]:
        """Take the reason why a response is not complete."""
        request = self._finished(number)
        if request is None:
            return []
        if request.is_refused:
            return list(self._refused(request, now))
        return list(self._retry(clipped(str(error)), Step.WATCH if request.is_watch else Step.LIST, now))

    def on_wake(self, now: float) -> list[ReflectorEffect]:
        """Take that a time of `WakeReflectorAt` has come; earlier ones do no harm."""
        if self._request is None:
            return list(self._woken(now))
        if not self._request.is_watch:
            return []
        if not self._silence.is_too_long(now):
            return [WakeReflectorAt(self._silence.ends_at)]
        why = f"no object and no bookmark for {now - self._silence.since:.0f} s"
        self._silence.prolong()
        return [*self._cancelled(), Retrying(why, now), *self._list(now)]

    def _woken(self, now: float) -> Iterator[ReflectorEffect]:
        if self._next is Step.NOTHING:
            return
        if now < self._wake_at:
            yield WakeReflectorAt(self._wake_at)
        else:
            yield from self._watch(now) if self._next is Step.WATCH else self._list(now)

    def _finished(self, number: int) -> RunningRequest | None:
        """Return the request with a number if it is the one under way, which it is no more."""
        request = self._request
        if request is None or request.number != number:
            return None
        self._request = None
        return request

    def _cancelled(self) -> Iterator[ReflectorEffect]:
        if self._request is not None:
            yield CancelRequest(self._request.number)
            self._request = None

    # Lists

    def _list(self, now: float, *, paged: bool = True) -> Iterator[ReflectorEffect]:
        self._known.begin_list()
        self._pages = 0
        yield from self._page("", now, paged=paged)

    def _page(self, token: str, now: float, *, paged: bool) -> Iterator[ReflectorEffect]:
        self._number += 1
        self._pages += 1
        self._request = RunningRequest(self._number, is_watch=False, started=now, token=token, paged=paged)
        yield StartRequest(self._number, self._selection.list_request(token, paged=paged))

    def _page_ended(self, request: RunningRequest, now: float) -> Iterator[ReflectorEffect]:
        try:
            page = page_of(request.body.joined())
            if page.token and self._pages >= MAX_PAGES:
                raise MalformedError("a list", f"it has more than {MAX_PAGES} pages")
        except MalformedError as error:
            yield from self._retry(str(error), Step.LIST, now)
            return
        seen = (self._version, self._list_version)
        previous = next((each for each in seen if is_lower(page.resource_version, each)), "")
        if previous:
            yield from self._epoch_changed(previous, page.resource_version)
        if previous and request.token:
            yield from self._retry("the versions went back between the pages of a list", Step.LIST, now)
            return
        if page.token:  # the server makes the next page while the objects of this one are taken over
            yield from self._page(page.token, now, paged=request.paged)
        yield from self._observed(request, page)
        if not page.token:
            yield from self._list_ended(now)

    def _epoch_changed(self, previous: str, current: str) -> Iterator[ReflectorEffect]:
        self._version = self._list_version = current
        self._known.forget_versions()
        yield EpochChanged(previous, current)

    def _observed(self, request: RunningRequest, page: ListPage) -> Iterator[ReflectorEffect]:
        if not request.token:
            self._list_version = page.resource_version
        self.dropped += page.dropped
        for each in page.objects:
            yield from self._known.observe(each)

    def _list_ended(self, now: float) -> Iterator[ReflectorEffect]:
        yield from self._known.end_list()
        self._version = self._list_version
        self._silence.listed(now)
        yield Synced(self._version)
        yield from self._watch(now)

    # Watches

    def _watch(self, now: float) -> Iterator[ReflectorEffect]:
        if self._silence.is_too_long(now):
            yield from self._list(now)
            return
        self._number += 1
        self._request = RunningRequest(self._number, is_watch=True, started=now)
        yield StartRequest(self._number, self._selection.watch_request(self._version, self._source))
        yield WakeReflectorAt(self._silence.ends_at)

    def _read(self, request: RunningRequest, data: bytes, now: float) -> Iterator[ReflectorEffect]:
        try:
            if not request.is_accepted:
                request.body.add_within(data, MAX_REFUSAL)
            elif not request.is_watch:
                request.body.add(data)
            else:
                for line in request.lines.add(data):
                    yield from self._event(event_of(line), now)
                    if self._request is not request:
                        return
        except MalformedError as error:
            yield from self._retry(str(error), Step.LIST, now)

    def _event(self, event: WatchedEvent, now: float) -> Iterator[ReflectorEffect]:
        if event.type == "ERROR":
            refusal = refusal_of(event.body)
            step = Step.LIST if refusal.code == _GONE else Step.WATCH
            yield from self._retry(f"the watch ended with {refusal.code}: {refusal.message}", step, now)
        elif event.type == "BOOKMARK":
            self._advance(version_of(event.body), now)
        else:
            yield from self._changed(event, now)

    def _changed(self, event: WatchedEvent, now: float) -> Iterator[ReflectorEffect]:
        observed = object_of(event.body)
        if observed is None or event.type not in {"ADDED", "MODIFIED", "DELETED"}:
            self.dropped += 1
            return
        self._advance(observed.resource_version, now)
        if self._known.has_newer(observed):
            return
        yield from self._known.remove(observed) if event.type == "DELETED" else self._known.observe(observed)

    def _advance(self, version: str, now: float) -> None:
        if not version:
            return
        self._version = version
        self._silence.broken(now)
        self._delays.reset()

    def _watch_ended(self, request: RunningRequest, now: float) -> Iterator[ReflectorEffect]:
        if request.lines.is_cut:
            yield from self._retry("the watch ended within an event", Step.WATCH, now)
        elif now - request.started >= _SHORTEST_WATCH:
            self._delays.reset()
            yield from self._watch(now)
        else:
            yield from self._retry("the watch ended at once", Step.WATCH, now)

    # Failures

    def _refused(self, request: RunningRequest, now: float) -> Iterator[ReflectorEffect]:
        head = request.head or ResponseHead(0)
        message = refusal_of(request.body.joined()).message
        if head.status == _GONE and request.token:
            yield from self._list(now, paged=False)
        elif 400 <= head.status < 500 and head.status not in {_GONE, 429}:
            self._wait(Step.LIST, now + self._source.uniform(*REFUSED_SECONDS))
            yield Refused(head.status, message)
            yield WakeReflectorAt(self._wake_at)
        else:
            again = request.is_watch and head.status in _WATCH_AGAIN
            why = f"the API server answered {head.status}: {message}"
            yield from self._retry(why, Step.WATCH if again else Step.LIST, now, retry_after(head))

    def _retry(self, why: str, step: Step, now: float, at_least: float = 0.0) -> Iterator[ReflectorEffect]:
        yield from self._cancelled()
        self._wait(step, now + max(at_least, self._delays.next()))
        yield Retrying(why, self._wake_at)
        yield WakeReflectorAt(self._wake_at)

    def _wait(self, step: Step, time: float) -> None:
        self._next = step
        self._wake_at = time
