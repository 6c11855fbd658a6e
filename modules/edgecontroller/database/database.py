"""The cluster's objects in a database: what makes them outlive a cloudcore, and what several cloudcores agree by.

Work is done in turns. A turn begins by taking the one lock there is and reading what others have changed since the
last; what it changes is written at its end, in one transaction. So the turns of all cloudcores form one sequence, and
in each is known what all before it have done: nobody acts on what is no longer so, and no resourceVersion is given
twice. A turn serves all the messages that were waiting, so one wait for the disk serves them all (group commit), and
who waits for an answer gets it when it is durable.

Reads of the database are input that is not recorded: a trace of a cloudcore is not replayable, a node's is.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Connection, Table, and_, bindparam, delete, insert, select, update
from sqlalchemy.exc import SQLAlchemyError

from modules.edgecontroller.database.engine import make_engine, shown, url_of
from modules.edgecontroller.database.errors import DatabaseError
from modules.edgecontroller.database.pending import Pending
from modules.edgecontroller.database.tables import objects, prepare, sessions, state, syncs
from modules.edgecontroller.kinds import JsonObject, ObjectKey
from modules.edgecontroller.store import ObjectEvent
from modules.edgecontroller.syncs import Sync

_FORGET_AFTER = 10_000
"""Revisions after which a deletion is forgotten; who has not asked for that long reads everything again."""
_FORGET_EVERY = 1_000
CHANNEL = "cloudcore"
"""Of PostgreSQL's notifications."""


class Pulled(NamedTuple):
    """What others have changed."""

    objects: list[tuple[ObjectKey, JsonObject | None]]
    """None: it was deleted."""
    version: int
    complete: bool = False
    """What is not among the objects is not there any more."""
    sessions: Sequence[tuple[str, str]] = ()
    """Nodes and the cloudcores that they have connected to since."""


