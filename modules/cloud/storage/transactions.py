"""The transactions of the API server: group commit of the storage and its database."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from beehive.trace_context import current_context, own_context
from modules.cloud.storage.database.database import Database, ObjectReader, RemoteChanges
from modules.cloud.storage.database.errors import DatabaseError, FullError
from modules.cloud.storage.object_storage import ObjectEvent
from modules.cloud.storage.object_store import ObjectStore
from modules.cloud.storage.object_sync import Holder

_Result = TypeVar("_Result")

_MANY = 1_000
"""ObjectSyncs to write and calls to make at the end of a transaction: 0.03 s of processor time."""


class HandlesChanges(Protocol):
    """A handler of the changes of transactions: `ApiServer`, `EdgeController`."""

    def object_changed(self, event: ObjectEvent) -> None:
        """Handle a change of an object, by this cloudcore or another, in order; this is the watch."""

    def nodes_claimed(self, claims: Sequence[tuple[str, Holder]], /) -> None:
        """Handle that nodes have connected to other cloudcores."""

    def changes_rolled_back(self, events: list[ObjectEvent], nodes: set[str], /) -> None:
        """Handle that changes were rolled back, newest first, and the ObjectSyncs of nodes."""


class Transactions:
    """The transactions in which messages are handled: each reads the changes of other cloudcores, does the work of the
    messages, commits, and only then sends responses and messages to nodes.

    So no message ever reports a change that a crash could undo, and all messages of a transaction share one wait for
    the disk.

    Args:
        storage: the objects in memory.
        database: their durable copy.
        handler: handles the changes.
        undo: takes the changes of a transaction, newest first, out of memory and goes back to a version, when there
            was no room for them in the database; None: that error is raised like any other.
        reader: takes the objects that are read; None: all are taken as they are stored.
    """

    def __init__(
        self,
        storage: ObjectStore,
        database: Database,
        handler: HandlesChanges,
        undo: Callable[[list[ObjectEvent], int], None] | None = None,
        reader: ObjectReader | None = None,
    ) -> None:
        self._reader = reader
        self._undo = undo
        self._changes: list[ObjectEvent] = []
        """The changes of the transaction."""
        self._begun_at = storage.version
        """The version before them."""
        self._storage = storage
        self._database = database
        self._handler = handler
        self.is_adopting = False
        """Whether `object_changed` is called for a change of another cloudcore."""
        self._later: list[tuple[int, int, Callable[[], None], Callable[[], None] | None]] = []
        """What is called after the commit: the span and trace of its cause, the function, and the other one."""
        self._is_working = False
        """Whether the work of a message is under way."""
        self._pulled: RemoteChanges | None = None
        """Changes of other cloudcores that wait for the end of that work."""
        database.serve(self)

    @property
    def is_under_way(self) -> bool:
        """Whether a transaction has begun, or the work of a message is under way."""
        return self._is_working or self._database.in_transaction

    def begin(self) -> None:
        """Begin a transaction, unless one has begun.

        Raises:
            DatabaseError: the database is unreachable, or was locked for too long.
        """
        if self._database.in_transaction:
            return
        pulled = self._database.begin(self._reader)
        if self._is_working:
            self._pulled = pulled
        elif pulled is not None:
            self._adopt(pulled)
        self._begun_at = self._storage.version

    def adopt(self) -> bool:
        """Take over the changes of other cloudcores without a transaction, and return whether that was possible; what
        follows from them may have begun one.

        Raises:
            DatabaseError: the database is unreachable.
        """
        pulled = None if self.is_under_way else self._database.changes_elsewhere(self._reader)
        if pulled is None:
            return False
        self._is_working = True
        try:
            self._adopt(pulled)
        except DatabaseError:
            self._pulled = None
            raise
        finally:
            self._is_working = False
            if self._pulled is not None:
                self._adopt_late(self._pulled)
        return True

    def attempt(self, work: Callable[[], _Result], *, begins: bool = True) -> _Result:
        """Do the work of one message in the transaction, and return its result.

        If it raises, its changes, pending writes and after-commit calls are rolled back; the changes of
        the transaction's other messages stay.

        Args:
            work: the work.
            begins: whether the transaction begins before the work. Otherwise it begins when the work uses the database,
                and not at all if it does not; then the changes of other cloudcores are taken over after the work.

        Raises:
            DatabaseError: the whole transaction is over.
            Exception: any exception of the work.
        """
        if begins and not self._database.in_transaction:
            self.begin()
        if self._database.has_unsaved:
            self._database.set_savepoint()
        self._storage.set_savepoint()
        acts, changes = len(self._later), len(self._changes)
        was_working, self._is_working = self._is_working, True
        try:
            result = work()
            if self._storage.events:
                self.collect_changes()
        except DatabaseError:
            self._pulled = None
            raise
        except Exception:
            del self._later[acts:], self._changes[changes:]
            self._handler.changes_rolled_back(self._storage.roll_back(), self._database.roll_back())
            raise
        finally:
            self._is_working = was_working
            if self._pulled is not None and not was_working:
                self._adopt_late(self._pulled)
        return result

    def collect_changes(self) -> None:
        """Add the changes since the last call to the transaction, and call `object_changed` with them."""
        if not self._storage.events:
            return
        events = self._storage.drain_events()
        self._changes += events
        for event in events:
            if self._database.stores_objects:
                self._database.put(event)
            self._handler.object_changed(event)

    def after_commit(self, act: Callable[[], None], if_full: Callable[[], None] | None = None) -> None:
        """Call a function after the commit, in the present trace context.

        Args:
            act: the function.
            if_full: called instead, if the transaction is undone because there is no room for it; None: nothing is.
        """
        context = current_context()
        self._later.append((context.span, context.trace, act, if_full))

    @property
    def is_long(self) -> bool:
        """Whether the end of the transaction has so much to do that it should come before any further work."""
        return len(self._later) + self._database.put_syncs >= _MANY

    def commit(self) -> None:
        """Commit the transaction, if one has begun, and make the after-commit calls.

        Raises:
            DatabaseError: the commit failed; no after-commit call is made.
        """
        if self._storage.events:
            self.collect_changes()
        is_undone = False
        try:
            if self._database.in_transaction:
                self._database.commit(self._storage.version)
        except FullError:
            if self._undo is None:
                raise
            is_undone = True
            self._undo(self._changes[::-1], self._begun_at)
        if self._changes:
            self._changes = []
            self._storage.set_savepoint()
        if not self._later:
            return
        later, self._later = self._later, []
        context = own_context()
        before = context.span, context.trace
        try:
            for context.span, context.trace, act, if_full in later:
                call = if_full if is_undone else act
                if call is not None:
                    call()
        finally:
            context.span, context.trace = before

    def abandon(self) -> None:
        """Roll back the whole transaction, if one has begun."""
        self._later.clear()
        self._changes = []
        self._storage.drain_events()
        self._storage.set_savepoint()
        self._database.abandon()

    def _adopt_late(self, pulled: RemoteChanges) -> None:
        self._pulled = None
        self._adopt(pulled)

    def _adopt(self, pulled: RemoteChanges) -> None:
        if pulled.sessions:
            self._handler.nodes_claimed(pulled.sessions)
        self._storage.adopt(
            pulled.objects,
            pulled.version,
            complete=pulled.complete,
            changes=pulled.changes,
            deleted=pulled.deleted,
            has_gap=pulled.has_gap,
        )
        self.is_adopting = True
        try:
            for event in self._storage.drain_events():
                self._handler.object_changed(event)
        finally:
            self.is_adopting = False
