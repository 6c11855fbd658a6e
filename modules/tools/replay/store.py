"""The store of a replay."""

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
from modules.tools.replay.event_outputs import is_event

T = TypeVar("T", bound=int)

_EARLY = 0.25
"""Seconds by which a write may come before the recorded one that failed."""
_NEAR = 0.05
"""Seconds by which a commit may begin before the recorded one, to end with it."""
_LATE = 1.0
"""Seconds by which it may begin after."""

_TEXT = re.compile(r"(.*?)(?:: (.*?))?(?: \((.*)\))?", re.DOTALL)
"""Form of an error's text; see `BeehiveError`."""


class RecordedStore:
    """A real store with the recorded run's initial rows, which fails when the recorded one did
    (`metamanager.store.Store`).

    A commit lasts until the recorded commit of the same change ended. If that one failed, all its changes fail, even if
    they are spread over several commits now.

    Args:
        path: path of the database; it is made with the recorded rows if it does not exist.
        actors: runtime of the replay.
        commits: recorded commits, in their order.
    """

    def __init__(self, path: Path, actors: Runtime, commits: list[StoreCommit]) -> None:
        is_new = not path.exists()
        self._inner = SqliteStore(path, keeps_room=False)
        self._actors = actors
        self._clock = actors.clock
        made = [commit for commit in commits if commit.operation == "commit"]
        self._failures = deque(commit for commit in made if commit.error)
        self._tried: dict[tuple[str, str], list[StoreCommit]] = {}
        """Commits and refusals, by operation and row."""
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
        """Changes of the last failed commit that are still to be made in the replay."""
        self.get = self._inner.get
        self.get_all = self._inner.get_all
        self.close = self._inner.close
        if is_new:
            for commit in commits:
                if commit.operation == "opened":
                    self._fill(commit)
                    break

    def put(self, row: Row) -> bool:
        """Put a row, or fail as recorded."""
        self._check("put", row.key)
        return self._note(row.key, self._inner.put(row))

    def delete(self, key: str, uid: str = "", cause: Cause = UNNOTED, now_ms: int = 0) -> bool:
        """Delete a row, or fail as recorded."""
        self._check("delete", key)
        return self._note(key, self._inner.delete(key, uid, cause, now_ms))

    def delete_owned(self, kind: str, uid: str) -> int:
        """Delete the rows of an owner, or fail as recorded."""
        self._check("delete", f"{uid}/*")
        return self._note(f"{uid}/*", self._inner.delete_owned(kind, uid))

    def commit(self) -> None:
        """Commit after the recorded time, or fail as recorded."""
        changed = Counter(map(_name, self._changed))
        self._wait(self._take_time())
        failure = self._failure(changed)
        if failure is not None:
            self._inner.rollback()
            raise _error(failure, batch_lost=True)
        self._inner.commit()

    def make_room(self) -> bool:
        """Return False: the outcome is part of the records."""
        return False

    def rollback(self) -> None:
        """Undo the changes since the last commit."""
        self._changed.clear()
        self._inner.rollback()

    def _failure(self, changed: Counter[str]) -> StoreCommit | None:
        """Return the recorded failed commit if it has these changes, or if its time has come."""
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
        """Note a changed key; a row that stays as it was is in no recorded commit."""
        if changed:
            self._changed.add(key)
        return changed

    def _check(self, operation: str, key: str) -> None:
        """Raise the recorded refusal of a change, if the one nearest in time was refused."""
        now, tried = self._clock.monotonic(), self._tried.get((operation, _name(key)), [])
        nearest = min(tried, key=lambda one: abs(one.time - one.seconds - now), default=None)
        if nearest is not None and nearest.operation == REFUSED and abs(nearest.time - now) <= _EARLY:
            tried.remove(nearest)
            raise _error(nearest, batch_lost=False)

    def _take_time(self) -> float:
        """Return the seconds until the recorded commits of the changed rows ended."""
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
    """Return the recorded error; from its hint metamanager knows whether the database fails as before."""
    found = _TEXT.fullmatch(commit.error)
    assert found is not None  # noqa: S101 - every text is of that form
    attempt, on, hint = found.groups(default="")
    return StoreWriteError(attempt, on, hint, batch_lost=batch_lost)


def _name(key: str) -> str:
    """Return a row's key; for an event without the time that is part of it."""
    return key.rpartition(".")[0] if is_event(key) else key
