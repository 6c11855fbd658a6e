"""The Kubernetes API for the node's owner: its cache exists only while the API is in use."""

import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from beehive import Clock, Timer
from beehive.http.request import Request
from beehive.http.responses import Reply
from beehive.http.router import HttpService
from beehive.on_failure import on_failure
from edged.server.snapshots import Snapshots
from modules.apimachinery.errors import ApiStatusError
from modules.edge.metaserver.live_status import LiveStatusUpdater
from modules.edge.metaserver.watch_cache import CacheKey, WatchCache
from modules.edge.metaserver.watch_cache_store import object_of, served_tokens

_BUSY_SECONDS: Final = 2.0
_CACHE_KIB: Final = 64

IDLE_SECONDS: Final = 60.0
"""Seconds without a request or a watch after which the cache is dropped."""
_REVISIONS_A_MILLISECOND: Final = 1 << 20
"""Revisions for each millisecond of the clock: more than a cache ever uses, so that the next cache begins above
them."""


class CommittedObjects:
    """A read-only connection to an SQLite database, while metamanager writes it: with a write-ahead log neither waits.

    Args:
        path: the database; a missing one has no objects.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None
        self._seen: tuple[int, ...] = ()

    def read_if_changed(self) -> dict[CacheKey, bytes] | None:
        """Return all served objects; None if nothing was committed since the last call.

        Raises:
            ApiStatusError: 503; the database cannot be read.
        """
        try:
            state, connection = self._state()
            if connection is not None and state == self._seen:
                return None
            rows = _rows(connection) if connection is not None else {}
        except (sqlite3.Error, UnicodeDecodeError, OSError) as error:
            self.close()
            reason = "a value stored as text is not text" if "decode" in str(error) else str(error)
            raise ApiStatusError(503, f"the node's store cannot be read: {self._path}: {reason}") from error
        self._seen = state
        return rows

    def close(self) -> None:
        """Close the database."""
        connection, self._connection, self._seen = self._connection, None, ()
        if connection is not None:
            connection.close()

    def _state(self) -> tuple[tuple[int, ...], sqlite3.Connection | None]:
        """Return numbers that change with each commit and when the file is replaced, and the open database; None
        without a file.
        """
        try:
            found = self._path.stat()
        except FileNotFoundError:
            self.close()
            return (), None
        connection = self._connection
        if connection is None or self._seen[:2] != (found.st_dev, found.st_ino):
            self.close()
            connection = self._connection = _connect(self._path)
        (version,) = connection.execute("PRAGMA data_version").fetchone()
        return (found.st_dev, found.st_ino, version), connection


def _rows(connection: sqlite3.Connection) -> dict[CacheKey, bytes]:
    found: dict[CacheKey, bytes] = {}
    for token in served_tokens():
        for (value,) in connection.execute("SELECT value FROM meta WHERE type = ?", (token,)):
            entry = object_of(token, str(value).encode())
            if entry is not None:
                found[entry[0]] = entry[1]
    return found


def _connect(path: Path) -> sqlite3.Connection:
    """Open the database; the caller makes sure that one thread at a time uses it."""
    uri = f"{path.absolute().as_uri()}?mode=ro"
    connection = sqlite3.connect(uri, uri=True, timeout=_BUSY_SECONDS, check_same_thread=False)
    with on_failure(connection.close):
        connection.execute("PRAGMA query_only=ON")
        connection.execute(f"PRAGMA cache_size=-{_CACHE_KIB}")
    return connection


class _Session(NamedTuple):
    """A cache, its sources, and the API that serves it."""

    cache: WatchCache
    store: CommittedObjects | None
    live: LiveStatusUpdater
    api: HttpService


class ApiOnDemand:
    """The API, served from a cache that is made for the first request and dropped after a minute without requests.

    The cache follows neither metamanager's commits nor edged's changes: each request brings it up to date, and a watch
    does so twice a second. So the node spends neither memory nor time on it without requests.

    Args:
        source: the node's SQLite database; None for another database, whose objects are not served.
        snapshots: statuses of pods and node.
        node: name of this node.
        clock: the hive's.
        make_api: makes the service for a cache; its watches call the function every now and then, which brings the
            cache up to date, and returns whether it is still in use.
    """

    def __init__(
        self,
        source: Path | None,
        snapshots: Snapshots,
        node: str,
        clock: Clock,
        make_api: Callable[[WatchCache, Callable[[], bool]], HttpService],
    ) -> None:
        self._source = source
        self._snapshots = snapshots
        self._node = node
        self._clock = clock
        self._make_api = make_api
        self._lock = threading.Lock()
        self._session: _Session | None = None
        self._timer: Timer | None = None
        self._used = clock.monotonic()
        self._revision = 0

    @property
    def in_use(self) -> bool:
        """Whether there is a cache."""
        return self._session is not None

    def serve(self, request: Request) -> Reply:
        """Return the reply."""
        try:
            with self._lock:
                session = self._session or self._begin()
                self._refresh(session)
        except ApiStatusError as error:
            return error.response()
        return session.api.serve(request)

    def close(self) -> None:
        """Drop the cache."""
        with self._lock:
            self._end()

    def _begin(self) -> _Session:
        first = max(self._revision, self._clock.now_ms() * _REVISIONS_A_MILLISECOND)
        cache = WatchCache(first)
        store = CommittedObjects(self._source) if self._source is not None else None
        if store is None:
            cache.load({})
        live = LiveStatusUpdater(self._snapshots, cache, self._node, whole=True)
        session = _Session(cache, store, live, self._make_api(cache, lambda: self._follow(session)))
        self._timer = self._clock.every(IDLE_SECONDS, self._end_if_idle)
        self._session = session
        return session

    def _follow(self, session: _Session) -> bool:
        """Bring the cache of a watch up to date, except for the store while it cannot be read. Return whether the cache
        is in use: a cache that was dropped while a client read nothing for long gets no more changes.
        """
        with self._lock:
            if session is not self._session:
                return False
            with suppress(ApiStatusError):
                self._refresh(session)
            return True

    def _refresh(self, session: _Session) -> None:
        """Bring the cache up to date. After an unforeseen error it is dropped: half of the changes may be in it, and
        the rest, which counts as read, would never be.

        Raises:
            ApiStatusError: 503; the store cannot be read now.
        """
        self._used = self._clock.monotonic()
        try:
            rows = session.store.read_if_changed() if session.store is not None else None
            if rows is not None:
                session.cache.load(rows)
            session.live.update()
        except ApiStatusError:
            raise
        except BaseException:
            self._end()
            raise

    def _end_if_idle(self) -> None:
        with self._lock:
            if self._clock.monotonic() - self._used >= IDLE_SECONDS:
                self._end()

    def _end(self) -> None:
        session, self._session = self._session, None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if session is not None:
            self._revision = session.cache.revision + 1
            if session.store is not None:
                session.store.close()
