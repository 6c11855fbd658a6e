"""Watches: the changes of a list, as they happen."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from modules.apimachinery.printing.fields import JsonObject, map_at, text_at
from modules.cli.errors import KubectlError, StatusError, TimedOutError
from modules.cli.rest import decoded
from modules.kubectl.resources import Listing, ObjectRef, objects_of

if TYPE_CHECKING:
    from collections.abc import Generator

    from modules.kubectl.session import Session

ADDED: Final = "ADDED"
MODIFIED: Final = "MODIFIED"
DELETED: Final = "DELETED"
_GONE: Final = 410
_NO_WATCH: Final = 405
"""As cloudcore answers for objects of a cluster."""
_PAUSE: Final = 1.0
"""Seconds before a watch is begun again that the server ended without a change."""


class WatchedChange(NamedTuple):
    """A change of an object."""

    event: str
    """`ADDED`, `MODIFIED` or `DELETED`."""
    object: JsonObject
    """The object after the change; the last state of a deleted one."""


def listing_of(wanted: ObjectRef | Listing) -> Listing:
    """Return the list that holds the wanted objects: a single object is a list of one."""
    if isinstance(wanted, Listing):
        return wanted
    return Listing(wanted.resource, wanted.namespace, (("fieldSelector", f"metadata.name={wanted.name}"),))


def changes(session: Session, listing: Listing, version: str, *, ends: float | None = None) -> Generator[WatchedChange]:
    """Yield each change after a version of the list, without an end; a watch that the server ends is begun again.

    Args:
        session: the session.
        listing: the list to watch.
        version: the list's resourceVersion; empty begins with all objects as ADDED.
        ends: time limit for the whole, in seconds of `time.monotonic`; None waits for ever.

    Raises:
        StatusError: 410 where the server has forgotten the version; others as the server refuses.
        TimedOutError: `ends` has come.
    """
    path = listing.resource.path(listing.namespace)
    while True:
        query = [*listing.query, ("watch", "true"), ("allowWatchBookmarks", "true"), ("resourceVersion", version)]
        seen = False
        for line in session.client.lines(path, query, ends=ends):
            seen = True
            event, obj = _decoded(line)
            version = text_at(obj, "metadata.resourceVersion") or version
            if event in (ADDED, MODIFIED, DELETED):
                yield WatchedChange(event, obj)
        if not seen:
            time.sleep(_PAUSE)


def followed(session: Session, listing: Listing, version: str) -> Generator[WatchedChange]:
    """Yield each change after a version of the list, without an end, as `changes` does.

    Where the server has forgotten the version, all objects of the list are yielded as MODIFIED, and then the later
    changes.
    """
    while True:
        try:
            yield from changes(session, listing, version)
        except StatusError as error:
            if error.code != _GONE:
                raise
        objects, version = objects_of(session, listing)
        yield from (WatchedChange(MODIFIED, obj) for obj in objects)


def states(session: Session, ref: ObjectRef, *, ends: float | None = None) -> Generator[JsonObject | None]:
    """Yield an object as it is, then after each change, without an end; None while it does not exist. Where the server
    lets nobody watch its kind, it is read each second, and yielded each time.

    Raises:
        TimedOutError: `ends` has come.
        StatusError: as the server refuses.
    """
    listing = listing_of(ref)
    while True:
        objects, version = objects_of(session, listing)
        yield objects[0] if objects else None
        try:
            for event, obj in changes(session, listing, version, ends=ends):
                yield None if event == DELETED else obj
        except StatusError as error:
            if error.code == _NO_WATCH:
                _pause(ends)
            elif error.code != _GONE:
                raise


def _pause(ends: float | None) -> None:
    left = math.inf if ends is None else ends - time.monotonic()
    if left <= 0:
        raise TimedOutError
    time.sleep(min(_PAUSE, left))


def _decoded(line: bytes) -> tuple[str, dict[str, Any]]:
    found = decoded(line)
    obj = map_at(found, "object")
    if found.get("type") == "ERROR":
        code = obj.get("code")
        reason, message = text_at(obj, "reason"), text_at(obj, "message")
        raise StatusError(code if isinstance(code, int) else 500, reason, message or "the watch was ended")
    if not obj:
        raise KubectlError("a line of the watch is not an event")
    return text_at(found, "type"), obj
