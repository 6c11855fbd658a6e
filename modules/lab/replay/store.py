"""The store of a replay, and metamanager, whose commits it takes."""

import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from itertools import takewhile
from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace

from beehive import Module, ModuleName, Resource, ResourceType, Runtime
from beehive.trace import Change, StoreCommit
from metamanager.errors import StoreWriteError
from metamanager.module import MetaManager
from metamanager.recording import OPENED, REFUSED
from metamanager.rows import UNNOTED, Cause, Row, row_of
from metamanager.sqlite_store import SqliteStore
from modules.edge.devicetwin.state import decode
from modules.lab.replay.event_outputs import is_event
from modules.lab.replay.module_turns import ModuleTurns

T = TypeVar("T", bound=int)

_EARLY = 0.25
"""Seconds that a write may precede the failed one in the recording."""
_NEAR = 0.05
"""Seconds that a commit may begin before the recorded one, to end with it."""
_LATE = 1.0
"""Seconds that it may begin after."""
_LONGEST = 1.0
"""Seconds that a batch may last on a busy machine."""
_MOMENT = 1e-9
"""Seconds that are none."""

_TEXT = re.compile(r"(.*?)(?:: (.*?))?(?: \((.*)\))?", re.DOTALL)
"""Form of an error's text; see `BeehiveError`."""


