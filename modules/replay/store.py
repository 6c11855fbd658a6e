"""The store of a replay: a real one with the rows that the recorded one was opened with, failing when that one did."""

import re
from collections import Counter, deque
from pathlib import Path
from typing import TypeVar

from beehive import Runtime
from beehive.trace import StoreCommit
from metamanager.errors import StoreWriteError
from metamanager.recording import REFUSED
from metamanager.rows import UNNOTED, Cause, Row, row_of
from metamanager.sqlite_store import SqliteStore
from modules.replay.event_outputs import is_event

T = TypeVar("T", bound=int)

_EARLY = 0.25
"""Seconds by which a write may come before the recorded one that failed."""
_NEAR = 0.05
"""Seconds by which a commit may begin before the recorded one, to end with it."""
_LATE = 1.0
"""Seconds by which it may come after."""

_TEXT = re.compile(r"(.*?)(?:: (.*?))?(?: \((.*)\))?", re.DOTALL)
"""What an error says; see `BeehiveError`."""


class RecordedStore:
    """See `metamanager.store.Store` and the module's docstring.

    A commit takes until the recorded one of the same change was through. When one failed, all its changes fail, though
    they may be in several commits now.

    Args:
        path: of the database; made with the recorded rows when it is not there.
        actors: of the replay.
        commits: that were recorded, in their order.
    """

    def __init__(self, path: Path, actors: Runtime, commits: list[StoreCommit]) -> None:
        is_new = not path.exists()
        self._inner = SqliteStore(path, keeps_room=False)
        self._actors = actors
        self._clock = actors.clock
        made = [commit for commit in commits if commit.operation == "commit"]
        self._failures = deque(commit for commit in made if commit.error)
        self._tried: dict[tuple[str, str], list[StoreCommit]] = {}
        """Commits and refusals by what was to be done to a row."""
        for commit in commits:
            for change in commit.changes if commit.operation in ("commit", REFUSED) else ():
                self._tried.setdefault((change.operation, _name(change.key)), []).append(commit)
        self._commits: dict[str, deque[StoreCommit]] = {}
        for commit in made:
            for key in {_name(change.key) for change in commit.changes}:
                self._commits.setdefault(key, deque()).append(commit)
        self._changed: set[str] = set()
        self._failed: StoreCommit | None = None
        self._to_fail: Counter[str] = Counter()
        """What the last commit that failed had and the replayed one had not."""
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
        self._check("put", row.key)
        return self._note(row.key, self._inner.put(row))

    def delete(self, key: str, uid: str = "", cause: Cause = UNNOTED, now_ms: int = 0) -> bool:
        """See `Store`."""
        self._check("delete", key)
        return self._note(key, self._inner.delete(key, uid, cause, now_ms))

    def delete_owned(self, kind: str, uid: str) -> int:
        """See `Store`."""
        self._check("delete", f"{uid}/*")
        return self._note(f"{uid}/*", self._inner.delete_owned(kind, uid))

    def commit(self) -> None:
        """See `Store`."""
        changed = Counter(map(_name, self._changed))
        self._wait(self._take_time())
        failure = self._failure(changed)
        if failure is not None:
            self._inner.rollback()
            raise _error(failure, batch_lost=True)
        self._inner.commit()

    def make_room(self) -> bool:
        """See `Store`. What became of it is recorded."""
        return False

    def rollback(self) -> None:
        """See `Store`."""
        self._changed.clear()
        self._inner.rollback()

    def _failure(self, changed: Counter[str]) -> StoreCommit | None:
        """The recorded commit that failed, if these changes were among its own or it is its time."""
        now, failures = self._clock.monotonic(), self._failures
        if self._failed and changed and now <= self._failed.time + _NEAR and changed <= self._to_fail:
            self._to_fail -= changed
            return self._failed
        if not failures or failures[0].time - failures[0].seconds > now + _EARLY:
            return None
        self._failed = failures.popleft()
        self._to_fail = Counter(_name(change.key) for change in self._failed.changes) - changed
        return self._failed

    def _note(self, key: str, changed: T) -> T:
        """Note what is to be committed: not what is as it was, which no commit was recorded of."""
        if changed:
            self._changed.add(key)
        return changed

    def _check(self, operation: str, key: str) -> None:
        """Refuse a change that was refused: of all that were tried alike, the one of this time."""
        now, tried = self._clock.monotonic(), self._tried.get((operation, _name(key)), [])
        nearest = min(tried, key=lambda one: abs(one.time - one.seconds - now), default=None)
        if nearest is not None and nearest.operation == REFUSED and abs(nearest.time - now) <= _EARLY:
            tried.remove(nearest)
            raise _error(nearest, batch_lost=False)

    def _take_time(self) -> float:
        """When the recorded commits of what has changed now were through."""
        now = until = self._clock.monotonic()
        for key in {_name(key) for key in self._changed}:
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


def _error(commit: StoreCommit, *, batch_lost: bool) -> StoreWriteError:
    """The error as it was: by its hint metamanager knows whether the database fails as it did before."""
    found = _TEXT.fullmatch(commit.error)
    assert found is not None  # noqa: S101 - every text is of that form
    attempt, on, hint = found.groups(default="")
    return StoreWriteError(attempt, on, hint, batch_lost=batch_lost)


def _name(key: str) -> str:
    """A row's key; of an event without the moment that is part of it."""
    return key.rpartition(".")[0] if is_event(key) else key