class Database:
    """See the module's docstring. For one thread at a time.

    Args:
        url: SQLAlchemy's, or the path of an SQLite file.
        cloudcore: identifies this process among those that share the database.
        durable: see `make_engine`.
        shared: whether others may change it meanwhile; None: when it outlives this process.

    Raises:
        DatabaseError: it cannot be opened.
    """

    def __init__(self, url: str, cloudcore: str, *, durable: bool = True, shared: bool | None = None) -> None:
        self.cloudcore = cloudcore
        parsed = url_of(url)
        self.where = shown(parsed)
        self.engine = make_engine(parsed, durable=durable)
        self.outlives_process = bool(parsed.database) and parsed.database != ":memory:"
        self.shared = self.outlives_process if shared is None else shared
        self.connected: dict[str, str] = {}
        """The nodes that are connected to this cloudcore, and their connections' ids."""
        self.unclaimed: set[str] = set()
        """Those of them whose connection is not written down: newer than those of which the others have written."""
        try:
            self.is_new = self._prepare()
        except DatabaseError:
            self.engine.dispose()
            raise
        self._connection: Connection | None = None
        self._seen = 0
        """The revision up to which all is known; negative when what is known may be more than there is."""
        self._turn, self._message = Pending(), Pending()
        """What the turn is to write, and what is to be added to it when the message at hand has been handled."""

    def _prepare(self) -> bool:
        """Tries twice: another cloudcore may be making the tables too."""
        try:
            with suppress(SQLAlchemyError), self.engine.begin() as connection:
                return prepare(connection, self.where)
            with self.engine.begin() as connection:
                return prepare(connection, self.where)
        except SQLAlchemyError as error:
            raise self._error("open the database", error) from error

    @property
    def in_turn(self) -> bool:
        """Whether a turn has begun."""
        return self._connection is not None

    def begin(self) -> Pulled:
        """Begins a turn; gives what others have changed since the last.

        Raises:
            DatabaseError: the database is away, or somebody holds it too long.
        """
        try:
            connection = self._connection = self.engine.connect()
            query = select(state.c.revision, state.c.compacted).with_for_update()
            revision, compacted = connection.execute(query).one()
            if revision == self._seen:
                return Pulled([], self._seen)
            complete = compacted > self._seen or self._seen <= 0
            pulled = self._changes(connection, revision, complete=complete)
        except SQLAlchemyError as error:
            raise self._error("begin a turn", error) from error
        self._seen = pulled.version
        return pulled

    def put(self, event: ObjectEvent) -> None:
        """A change of an object, to be written at the end of the turn."""
        self._message.put(event)

    def put_sync(self, node: str, uid: str, sync: Sync | None) -> None:
        """A change of what a node has, likewise."""
        self._message.syncs[node, uid] = sync

    def syncs_of(self, node: str) -> dict[str, Sync]:
        """What a node has, by uid; what this turn has changed of it included.

        Raises:
            DatabaseError: it could not be read.
        """
        query = select(syncs.c.uid, syncs.c.kind, syncs.c.namespace, syncs.c.name, syncs.c.version)
        try:
            rows = self._current().execute(query.where(syncs.c.node == node)).all()
        except SQLAlchemyError as error:
            raise self._error("read what a node has", error) from error
        written = {uid: Sync(ObjectKey(kind, namespace, name), version) for uid, kind, namespace, name, version in rows}
        return self._message.syncs_of(node, self._turn.syncs_of(node, written))

    def forget_node(self, node: str) -> None:
        """Nothing is known any more of what a node has."""
        self._message.forget_node(node)

    def keep(self) -> None:
        """What was changed until now is written at the end of the turn, whatever becomes of the next message."""
        self._turn.add(self._message)

    def drop(self) -> set[str]:
        """What was changed since the last `keep` is not; gives the nodes of whose syncs that is so."""
        nodes = {node for node, _ in self._message.syncs} | self._message.forgotten
        self._message.clear()
        return nodes

    def claim(self, node: str, connection: str, version: int) -> None:
        """A node has connected to this cloudcore; `version` is a new one, by which the others see it."""
        self.connected[node] = connection
        self.unclaimed.add(node)
        self._message.sessions[node] = version

    def commit(self, version: int) -> None:
        """Ends the turn and makes what it has changed durable.

        Args:
            version: the newest resourceVersion.

        Raises:
            DatabaseError: it could not be; nothing has changed.
        """
        connection = self._current()
        self.keep()
        try:
            if self._turn:
                self._write(connection, version)
                connection.commit()
                self._seen = version
                self.unclaimed -= self._turn.sessions.keys()
        except SQLAlchemyError as error:
            raise self._error("commit", error) from error
        finally:
            self._end()

    def abandon(self) -> None:
        """Ends the turn, if one has begun, without a trace; the next begins with a new connection."""
        self._seen = -1
        self._end()
        if self.outlives_process:
            self.engine.dispose()

    def close(self) -> None:
        """Gives all connections back."""
        self._end()
        self.engine.dispose()

    def _current(self) -> Connection:
        if self._connection is None:
            raise DatabaseError("use the database", self.where, "no turn has begun")
        return self._connection

    def _end(self) -> None:
        connection, self._connection = self._connection, None
        for pending in (self._turn, self._message):
            pending.clear()
        if connection is not None:
            try:
                connection.close()
            except SQLAlchemyError:  # it is broken, and so what was begun on it is over
                if not connection.closed:
                    connection.invalidate()

    def _changes(self, connection: Connection, version: int, *, complete: bool) -> Pulled:
        query = select(objects.c.kind, objects.c.namespace, objects.c.name, objects.c.body)
        query = query.where(objects.c.body.is_not(None)) if complete else query.where(objects.c.revision > self._seen)
        found = [
            (ObjectKey(kind, namespace, name), None if body is None else msgspec.json.decode(body))
            for kind, namespace, name, body in connection.execute(query.order_by(objects.c.revision))
        ]
        claims = select(sessions.c.node, sessions.c.cloudcore).where(sessions.c.revision > self._seen)
        claimed = [(node, cloudcore) for node, cloudcore in connection.execute(claims) if node not in self.unclaimed]
        return Pulled(found, version, complete, claimed)

    def _write(self, connection: Connection, version: int) -> None:
        """Rows are deleted and inserted and not updated: that is the same SQL everywhere."""
        turn = self._turn
        keys = [{f"k_{name}": value for name, value in key._asdict().items()} for key in turn.objects]
        _replace(connection, objects, ("kind", "namespace", "name"), keys, turn.objects.values())
        _replace(connection, syncs, ("node",), [{"k_node": node} for node in sorted(turn.forgotten)], ())
        keys = [{"k_node": node, "k_uid": uid} for node, uid in turn.syncs]
        rows = ({"node": node, "uid": uid, **sync.key._asdict(), "version": sync.version}
                for (node, uid), sync in turn.syncs.items() if sync is not None)  # fmt: skip
        _replace(connection, syncs, ("node", "uid"), keys, rows)
        keys = [{"k_node": node} for node in turn.sessions]
        claims = ({"node": node, "cloudcore": self.cloudcore, "revision": at} for node, at in turn.sessions.items())
        _replace(connection, sessions, ("node",), keys, claims)
        connection.execute(update(state).values(revision=version))
        if version // _FORGET_EVERY != self._seen // _FORGET_EVERY:
            self._forget_deletions(connection, version - _FORGET_AFTER)
        if connection.dialect.name == "postgresql":
            connection.exec_driver_sql(f"NOTIFY {CHANNEL}, '{self.cloudcore}'")

    def _forget_deletions(self, connection: Connection, until: int) -> None:
        if until <= 0:
            return
        connection.execute(delete(objects).where(objects.c.body.is_(None), objects.c.revision <= until))
        connection.execute(update(state).values(compacted=until))

    def _error(self, attempt: str, error: SQLAlchemyError) -> DatabaseError:
        reason = str(getattr(error, "orig", None) or error).strip().splitlines()
        return DatabaseError(attempt, self.where, reason[0] if reason else type(error).__name__)


def _replace(
    connection: Connection,
    table: Table,
    primary: tuple[str, ...],
    keys: list[dict[str, Any]],
    rows: Iterable[dict[str, Any]],
) -> None:
    if not keys:
        return
    where = and_(*(table.c[name] == bindparam(f"k_{name}") for name in primary))
    connection.execute(delete(table).where(where), keys)
    new = list(rows)
    if new:
        connection.execute(insert(table), new)
