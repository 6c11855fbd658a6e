"""Bugs below embedded API servers that share a database, and of their watches: found with the profile `pair`."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from modules.cloud.apiserver.committed_changes import CommittedChanges
from modules.cloud.apiserver.endpoints.watching import ObjectWatch
from modules.cloud.storage.database.database import Database, RemoteChanges
from modules.cloud.storage.object_storage import ObjectEvent
from modules.cloud.storage.transactions import Transactions
from tests.simulation.planted import Plant


@contextmanager
def a_call_is_answered_before_the_commit() -> Iterator[None]:
    """What is deferred until after the commit happens at once."""

    def after_commit(_: Transactions, act: Callable[[], None], _if_full: Callable[[], None] | None = None) -> None:
        act()

    with patch.object(Transactions, "after_commit", after_commit):
        yield


@contextmanager
def a_change_of_the_other_cloudcore_is_skipped() -> Iterator[None]:
    """The first of several changes is not told."""
    begin = Database.begin

    def without_first(self: Database, *args: Any) -> RemoteChanges | None:
        found = begin(self, *args)
        return found if found is None or len(found.changes) < 2 else found._replace(changes=found.changes[1:])

    with patch.object(Database, "begin", without_first):
        yield


@contextmanager
def changes_of_the_other_cloudcore_are_not_taken_over() -> Iterator[None]:
    """A cloudcore goes on with its own changes only, and gives their versions again."""

    def begin(self: Transactions) -> None:
        if not self._database.in_transaction:
            pulled = self._database.begin(self._reader)
            if pulled is not None and pulled.complete:
                self._adopt(pulled)
            self._begun_at = self._storage.version

    with patch.object(Transactions, "begin", begin):
        yield


@contextmanager
def bookmarks_fall_back_to_the_beginning_of_the_watch() -> Iterator[None]:
    """A client goes on from there, and takes older states for news."""
    bookmark, first = ObjectWatch._bookmark, dict[ObjectWatch, int]()

    def older(self: ObjectWatch, version: int, *args: Any) -> bytes:
        return bookmark(self, first.setdefault(self, version), *args)

    with patch.object(ObjectWatch, "_bookmark", older):
        yield


@contextmanager
def watches_and_roles_are_told_before_the_commit() -> Iterator[None]:
    """Also what had no room then."""

    def handle_event(self: CommittedChanges, event: ObjectEvent, _transactions: Transactions) -> None:
        self._index.handle_event(event)
        if self._history is not None:
            self._changes.append(self._history.record(event))

    with patch.object(CommittedChanges, "handle_event", handle_event):
        yield


PAIRED: tuple[Plant, ...] = (
    a_call_is_answered_before_the_commit,
    a_change_of_the_other_cloudcore_is_skipped,
    changes_of_the_other_cloudcore_are_not_taken_over,
    bookmarks_fall_back_to_the_beginning_of_the_watch,
    watches_and_roles_are_told_before_the_commit,
)