class RecordedStore:
    """A real store with the recorded run's initial rows, which fails when the recorded one did
    (`metamanager.store.Store`).

    A commit lasts until the recorded commit of the same change ended. If there was one of the very same rows at that
    time, it ends as that one did. Otherwise a recorded failure fails all its changes, even if they are spread over
    several commits now. One that the recorded run never ended, and after which metamanager did nothing more, was under
    way when the recording ended: it does not end here either.

    Args:
        path: path of the database; it is made with the recorded rows if it does not exist.
        actors: runtime of the replay.
        commits: recorded commits, in their order.
        turns: when modules began their turns; None if that is not known.
        exact: whether changes come when they came in the recorded run; then commits begin when they began.
    """

    def __init__(
        self,
        path: Path,
        actors: Runtime,
        commits: list[StoreCommit],
        turns: ModuleTurns | None = None,
        *,
        exact: bool = False,
    ) -> None:
        self._exact = exact
        self._turns = turns or ModuleTurns(())
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
        """For each change of a row the commit that it was part of."""
        for commit in made:
            for change in commit.changes:
                self._commits.setdefault(_name(change.key), deque()).append(commit)
        self._begun: set[int] = set()
        """Identities of the commits that the replay has made in part."""
        self._same: dict[frozenset[str], list[StoreCommit]] = {}
        """Commits by all their rows."""
        for commit in made:
            self._same.setdefault(_names(commit), []).append(commit)
        self._changed: list[str] = []
        """Key of each change since the last commit."""
        self._failed: StoreCommit | None = None
        self._to_fail: Counter[str] = Counter()
        """Changes of the last failed commit that are still to be made in the replay."""
        self.get = self._inner.get
        self.get_all = self._inner.get_all
        self.rows = self._inner.rows
        self.close = self._inner.close
        if is_new:
            self._fill(first_rows(commits))

    def put(self, row: Row) -> bool:
        """Put a row, or fail as recorded."""
        self._check("put", row.key)
        return self._record(row.key, self._inner.put(row))

    def delete(self, key: str, uid: str = "", cause: Cause = UNNOTED, now_ms: int = 0) -> bool:
        """Delete a row, or fail as recorded."""
        self._check("delete", key)
        return self._record(key, self._inner.delete(key, uid, cause, now_ms))

    def delete_owned(self, kind: str, uid: str) -> int:
        """Delete the rows of an owner, or fail as recorded."""
        self._check("delete", f"{uid}/*")
        return self._record(f"{uid}/*", self._inner.delete_owned(kind, uid))

    def commit(self) -> None:
        """Commit after the recorded time, or fail as recorded."""
        changed = Counter(map(_name, self._changed))
        if self._is_last():
            self._actors.future().get()
        same = self._pop_same(frozenset(changed))
        ended = self._clock.monotonic() if same is None else same.time
        self._wait(max(self._commit_seconds(), ended - self._clock.monotonic()))
        failure = self._failure(changed, same)
        if failure is not None:
            self._inner.rollback()
            raise _error(failure, batch_lost=True)
        self._inner.commit()

    def is_whole(self) -> bool:
        """Return whether the changes since the last commit are all of the recorded commit whose turn it is, and, among
        changes at their times, whether it began.
        """
        found = self._turn()
        return found is not None and not self._left_of(found) and not (self._exact and self._until(found))

    def until_begun(self) -> float:
        """Return the seconds until the recorded commit of the changes since the last commit began; 0 if it has no
        others, unless changes come at their times. One that never ended began after metamanager's last turn.
        """
        if self._exact and self._is_last():
            return max(0.0, self._turns.last(ModuleName.METAMANAGER) + _MOMENT - self._clock.monotonic())
        found = self._turn()
        return 0.0 if found is None or not (self._exact or self._left_of(found)) else self._until(found)

    def make_room(self) -> bool:
        """Return False: the outcome is part of the records."""
        return False

    def rollback(self) -> None:
        """Undo the changes since the last commit."""
        self._changed.clear()
        self._inner.rollback()

    def _is_last(self) -> bool:
        """Return whether a commit of the changes since the last one was under way when the recording ended."""
        names = frozenset(map(_name, self._changed))
        is_known = bool(names and self._commits) and not any(True for _ in self._next_of(names))
        return is_known and self._turns.last(ModuleName.METAMANAGER) <= self._clock.monotonic() + _NEAR

    def _turn(self) -> StoreCommit | None:
        """Return the first of the recorded commits of the changes since the last commit; None without any."""
        now = self._clock.monotonic()
        latest = self._turns.latest(ModuleName.METAMANAGER, now, _LONGEST) if self._exact else now + _NEAR
        found = (commit for _, commit in self._next_of(frozenset(map(_name, self._changed))))
        return min((one for one in found if _began(one) <= latest), key=_began, default=None)

    def _until(self, commit: StoreCommit) -> float:
        """Return the seconds until a recorded commit began; 0 afterwards."""
        seconds = _began(commit) - self._clock.monotonic()
        return seconds if seconds > _MOMENT else 0.0

    def _left_of(self, commit: StoreCommit) -> Counter[str]:
        """Return the changes of a recorded commit that the replay has yet to make."""
        changes = {name: sum(one is commit for one in self._commits[name]) for name in _names(commit)}
        return Counter(changes) - Counter(map(_name, self._changed))

    def _pop_same(self, names: frozenset[str]) -> StoreCommit | None:
        """Return the recorded commit of the same rows that began nearest to now, or None; each is returned once.

        There is none if a row's next recorded commit had other rows too: the replay then makes one commit in several,
        and the nearest commit of a single row belongs to the next change of the row.
        """
        now, found = self._clock.monotonic(), self._same.get(names, [])
        if any(_names(one) != names for _, one in self._next_of(names)):
            return None
        nearest = min(found, key=lambda one: abs(_began(one) - now), default=None)
        if nearest is None or abs(_began(nearest) - now) > _NEAR:
            return None
        del found[: found.index(nearest) + 1]
        return nearest

    def _next_of(self, names: frozenset[str]) -> Iterator[tuple[str, StoreCommit]]:
        """Yield the recorded commit of the next change of each row, with the row's name. If the replay has made a part
        of a commit, the rest is soon given up: some changes of the recorded run change nothing now.
        """
        now = self._clock.monotonic()
        for name in names:
            commits = self._commits.get(name)
            while commits and commits[0].time < now - (_NEAR if id(commits[0]) in self._begun else _LATE):
                commits.popleft()
            if commits:
                yield name, commits[0]

    def _failure(self, changed: Counter[str], same: StoreCommit | None) -> StoreCommit | None:
        """Return the recorded failed commit if it has these changes, or if its time has come; None without a failure.

        Args:
            changed: rows of the commit, with the number of changes of each.
            same: the recorded commit of the same rows, which alone decides.
        """
        now, failures = self._clock.monotonic(), self._failures
        if same is not None:
            while failures and failures[0].time <= same.time:
                failures.popleft()
            return self._fail(same, changed) if same.error else None
        if self._failed and changed and now <= self._failed.time + _NEAR and changed <= self._to_fail:
            self._to_fail -= changed
            return self._failed
        if not failures or _began(failures[0]) > now + _EARLY:
            return None
        return self._fail(failures.popleft(), changed)

    def _fail(self, failed: StoreCommit, changed: Counter[str]) -> StoreCommit:
        self._failed = failed
        self._to_fail = Counter(_name(change.key) for change in failed.changes) - changed
        return failed

    def _record(self, key: str, changed: T) -> T:
        """Note a changed key; a row that stays as it was is in no recorded commit."""
        if changed:
            self._changed.append(key)
        return changed

    def _check(self, operation: str, key: str) -> None:
        """Raise the recorded refusal of a change, if the one nearest in time was refused."""
        now, tried = self._clock.monotonic(), self._tried.get((operation, _name(key)), [])
        nearest = min(tried, key=lambda one: abs(_began(one) - now), default=None)
        if nearest is not None and nearest.operation == REFUSED and abs(nearest.time - now) <= _EARLY:
            tried.remove(nearest)
            raise _error(nearest, batch_lost=False)

    def _commit_seconds(self) -> float:
        """Return the seconds until the recorded commits of the changes ended."""
        now = until = self._clock.monotonic()
        for changed in map(_name, self._changed):
            for name, commit in self._next_of(frozenset([changed])):
                if _began(commit) <= now + _NEAR:
                    self._commits[name].popleft()
                    self._begun.add(id(commit))
                    until = max(until, commit.time)
        self._changed.clear()
        return until - now

    def _wait(self, seconds: float) -> None:
        if seconds > 0:
            over = self._actors.future()
            self._clock.after(seconds, over.set)
            over.get()

    def _fill(self, rows: Iterable[Row]) -> None:
        for row in rows:
            self._inner.put(row)
        self._inner.commit()


