"""The cluster's database."""

import functools
import logging
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple, Protocol

from sqlalchemy import Connection, Select, select
from sqlalchemy.exc import SQLAlchemyError

from beehive.decoding import decode_json
from beehive.turns import Turns
from modules.apimachinery.kinds import JsonObject, ObjectKey
from modules.cloud.storage.database.change_rows import changes_in, stored_history
from modules.cloud.storage.database.damage import ADVICE, is_damaged, prepare_and_repair
from modules.cloud.storage.database.engine import make_engine, shown, truncate_log, url_of
from modules.cloud.storage.database.errors import DatabaseError, FullError
from modules.cloud.storage.database.meter import TransactionMeter
from modules.cloud.storage.database.pending import PendingWrites
from modules.cloud.storage.database.queries import OBJECTS, Beginning, Queries, Query
from modules.cloud.storage.database.room import Room
from modules.cloud.storage.database.rows import RowWriter, forget_deletions
from modules.cloud.storage.database.tables import (
    SCHEMA_VERSION,
    dialect_of,
    node_states,
    object_syncs,
    objects,
    other_schema,
    sessions,
    signing_keys,
)
from modules.cloud.storage.object_storage import ObjectEvent, StoredChange
from modules.cloud.storage.object_sync import (
    ClaimedConnection,
    Epoch,
    Holder,
    NodeState,
    ObjectSync,
    is_earlier,
    moment,
)
from modules.cloud.storage.signing_key import StoredSigningKey
from modules.cloud.storage.stored_changes import StoredHistory

_log = logging.getLogger(__name__)

_FORGET_AFTER = 10_000
"""Revisions after which a deletion is compacted; a cloudcore that has read nothing for so long reads everything."""
_FORGET_EVERY = 1_000
_PORTION = 1_000
"""Objects after which reading reports progress."""
_ROWS = 16
"""Rows that are in memory at a time while all are read: each may have some megabytes."""
_FULL: Final = "database or disk is full: free room on its disk"
_SHORT: Final = "the disk is full: until there is room again, only leases, statuses and deletions are written"
_TURN_SECONDS = 60.0
"""Timeout for the transaction of another module, which may wait for another cloudcore's."""
CHANNEL = "cloudcore"
"""The channel of PostgreSQL's notifications."""


class RemoteChanges(NamedTuple):
    """The changes of other cloudcores since this one's last transaction."""

    objects: list[tuple[ObjectKey, JsonObject | None]]
    """None for a deleted object."""
    version: int
    complete: bool = False
    """The list holds all objects; any other is deleted."""
    sessions: Sequence[tuple[str, Holder]] = ()
    """Nodes, and the cloudcores of their connections."""
    changes: Sequence[StoredChange] = ()
    """Each change of an object, in order; `objects` has only the objects that the last changes do not lead to."""
    deleted: Mapping[ObjectKey, int] = {}
    """The versions of the deletions in `objects`."""
    has_gap: bool = False
    """Whether there may have been further changes, which `objects` does not tell."""


@functools.cache
def _rendered(driver: str) -> tuple[Beginning, Queries, RowWriter]:
    """Return the SQL for all databases of a driver: to render it takes longer than to open a database in memory."""
    dialect = dialect_of(driver)
    return Beginning(dialect), Queries(dialect), RowWriter(dialect)


class DatabaseUser(Protocol):
    """The maker of a database's transactions."""

    def begin(self) -> None:
        """Begin a transaction: the database is used, and none has begun.

        Raises:
            DatabaseError: the database is unreachable, or was locked for too long.
        """


class ObjectReader(Protocol):
    """A reader that takes objects into memory as they are read."""

    def admit(self, key: ObjectKey, obj: JsonObject, size: int, /) -> JsonObject | None:
        """Return an object of so many bytes as it is taken into memory; None leaves it out."""

    def progressed(self) -> None:
        """Take that the reading goes on; a hundred thousand objects take some time."""


