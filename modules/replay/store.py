"""The store of a replay: a real one with the rows that the recorded one was opened with, failing when that one did."""

from collections import deque
from pathlib import Path

from beehive import Runtime
from beehive.trace import StoreCommit
from metamanager.errors import StoreWriteError
from metamanager.recording import REFUSED
from metamanager.rows import UNNOTED, Cause, Row, row_of
from metamanager.sqlite_store import SqliteStore

_EARLY = 0.25
"""Seconds by which a write may come before the recorded one that failed."""
_NEAR = 0.05
"""Seconds by which a commit may begin before the recorded one, to end with it."""
_LATE = 1.0
"""Seconds by which it may come after."""


class RecordedStore:
    """See `metamanager.store.Store` and the module's docstring.

    A commit takes until the recorded one of the same change was through.

    Args:
        path: of the database; made with the recorded rows when it is not there.
        actors: of the replay.
        commits: that were recorded, in their order.
    """

    def __init__(self, path: Path, actors: Runtime, commits: list[StoreCommit]) -> None:
        is_new = not path.exists()
        self._inner = SqliteStore(path)
        self._actors = actors
        self._clock = actors.clock
        made = [commit for commit in commits if commit.operation == "commit"]
        self._failures = deque(commit for commit in made if commit.error)
        self._refused = [commit for commit in commits if commit.operation == REFUSED]
        self._commits: dict[str, deque[StoreCommit]] = {}
        for commit in made:
            for change in commit.changes:
                self._commits.setdefault(change.key, deque()).append(commit)
        self._changed: set[str] = set()
        self.get = self._inner.get
        self.get_all = self._inner.get_all
        self.close = self._inner.close
        if is_new:
            for commit in commits:
                if commit.operation == "opened":
                    self._fill(commit)
                    break

    def put(self, row: Row) -> bool:
        """See `Store`."""
        self._check(row.key)
        self._changed.add(row.key)
        return self._inner.put(row)

    def delete(self, key: str, uid: str = "", cause: Cause = UNNOTED, now_ms: int = 0) -> bool:
        """See `Store`."""
        self._check(key)
        self._changed.add(key)
        return self._inner.delete(key, uid, cause, now_ms)

    def delete_owned(self, kind: str, uid: str) -> int:
        """See `Store`."""
        self._check(f"{uid}/*")
        self._changed.add(f"{uid}/*")
        return self._inner.delete_owned(kind, uid)

    def commit(self) -> None:
        """See `Store`."""
        self._wait(self._take_time())
        failures, now = self._failures, self._clock.monotonic()
        if failures and failures[0].time - failures[0].seconds <= now + _EARLY:
            failure = failures.popleft()
            self._inner.rollback()
            raise StoreWriteError(failure.error, batch_lost=True)
        self._inner.commit()

    def rollback(self) -> None:
        """See `Store`."""
        self._changed.clear()
        self._inner.rollback()

    def _check(self, key: str) -> None:
        """Refuse a change that was refused."""
        now = self._clock.monotonic()
        for refused in self._refused:
            if refused.changes[0].key == key and abs(refused.time - now) <= _EARLY:
                self._refused.remove(refused)
                raise StoreWriteError(refused.error, batch_lost=False)

    def _take_time(self) -> float:
        """When the recorded commits of what has changed now were through."""
        now = until = self._clock.monotonic()
        for key in self._changed:
            commits = self._commits.get(key)
            while commits and commits[0].time < now - _LATE:
                commits.popleft()
            if commits and commits[0].time - commits[0].seconds <= now + _NEAR:
                until = max(until, commits.popleft().time)
        self._changed.clear()
        return until - now

    def _wait(self, seconds: float) -> None:
        if seconds > 0:
            over = self._actors.future()
            self._clock.after(seconds, over.set)
            over.get()

    def _fill(self, opened: StoreCommit) -> None:
        for change in opened.changes:
            self._inner.put(row_of(change.key, change.value, self._clock.now_ms()))
        self._inner.commit()