def first_rows(commits: Iterable[StoreCommit]) -> Iterator[Row]:
    """Yield the rows that the store had at the beginning of the recorded run."""
    for commit in takewhile(lambda one: one.operation == OPENED, commits):
        for change in commit.changes:
            row = row_of(_true_key(change), change.value, 0)
            yield replace(row, type=change.kind, uid=change.uid or row.uid)


def _true_key(change: Change) -> str:
    """Return the key of a row. Records of version 0.2.0 and before have the keys of devices without their names."""
    if change.key != f"null/{ResourceType.DEVICE_TWIN}":
        return change.key
    namespace, name = decode(change.value).key
    return str(Resource.of(ResourceType.DEVICE_TWIN, namespace, name))


def _error(commit: StoreCommit, *, batch_lost: bool) -> StoreWriteError:
    """Return the recorded error; from its hint metamanager knows whether the database fails as before."""
    found = _TEXT.fullmatch(commit.error)
    assert found is not None  # noqa: S101 - every text is of that form
    attempt, on, hint = found.groups(default="")
    return StoreWriteError(attempt, on, hint, batch_lost=batch_lost)


def _began(commit: StoreCommit) -> float:
    return commit.time - commit.seconds


def _names(commit: StoreCommit) -> frozenset[str]:
    return frozenset(_name(change.key) for change in commit.changes)


def _name(key: str) -> str:
    """Return a row's key; for an event without the time that is part of it."""
    return key.rpartition(".")[0] if is_event(key) else key


def grouped(store: Callable[[], RecordedStore]) -> type[MetaManager]:
    """Return metamanager that ends its batches where they ended.

    metamanager commits when its inbox is empty. Messages that come within a millisecond are one commit if its thread
    was busy in that moment, and several if not. Messages after a commit wait for it: another grouping is another order.

    Args:
        store: returns the store that it has opened last.
    """

    class GroupedMetaManager(MetaManager):
        """metamanager as it is, but for the ends of its batches."""

        def is_batch_full(self) -> bool:
            """End a batch that has all changes of the recorded commit, though more messages wait."""
            return store().is_whole()

        def on_batch_end(self) -> None:
            """Commit when the recorded commit began."""
            self._flush_in_time()

        def _flush(self) -> None:
            self._flush_is_due = False
            self._flush_in_time()

        def _flush_in_time(self) -> None:
            seconds = store().until_begun()
            if seconds > 0:
                Module.after(self, seconds, self._flush_in_time)  # no timer of the recorded run
            else:
                self._batch.flush()

    return GroupedMetaManager
