"""Bugs that are put into the product for a while, each of a kind that the Go agent has or had (`spec/`)."""

from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from unittest.mock import patch

from beehive.message import Message
from beehive.requests import PendingRequests, _OpenRequest
from edged.pleg.reader import PodSnapshot
from edged.pods.model import PodRef, PodUid
from edged.sync.loop import SyncLoop
from edged.sync.orphans import Orphans
from edgehub.outbox.sqlite import SqliteOutbox
from metamanager import sqlite_open
from metamanager.batch import Batch
from metamanager.client import AsyncMetaClient, CallError
from metamanager.replies import Outcome
from metamanager.rows import Row
from metamanager.sqlite_store import SqliteStore


@contextmanager
def acknowledged_before_the_commit() -> Iterator[None]:
    """metamanager answers the cloud, and then makes the change durable."""

    def flush(self: Batch) -> None:
        waiting, self._waiting = self._waiting, []
        self._causes.clear()
        for outcome in waiting:
            self._send(outcome)
        if any(outcome.changed for outcome in waiting):
            self._waiting = [Outcome((), changed=True)]
            self._commit()
            self._waiting = []

    with patch.object(Batch, "flush", flush):
        yield


@contextmanager
def pods_keyed_by_name() -> Iterator[None]:
    """The deletion of a pod ends whatever has its name (edged of 2019 found pods by namespace and name)."""
    remove = SyncLoop.handle_pod_remove

    def by_name(self: SyncLoop, namespace: str, name: str, uid: str, grace: int | None = None, **how: bool) -> None:
        remove(self, namespace, name, "", grace, **how)

    with patch.object(SyncLoop, "handle_pod_remove", by_name):
        yield


@contextmanager
def late_replies_dropped() -> Iterator[None]:
    """A request past its deadline is forgotten, and so is its later reply."""

    def expire(self: PendingRequests, request: _OpenRequest, message: Message, seconds: float) -> None:
        if self._open.get(message.id) is request:
            del self._open[message.id]

    with patch.object(PendingRequests, "_expire", expire):
        yield


@contextmanager
def an_insert_does_not_overwrite() -> Iterator[None]:
    """An object made again under the same name keeps the row of the one before (metamanager of 2019)."""
    put = SqliteStore.put

    def insert_or_ignore(self: SqliteStore, row: Row) -> bool:
        stored = self._read("SELECT uid FROM meta WHERE key = :key", {"key": row.key})
        if stored and stored[0] and row.uid and stored[0] != row.uid:
            return True
        return put(self, row)

    with patch.object(SqliteStore, "put", insert_or_ignore):
        yield


@contextmanager
def what_is_not_known_is_removed() -> Iterator[None]:
    """Two agents on one machine end each other's pods (a kubelet removes what it does not know)."""

    def found(self: Orphans, glances: Mapping[PodUid, PodSnapshot], known: Container[PodUid]) -> list[PodRef]:
        return [glance.ref for uid, glance in glances.items() if uid not in known]

    with patch.object(Orphans, "find", found):
        yield


@contextmanager
def what_is_left_over_is_not_looked_for() -> Iterator[None]:
    """A pod whose deletion the agent did not live to finish stays for ever."""
    with patch.object(Orphans, "find", lambda *_args: []):
        yield


@contextmanager
def commits_are_not_flushed() -> Iterator[None]:
    """A commit is in the page cache when the cloud gets its acknowledgement (`synchronous=NORMAL`)."""
    pragmas = tuple(pragma.replace("=FULL", "=NORMAL") for pragma in sqlite_open.PRAGMAS)
    with patch.object(sqlite_open, "PRAGMAS", pragmas):
        yield


@contextmanager
def a_new_store_is_believed() -> Iterator[None]:
    """A node that has lost its database takes all that it runs for orphans, and ends it."""

    def store_is_complete(_self: AsyncMetaClient, *, then: Callable[[bool | CallError], None]) -> None:
        then(True)  # noqa: FBT003 - an answer, not an option

    with patch.object(AsyncMetaClient, "store_is_complete", store_is_complete):
        yield


@contextmanager
def the_outbox_is_forgotten() -> Iterator[None]:
    """What waited for the cloud is not looked for after a restart."""
    with patch.object(SqliteOutbox, "load", lambda _self: []):
        yield


Plant = Callable[[], AbstractContextManager[None]]
PLANTED: tuple[Plant, ...] = (
    acknowledged_before_the_commit,
    pods_keyed_by_name,
    late_replies_dropped,
    an_insert_does_not_overwrite,
    what_is_not_known_is_removed,
    what_is_left_over_is_not_looked_for,
    commits_are_not_flushed,
    a_new_store_is_believed,
    the_outbox_is_forgotten,
)
