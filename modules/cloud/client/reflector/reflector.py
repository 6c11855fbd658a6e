"""The reflector of one kind: a list, then a watch from the list's version, and the recovery when one of them fails."""

import random
from collections.abc import Iterator
from typing import Final

from modules.cloud.client.reflector.effects import (
    Added,
    CancelRequest,
    Change,
    Deleted,
    EpochChanged,
    Modified,
    ReflectorEffect,
    Refused,
    Retrying,
    StartRequest,
    Synced,
    WakeReflectorAt,
)
from modules.cloud.client.reflector.observations import (
    Bookmark,
    ListPage,
    Observation,
    ObservedEvent,
    ObservedObject,
    ReadFailed,
    ReadRefusal,
    WatchEnded,
    WatchError,
)
from modules.cloud.client.reflector.request_state import RunningRequest, Step, is_lower
from modules.cloud.client.reflector.selection import ListRequest, Selection, WatchRequest
from modules.cloud.client.retry import RetryDelays

SILENCE: Final = 120.0
"""Seconds without an object or a bookmark after which the objects are listed; API servers send a bookmark each 60 s.

It is doubled for each silence that follows on one, up to `LONGEST_SILENCE`, for servers without bookmarks.
"""
LONGEST_SILENCE: Final = 1200.0

REFUSED_SECONDS: Final = (30.0, 60.0)
"""Between these a refused list is asked for again."""

MAX_PAGES: Final = 4000
"""Pages that a list has at most."""

_SHORTEST_TIMEOUT: Final = 300
_LONGEST_TIMEOUT: Final = 600
"""Seconds after which a server ends a watch (client-go: 5 to 10 minutes)."""

_SHORTEST_WATCH: Final = 1.0
"""Seconds; a watch that ends sooner counts as failed (client-go's VeryShortWatchError)."""

_WATCH_AGAIN: Final = frozenset({429, 502, 503, 504})
"""Statuses of a watch that say nothing about its version."""

_GONE: Final = 410


class Silence:
    """When a server last told something about its state, and when it will have been silent for too long."""

    def __init__(self) -> None:
        self.since = 0.0
        self._in_a_row = 0

    @property
    def ends_at(self) -> float:
        """Return when the objects are to be listed."""
        return self.since + min(LONGEST_SILENCE, SILENCE * 2.0 ** min(self._in_a_row, 10))

    def is_too_long(self, now: float) -> bool:
        """Return whether the objects are to be listed."""
        return now >= self.ends_at

    def listed(self, now: float) -> None:
        """Note a complete list."""
        self.since = now

    def broken(self, now: float) -> None:
        """Note an object or a bookmark."""
        self.since = now
        self._in_a_row = 0

    def prolong(self) -> None:
        """Note that a watch was silent for too long, so that the next one may be silent for longer."""
        self._in_a_row += 1