class Database:
    """The durable store of the cluster's objects, which cloudcores share. For one thread at a time.

    A transaction begins by taking the only lock and reading the changes of other cloudcores; its own changes are
    written at its end. So the transactions of all cloudcores form one sequence, each with the results of all earlier
    ones, and no resourceVersion is given twice. A transaction covers all messages that were waiting, which then share
    one wait for the disk (group commit); their responses are sent when the changes are durable.

    Reads of the database are not recorded: a trace of a cloudcore, unlike a node's, cannot be replayed.

    Args:
        url: SQLAlchemy's, or the path of an SQLite file.
        cloudcore: identifies this process among all that use the database.
        durable: whether a commit waits for the disk; see `make_engine`.
        shared: whether other cloudcores may change the database; None: if it outlives this process.
        stores_objects: whether it has the objects, too, and not only ObjectSyncs and claims: the objects of the
            embedded API server, not of a cluster.
        turn: held during each transaction by all users of the database in this process; SQLite's lock would be polled.
        meter: measures the transactions.
        room: on the disk, for all users of the database in this process; None: without a reserve.

    Raises:
        DatabaseError: the database cannot be opened.
    """

    def __init__(
        self,
        url: str,
        cloudcore: str,
        *,
        durable: bool = True,
        shared: bool | None = None,
        stores_objects: bool = True,
        turn: Turns | None = None,
        meter: TransactionMeter | None = None,
        room: Room | None = None,
    ) -> None:
        self.cloudcore = cloudcore
        self.room = room or Room()
        self.meter = meter or TransactionMeter()
        self._turn = turn or Turns()
        self._has_turn = False
        self.stores_objects = stores_objects
        parsed = url_of(url)
        self.where = shown(parsed)
        self.engine = make_engine(parsed, durable=durable)
        weakref.finalize(self, self.engine.dispose).atexit = False  # of a database that nobody closes, as in memory
        self._beginning, self._queries, self._writer = _rendered(parsed.drivername)
        self.outlives_process = bool(parsed.database) and parsed.database != ":memory:"
        self.shared = self.outlives_process if shared is None else shared
        self.connected: dict[str, ClaimedConnection] = {}
        """The nodes that are connected to this cloudcore, and their connections."""
        self.unclaimed: dict[str, int] = {}
        """Nodes whose claim is not committed yet, and the revision at which it was made first: the claims of other
        cloudcores up to it are older.
        """
        self.changed: set[str] | None = None
        """Nodes whose ObjectSyncs or states have changed, for who keeps a copy of them; None: nobody does."""
        self._user: DatabaseUser | None = None
        try:
            self.is_new = self._prepare()
        except DatabaseError:
            self.engine.dispose()
            raise
        self.in_transaction = False
        """Whether a transaction has begun."""
        self._log_has_secrets = False
        """Whether SQLite's log may have a secret that was changed or deleted."""
        self.put_syncs = 0
        """How often an ObjectSync was changed in the transaction."""
        self._connection: Connection | None = None
        """Has the transaction; also None before the first statement, of a database in memory."""
        self._keeps_connection = self.engine.dialect.name == "sqlite"
        self._driver: Any = None
        """The driver's own connection of the last one."""
        self._kept: Connection | None = None
        """The connection between two transactions: one from the pool costs more than a transaction without a write."""
        self._commits_elsewhere = 0
        """SQLite's number for them at the last look."""
        self._seen = 0
        """The revision up to which all changes are known; negative after a rollback, when more may be known than is
        stored.
        """
        self.has_unsaved = False
        """Whether something was written since the savepoint."""
        self._transaction, self._message = PendingWrites(), PendingWrites()
        """The writes of the transaction, and of the present message, which are added after it."""
        self._has_saved = False
        """Whether a message's writes were added to the transaction's."""

    def _prepare(self) -> bool:
        """Prepare the tables, in two attempts: another cloudcore may create them at the same time."""
        try:
            with suppress(SQLAlchemyError), self.engine.begin() as connection:
                return prepare_and_repair(connection, self.where)
            with self.engine.begin() as connection:
                return prepare_and_repair(connection, self.where)
        except SQLAlchemyError as error:
            raise self._error("open the database", error) from error

    def serve(self, user: DatabaseUser) -> None:
        """Work for a user from now on, in the place of the one before: a module that is started again has another."""
        self._user = user

    def begin(self, reader: ObjectReader | None = None) -> RemoteChanges | None:
        """Begin a transaction, and return the changes of other cloudcores since the last one; None if there are none.

        Args:
            reader: takes the objects that are read; None: all are taken as they are stored.

        Raises:
            DatabaseError: the database is unreachable, was locked for too long, or has another schema now.
        """
        self.meter.waiting()
        if not self.outlives_process and self._seen > 0:  # nobody else can have changed it
            self.in_transaction = True
            self.meter.begun()
            return None
        self._has_turn = self._turn.acquire(timeout=_TURN_SECONDS)
        self.meter.begun()
        if not self._has_turn:
            self.meter.failures += 1
            raise DatabaseError("begin a transaction", self.where, "another module's transaction does not end")
        try:
            connection = self._connect()
            self.in_transaction = True
            revision, compacted, schema = self._beginning.begin(self._driver)
            if schema != SCHEMA_VERSION:  # a newer cloudcore has been started beside this one
                raise DatabaseError("begin a transaction", self.where, other_schema(schema))
            if revision == self._seen:
                return None
            complete = compacted > self._seen or self._seen <= 0
            pulled = self._changes(connection, revision, reader or WHOLE, complete=complete)
        except self._beginning.errors as error:
            if self._connection is None:
                self._end()
            raise self._error("begin a transaction", error) from error
        self._seen = pulled.version
        return pulled

    def may_have_changed(self) -> bool:
        """Return whether others may have written since the last look. SQLite counts their commits for each connection,
        and tells that without the lock.
        """
        if not self._keeps_connection or self._kept is None or self._seen <= 0:
            return True
        before = self._commits_elsewhere
        try:
            (self._commits_elsewhere,) = self._driver.execute("PRAGMA data_version").fetchone()
        except self._beginning.errors:  # a transaction reports it
            return True
        return self._commits_elsewhere != before

    def changes_elsewhere(self, reader: ObjectReader | None = None) -> RemoteChanges | None:
        """Return the changes of other cloudcores since the last look, without a transaction of its own: with every
        change of one, all others look, and would wait for the lock to write nothing.

        Args:
            reader: as for `begin`.

        Returns:
            None if a transaction has to begin for it: one has begun, all objects have to be read, the schema is
            another one now, or the database does not let a reader see one state of it beside a writer.

        Raises:
            DatabaseError: the database is unreachable.
        """
        if self.in_transaction or self._seen <= 0 or self.engine.dialect.name != "postgresql":
            return None
        try:
            with self.engine.connect() as connection:
                revision, compacted, schema = self._beginning.begin_reading(connection)
                if compacted > self._seen or schema != SCHEMA_VERSION:
                    return None
                if revision == self._seen:
                    return RemoteChanges([], self._seen)
                pulled = self._changes(connection, revision, reader or WHOLE, complete=False)
        except self._beginning.errors as error:
            raise self._error("read the changes of other cloudcores", error) from error
        self._seen = pulled.version
        return pulled

    def _connect(self) -> Connection:
        connection, self._kept = self._kept, None
        if connection is None:
            connection = self.engine.connect()
            self._driver = connection.connection.driver_connection
        self._connection = connection
        return connection

    def put(self, event: ObjectEvent) -> None:
        """Add a changed object to the transaction."""
        self._writes.put(event)

    def remove_rows(self, keys: Iterable[ObjectKey], version: int) -> None:
        """Delete stored objects that were left out of memory; `version` is a new resourceVersion."""
        for key in keys:
            self._writes.objects[key] = {**key._asdict(), "revision": version, "body": None}

    def watch_history(self) -> StoredHistory:
        """Return the kept changes of objects, without the changes of this transaction.

        Raises:
            DatabaseError: they could not be read.
        """
        try:
            return stored_history(self._current(), self._seen)
        except SQLAlchemyError as error:
            raise self._error("read the changes of objects", error) from error

    def forget_changes(self, kind: str, until: int) -> None:
        """Delete the kept changes of a kind up to a version."""
        self._writes.history[kind] = until

    def put_object_sync(self, node: str, uid: str, sync: ObjectSync | None) -> None:
        """Add a changed ObjectSync to the transaction; None deletes it."""
        self._writes.put_object_sync(node, uid, sync)
        self.put_syncs += 1

    def object_syncs_of(self, node: str) -> dict[str, ObjectSync]:
        """Return the ObjectSyncs of a node by uid, including the changes of this transaction.

        Raises:
            DatabaseError: they could not be read.
        """
        rows = self._rows_of(self._queries.object_syncs, node=node)
        written = {uid: ObjectSync.from_number(ObjectKey(*key), number) for uid, *key, number in rows}
        return self._message.object_syncs_of(node, self._transaction.object_syncs_of(node, written))

    def node_states(self) -> dict[str, NodeState]:
        """Return the states of all nodes that have ObjectSyncs or a state, without the changes of this transaction.

        Raises:
            DatabaseError: they could not be read.
        """
        columns = node_states.c
        rows = self._rows(select(columns.node, columns.node_uid, columns.epoch))
        unknown = {node: NodeState() for (node,) in self._rows(select(object_syncs.c.node).distinct())}
        return unknown | {node: NodeState(uid, epoch) for node, uid, epoch in rows}

    def node_state_of(self, node: str) -> NodeState:
        """Return the state of a node, including the changes of this transaction.

        Raises:
            DatabaseError: it could not be read.
        """
        rows = self._rows_of(self._queries.node_state, node=node)
        written = NodeState(*rows[0]) if rows else NodeState()
        return self._message.node_state_of(node, self._transaction.node_state_of(node, written))

    def put_node_state(self, node: str, node_state: NodeState) -> None:
        """Add a changed state of a node to the transaction."""
        self._writes.node_states[node] = node_state

    def epoch(self) -> Epoch:
        """Return the newest epoch that a cloudcore has committed.

        Raises:
            DatabaseError: it could not be read.
        """
        return Epoch(*self._rows_of(self._queries.epoch)[0])

    def put_epoch(self, epoch: Epoch) -> None:
        """Add an epoch to the transaction; it is not written over a later one, or over a newer version."""
        self._writes.epoch = epoch

    def signing_keys(self) -> list[StoredSigningKey]:
        """Return the keys that sign tokens of service accounts, including the changes of this transaction.

        Raises:
            DatabaseError: they could not be read.
        """
        columns = signing_keys.c
        rows = self._rows(select(columns.key_id, columns.made, columns.retired, columns.pem))
        known: dict[str, StoredSigningKey | None] = {row[0]: StoredSigningKey(*row) for row in rows}
        found = known | self._transaction.signing_keys | self._message.signing_keys
        return [key for key in found.values() if key is not None]

    def put_signing_key(self, key_id: str, key: StoredSigningKey | None) -> None:
        """Add a new or changed key to the transaction; None deletes it."""
        self._writes.signing_keys[key_id] = key

    def forget_node(self, node: str) -> None:
        """Delete the ObjectSyncs and the state of a node."""
        self._writes.forget_node(node)

    def release(self, node: str) -> None:
        """Delete the claim of a node."""
        self._writes.release(node)

    def set_savepoint(self) -> None:
        """Set the savepoint of `roll_back`, before the next message."""
        self.has_unsaved = False
        if self._has_saved:
            self._transaction.add(self._message)
        else:
            self._transaction, self._message, self._has_saved = self._message, self._transaction, True

    def roll_back(self) -> set[str]:
        """Discard the changes since the savepoint, and return the nodes whose ObjectSyncs were among them."""
        nodes = self._message.nodes()
        self._message.clear()
        self.has_unsaved = False
        return nodes

    def claims(self) -> dict[str, str]:
        """Return the cloudcore that has claimed each node last, without the changes of this transaction.

        Raises:
            DatabaseError: they could not be read.
        """
        return dict(map(tuple, self._rows(select(sessions.c.node, sessions.c.cloudcore))))

    def claim(self, node: str, connection: str, version: int, connected_at: float = 0) -> None:
        """Claim a node for this cloudcore, which it has connected to.

        Args:
            node: the node.
            connection: its connection.
            version: a new resourceVersion.
            connected_at: when it connected, in seconds since 1970; 0 if that is not known.
        """
        self._writes.sessions[node] = version, connected_at
        present = ClaimedConnection(connection, connected_at)
        if node not in self.unclaimed or self.connected.get(node) != present:
            self.unclaimed[node] = self._seen
        self.connected[node] = present

    def disconnected(self, node: str) -> None:
        """Forget the connection of a node."""
        self.connected.pop(node, None)
        self.unclaimed.pop(node, None)

    def commit(self, version: int) -> None:
        """End the transaction and make its changes durable.

        Args:
            version: the newest resourceVersion.

        Raises:
            FullError: there is no room for them; nothing has changed.
            DatabaseError: the commit failed; nothing has changed.
        """
        if self.has_unsaved:
            self.set_savepoint()
        try:
            if self._has_saved and self._transaction:
                connection = self._current()
                self._write_durably(connection, version)
                self._log_has_secrets |= self._transaction.has_secrets
                if self._log_has_secrets and self._keeps_connection:
                    self._log_has_secrets = not truncate_log(connection)
                self._seen = version
                if self.changed is not None:
                    self.changed |= self._transaction.nodes()
                for node in self._transaction.sessions:
                    self.unclaimed.pop(node, None)
        except self._beginning.errors as error:
            raise self._error("commit", error) from error
        finally:
            self._end()

    def _write_durably(self, connection: Connection, version: int) -> None:
        """Write the transaction and commit it; where the disk is full, again without SQLite's log, whose pages are
        in the file then, and at last with the room of the reserve.
        """
        remedies: list[Callable[[Connection], bool]] = []
        if self._keeps_connection:  # against SQLite's full disk; the disk of a PostgreSQL is its own affair
            remedies += [self._give_reserve, truncate_log]
        while True:
            if self.room.is_short:
                self._transaction.leave_changes_out(version)
            try:
                self._write(connection, version)
                self._make_durable()
            except self._beginning.errors as error:
                if not (self.room.is_full(error) and self._has_room_now(connection, remedies)):
                    raise
            else:
                return

    def _has_room_now(self, connection: Connection, remedies: list[Callable[[Connection], bool]]) -> bool:
        """Try the remedies against a full disk, the last one first, until one has freed room, and begin the transaction
        again. Return whether it can be written: another cloudcore may have written in the meantime.
        """
        if not remedies:
            return False
        if self._driver.in_transaction:
            self._driver.rollback()
        while remedies:
            if remedies.pop()(connection):
                revision, _, _ = self._beginning.begin(self._driver)
                return revision == self._seen
        return False

    def _give_reserve(self, connection: Connection) -> bool:
        """Give up the reserve, first of all to the pages of the log that let the file grow: then the log is reused."""
        if not self.room.give():
            return False
        truncate_log(connection)
        _log.warning("%s: %s", self.where, _SHORT)
        return True

    def abandon(self) -> None:
        """Roll back the transaction, if one has begun; the next uses a new connection."""
        self._seen = -1
        self._end()
        self._close_kept()
        if self.outlives_process:
            self.engine.dispose()

    def close(self) -> None:
        """Close all connections."""
        self._end()
        self._close_kept()
        self.engine.dispose()

    @property
    def _writes(self) -> PendingWrites:
        """The writes of the present message."""
        if not self.in_transaction:
            self._begin_late()
        self.has_unsaved = True
        return self._message

    def _begin_late(self) -> None:
        """Let the user begin a transaction."""
        if self._user is None:
            raise DatabaseError("use the database", self.where, "no transaction has begun")
        self._user.begin()

    def _current(self) -> Connection:
        if not self.in_transaction:
            self._begin_late()
        if self._connection is not None:
            return self._connection
        connection = self._connect()
        self._beginning.lock(self._driver)
        return connection

    def _rows(self, query: Select[Any]) -> Sequence[Any]:
        try:
            return self._current().execute(query).all()
        except SQLAlchemyError as error:
            raise self._error("read what nodes have", error) from error

    def _rows_of(self, query: Query, **parameters: str) -> Sequence[Any]:
        try:
            return query.rows(self._current(), **parameters)
        except self._beginning.errors as error:
            raise self._error("read what nodes have", error) from error

    def _end(self) -> None:
        connection, self._connection = self._connection, None
        if self.in_transaction:
            self.meter.ended()
        if self._has_saved:
            self._transaction.clear()
        if self.has_unsaved:
            self._message.clear()
        self.in_transaction, self.put_syncs, self.has_unsaved, self._has_saved = False, 0, False, False
        try:
            if connection is not None:
                self._give_back(connection)
        finally:
            if self._has_turn:
                self._has_turn = False
                self._turn.release()

    def _give_back(self, connection: Connection) -> None:
        """End a transaction that was not committed, and keep the connection if it may be kept."""
        try:
            if not self._keeps_connection or connection.invalidated:
                connection.close()
                return
            if connection.in_transaction():
                connection.rollback()
            if self._driver.in_transaction:
                self._driver.rollback()
        except BaseException as error:
            if not connection.closed:
                connection.invalidate()
            if not isinstance(error, self._beginning.errors):  # a broken connection has ended its transaction
                raise
        else:
            self._kept = connection

    def _close_kept(self) -> None:
        kept, self._kept = self._kept, None
        if kept is not None:
            with suppress(SQLAlchemyError):
                kept.close()

    def _changes(self, connection: Connection, version: int, reader: ObjectReader, *, complete: bool) -> RemoteChanges:
        rows = self._changed_objects(connection, complete=complete) if self.stores_objects else ()
        is_later, queries = self.stores_objects and not complete, self._queries
        kept = changes_in(queries.changes.rows(connection, seen=self._seen)) if is_later else []
        has_gap = kept is None or (is_later and bool(queries.gaps.rows(connection, seen=self._seen)))
        changes = kept or []
        known = {change.key: change.version for change in changes if change.body is not None}
        found: list[tuple[ObjectKey, JsonObject | None]] = []
        deleted: dict[ObjectKey, int] = {}
        for kind, namespace, name, revision, body in _reported(rows, reader):
            key = ObjectKey(kind, namespace, name)
            if known.get(key) == revision:
                continue
            obj = None if body is None else reader.admit(key, decode_json(body), len(body))
            if obj is not None or not complete:
                found.append((key, obj))
            if obj is None:
                deleted[key] = revision
        claims = self._queries.claims.rows(connection, seen=self._seen)
        timed = [(node, who, moment(at, fine), made) for node, who, at, fine, made in claims]
        claimed = [(node, Holder(who, at)) for node, who, at, made in timed if not self._is_newer_here(node, at, made)]
        return RemoteChanges(found, version, complete and self.stores_objects, claimed, changes, deleted, has_gap)

    def _is_newer_here(self, node: str, other_began_at: float, revision: int) -> bool:
        """Return whether a connection whose claim is not committed yet is newer than another cloudcore's, which has a
        stored claim of some revision: that was stored before this one was to be, or its connection began earlier.
        """
        claimed_at = self.unclaimed.get(node)
        if claimed_at is None:
            return False
        if revision <= claimed_at:
            return True
        return other_began_at > 0 and is_earlier(other_began_at, self.connected[node].began_at)

    def _changed_objects(self, connection: Connection, *, complete: bool) -> Iterable[Any]:
        if not complete:
            return self._queries.objects.rows(connection, seen=self._seen)
        return connection.execute(OBJECTS.where(objects.c.body.is_not(None)), execution_options={"yield_per": _ROWS})

    def _write(self, connection: Connection, version: int) -> None:
        self._writer.write(self._driver, self._transaction, version, self.cloudcore)
        if version // _FORGET_EVERY != self._seen // _FORGET_EVERY:
            forget_deletions(connection, version - _FORGET_AFTER)
        if connection.dialect.name == "postgresql":
            connection.exec_driver_sql(f"NOTIFY {CHANNEL}, '{self.cloudcore}'")

    def _make_durable(self) -> None:
        self._driver.commit()

    def _error(self, attempt: str, error: Exception) -> DatabaseError:
        self.meter.failures += 1
        lines = str(getattr(error, "orig", None) or error).strip().splitlines()
        reason = lines[0] if lines else type(error).__name__
        if self.room.is_full(error):
            return FullError(attempt, self.where, _FULL)
        return DatabaseError(attempt, self.where, f"{reason}; {ADVICE}" if is_damaged(error) else reason)


class _Whole:
    """A reader that takes objects into memory as they are stored (`ObjectReader`)."""

    def admit(self, _key: ObjectKey, obj: JsonObject, _size: int) -> JsonObject:
        """Return the object."""
        return obj

    def progressed(self) -> None:
        """Do nothing."""


WHOLE: Final = _Whole()


def _reported(rows: Iterable[Any], reader: ObjectReader) -> Iterator[Any]:
    for number, row in enumerate(rows):
        if number % _PORTION == 0:
            reader.progressed()
        yield row