class KnownObjects:
    """The last uid and version of each object. Turns observations into changes; versions are compared by equality."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], tuple[str, str, int]] = {}
        """By namespace and name: uid, version and the last list that had it."""
        self._list = 0
        self._first_list = 0
        """The first list whose versions can be compared with later ones."""

    def __len__(self) -> int:
        return len(self._known)

    def has_newer(self, observed: ObservedObject) -> bool:
        """Return whether a list had an object in a newer version than the event's.

        The pages of a list may have objects that are newer than the list's version, if the server has no snapshots. A
        watch from that version then reports older states of these objects.
        """
        known = self._known.get((observed.namespace, observed.name))
        return known is not None and is_lower(observed.resource_version, known[1])

    def followed(self, observed: ObservedObject) -> Modified | None:
        """Note a state that is known to follow the known one, and return the change; None if that is not known."""
        key = observed.namespace, observed.name
        known = self._known.get(key)
        if known is None or not observed.status_of or known[:2] != (observed.uid, observed.status_of):
            return None
        self._known[key] = observed.uid, observed.resource_version, self._list
        return Modified(observed)

    def begin_list(self) -> None:
        """Note that a list begins; the observations until `end_list` are its entries."""
        self._list += 1

    def observe(self, observed: ObservedObject, *, is_listed: bool = False) -> Iterator[Change]:
        """Note that an object exists, by a watch or a list, and yield the changes; none for a version that is known.

        An object with another uid is another object: the known one no longer exists.
        """
        key = observed.namespace, observed.name
        known = self._known.get(key)
        self._known[key] = observed.uid, observed.resource_version, self._list
        if known is None:
            yield Added(observed, is_listed)
        elif known[0] != observed.uid:
            yield _gone(key, known)
            yield Added(observed, is_listed)
        elif known[1] != observed.resource_version or known[2] < self._first_list:
            yield Modified(observed, is_listed)

    def forget_versions(self) -> None:
        """Note that the server gives versions a second time: objects that are observed later count as new even with a
        known version.
        """
        self._list += 1
        self._first_list = self._list

    def remove(self, observed: ObservedObject) -> Iterator[Change]:
        """Note that an object was deleted, and yield its deletion; nothing if it was not known.

        If the known one has another uid, it was deleted as well, since its name was free for this one.
        """
        key = observed.namespace, observed.name
        known = self._known.pop(key, None)
        if known is not None:
            yield Deleted(observed) if known[0] == observed.uid else _gone(key, known)

    def end_list(self, version: str) -> Iterator[Change]:
        """Yield the deletions of the known objects that the list did not have: they were deleted before its version."""
        missing = [(key, known) for key, known in self._known.items() if known[2] != self._list]
        for key, known in missing:
            del self._known[key]
            yield _gone(key, known, version)


def _gone(key: tuple[str, str], known: tuple[str, str, int], version: str = "") -> Deleted:
    return Deleted(ObservedObject(*key, known[0], version or known[1]))


class Reflector:
    """The knowledge of the objects of a selection, kept up to date.

    Each method takes an event, with the time where it matters, and returns the resulting effects, in order.
    Observations carry the number of their `StartRequest`; observations of earlier requests are ignored. At most one
    request is under way. Changes of one object come in order, none twice with the same version while versions do not go
    back.

    A watch goes on after the last version that was seen. The objects are listed again when the server does not have
    that version any more, and when no object and no bookmark came for `SILENCE` seconds, over all watches since: a
    server that was restored to an older state accepts a watch of a version that it has not reached, without an error.

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

    def on_observation(self, number: int, observation: Observation, now: float) -> list[ReflectorEffect]:
        """Take something that the server has sent for a request, or the reason why no more comes."""
        request = self._request
        if request is None or request.number != number:
            return []
        match observation:
            case ObservedEvent():
                return self._changed(observation, now)
            case Bookmark():
                self._advance(observation.resource_version, now)
                return []
            case _:
                return list(self._ended(request, observation, now))

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

    def _ended(self, request: RunningRequest, observation: Observation, now: float) -> Iterator[ReflectorEffect]:
        """Take the end of a request, expected or not."""
        match observation:
            case ListPage():
                self._request = None
                yield from self._page_ended(request, observation, now)
            case WatchEnded():
                self._request = None
                yield from self._watch_ended(request, now)
            case WatchError():
                step = Step.LIST if observation.code == _GONE else Step.WATCH
                yield from self._retry(f"the watch ended with {observation.code}: {observation.message}", step, now)
            case ReadRefusal():
                self._request = None
                yield from self._refused(request, observation, now)
            case ReadFailed():
                if not observation.is_malformed:
                    self._request = None
                again = request.is_watch and not observation.is_malformed
                yield from self._retry(observation.why, Step.WATCH if again else Step.LIST, now)

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
        yield StartRequest(self._number, ListRequest(self._selection, token, paged=paged))

    def _page_ended(self, request: RunningRequest, page: ListPage, now: float) -> Iterator[ReflectorEffect]:
        if page.token and self._pages >= MAX_PAGES:
            yield from self._retry(f"the list has more than {MAX_PAGES} pages", Step.LIST, now)
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
        yield from self._page_observed(request, page)
        if not page.token:
            yield from self._list_ended(now)

    def _epoch_changed(self, previous: str, current: str) -> Iterator[ReflectorEffect]:
        self._version = self._list_version = current
        self._known.forget_versions()
        yield EpochChanged(previous, current)

    def _page_observed(self, request: RunningRequest, page: ListPage) -> Iterator[ReflectorEffect]:
        if not request.token:
            self._list_version = page.resource_version
        self.dropped += page.dropped
        for each in page.objects:
            yield from self._known.observe(each, is_listed=True)

    def _list_ended(self, now: float) -> Iterator[ReflectorEffect]:
        yield from self._known.end_list(self._list_version)
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
        seconds = self._source.randint(_SHORTEST_TIMEOUT, _LONGEST_TIMEOUT)
        yield StartRequest(self._number, WatchRequest(self._selection, self._version, seconds))
        yield WakeReflectorAt(self._silence.ends_at)

    def _changed(self, event: ObservedEvent, now: float) -> list[ReflectorEffect]:
        observed = event.object
        if observed is None or event.type not in {"ADDED", "MODIFIED", "DELETED"}:
            self.dropped += 1
            return []
        self._advance(observed.resource_version, now)
        if (modified := self._known.followed(observed)) is not None:
            return [modified]
        if self._known.has_newer(observed):
            return []
        return [*(self._known.remove(observed) if event.type == "DELETED" else self._known.observe(observed))]

    def _advance(self, version: str, now: float) -> None:
        if not version:
            return
        self._version = version
        self._silence.broken(now)
        self._delays.reset()

    def _watch_ended(self, request: RunningRequest, now: float) -> Iterator[ReflectorEffect]:
        if now - request.started >= _SHORTEST_WATCH:
            self._delays.reset()
            yield from self._watch(now)
        else:
            yield from self._retry("the watch ended at once", Step.WATCH, now)

    # Failures

    def _refused(self, request: RunningRequest, refusal: ReadRefusal, now: float) -> Iterator[ReflectorEffect]:
        status = refusal.status
        if status == _GONE and request.token:
            yield from self._list(now, paged=False)
        elif 400 <= status < 500 and status not in {_GONE, 429}:
            self._wait(Step.LIST, now + self._source.uniform(*REFUSED_SECONDS))
            yield Refused(status, refusal.message)
            yield WakeReflectorAt(self._wake_at)
        else:
            again = request.is_watch and status in _WATCH_AGAIN
            why = f"the API server answered {status}: {refusal.message}"
            yield from self._retry(why, Step.WATCH if again else Step.LIST, now, refusal.retry_after)

    def _retry(self, why: str, step: Step, now: float, at_least: float = 0.0) -> Iterator[ReflectorEffect]:
        yield from self._cancelled()
        self._wait(step, now + max(at_least, self._delays.next()))
        yield Retrying(why, self._wake_at)
        yield WakeReflectorAt(self._wake_at)

    def _wait(self, step: Step, time: float) -> None:
        self._next = step
        self._wake_at = time
