"""The link journal in the database: a row for each connection of a node, also of ended ones."""

from collections.abc import Sequence
from typing import Final

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Float,
    Index,
    RowMapping,
    String,
    Table,
    and_,
    bindparam,
    case,
    delete,
    func,
    insert,
    or_,
    select,
    tuple_,
    update,
)

from modules.cloud.journal.database import JournalDatabase, tables
from modules.cloud.messages import LinkQuery, LinkSession

DAYS: Final = 7
"""Days that an ended connection is kept."""
MOST_OF_NODE: Final = 200
"""Connections of one node; its older ones are deleted."""
MOST_ROWS: Final = 50_000
"""Connections of all nodes; the oldest are deleted, ended ones first."""
LOST_AFTER: Final = 100.0
"""Seconds without a mark after which a cloudcore is taken for dead: it leaves one every `MARK_PERIOD` seconds."""
MARK_PERIOD: Final = 30.0
_LONGEST_REASON: Final = 500
UNTOLD_END: Final = "cloudcore ended without closing it"
REPLACED: Final = "the node has connected again"

links: Final = Table(
    "cluster_links",
    tables,
    Column("connection", String(64), primary_key=True),
    Column("node", String(253), nullable=False),
    Column("cloudcore", String(64), nullable=False),
    Column("began", Float(53), nullable=False),
    Column("ended", Float(53), nullable=False),
    Column("reason", String(_LONGEST_REASON), nullable=False),
    Column("address", String(64), nullable=False),
    Column("certificate_ends", BigInteger, nullable=False),
    Index("cluster_links_of_node", "node", "began"),
    Index("cluster_links_by_time", "began"),
)
_PLACE: Final = case((links.c.ended == 0.0, links.c.began + 1e12), else_=links.c.began)
"""Orders the connections of a node; an open one is behind all others."""
marks: Final = Table(
    "cluster_link_marks",
    tables,
    Column("cloudcore", String(64), primary_key=True),
    Column("alive_at", Float(53), nullable=False),
)
"""When each cloudcore was last alive: the connections of a killed one ended then."""


class LinkStore:
    """A reader and writer of the link journal. For one thread.

    Args:
        database: has the tables.
        cloudcore: identifies this process among all that use it.
    """

    def __init__(self, database: JournalDatabase, cloudcore: str) -> None:
        self._database = database
        self._cloudcore = cloudcore

    def write(self, began: Sequence[LinkSession], ended: Sequence[LinkSession], now: float) -> None:
        """Store connections that have begun, and the ends of connections, in one transaction.

        An older connection of a node whose end is missing has ended when the next one began, at the latest. A newer one
        stays open: another cloudcore may have been faster to write it. To write the same again is no error: the answer
        to a commit may have been lost.

        Raises:
            DatabaseError: nothing was stored.
        """
        self._database.run("write the link journal", lambda connection: self._write(connection, began, ended, now))

    def mark(self, now: float) -> None:
        """Store that this cloudcore is alive; end the connections of dead ones, and delete old rows.

        Raises:
            DatabaseError: nothing was stored.
        """

        def work(connection: Connection) -> None:
            self._mark(connection, now)
            _end_lost(connection, now)
            _forget(connection, now)

        self._database.run("write the link journal", work)

    def read(self, query: LinkQuery) -> list[LinkSession]:
        """Return connections, by node and the newest first.

        The open connection of a node is the newest, also after the clock was set back; of two that began in the same
        second, the one with the later end.

        Raises:
            DatabaseError: they cannot be read.
        """
        columns = links.c
        wanted = select(links, marks.c.alive_at).outerjoin(marks, marks.c.cloudcore == columns.cloudcore)
        if query.node:
            wanted = wanted.where(columns.node == query.node)
        if query.since:
            wanted = wanted.where(or_(columns.ended >= query.since, columns.ended == 0.0))
        if query.newest_only:
            newest = select(columns.node, func.max(columns.began)).group_by(columns.node)
            wanted = wanted.where(or_(columns.ended == 0.0, tuple_(columns.node, columns.began).in_(newest)))
        wanted = wanted.order_by(columns.node, _PLACE.desc(), columns.ended.desc())
        rows = self._database.run(
            "read the link journal", lambda connection: connection.execute(wanted).mappings().all()
        )
        found = [_session(row) for row in rows]
        if query.newest_only:
            found = list({each.node: each for each in reversed(found)}.values())[::-1]
        return found

    def _write(
        self, connection: Connection, began: Sequence[LinkSession], ended: Sequence[LinkSession], now: float
    ) -> None:
        columns = links.c
        if began:
            self._mark(connection, now)
            _end_lost(connection, now)
            earlier = update(links).where(
                columns.node == bindparam("of"), columns.ended == 0.0, columns.began < bindparam("at")
            )
            known = delete(links).where(columns.connection == bindparam("id"))
            connection.execute(known, [{"id": each.connection} for each in began])
            connection.execute(insert(links), [_row(each, self._cloudcore) for each in began])
            connection.execute(
                earlier.values(ended=bindparam("at"), reason=REPLACED),
                [{"of": each.node, "at": each.began} for each in began],
            )
            _trim(connection, {each.node for each in began})
        if ended:
            end = update(links).where(columns.connection == bindparam("id"), columns.node == bindparam("of"))
            connection.execute(
                end.values(ended=bindparam("at"), reason=bindparam("why")),
                [
                    {"id": each.connection, "of": each.node, "at": each.ended, "why": each.reason[:_LONGEST_REASON]}
                    for each in ended
                ],
            )

    def _mark(self, connection: Connection, now: float) -> None:
        own = marks.c.cloudcore == self._cloudcore
        before = connection.execute(select(marks.c.alive_at).where(own)).scalar()
        if before is None:
            connection.execute(insert(marks).values(cloudcore=self._cloudcore, alive_at=now))
            return
        connection.execute(update(marks).where(own).values(alive_at=now))
        if now - before > LOST_AFTER:
            self._reopen(connection)

    def _reopen(self, connection: Connection) -> None:
        """Open the connections again that another cloudcore has taken for lost while this one left no mark, as when the
        database was away; not older ones of nodes that have connected again.
        """
        columns, newer = links.c, links.alias()
        replaced = select(newer.c.node).where(newer.c.node == columns.node, newer.c.began > columns.began).exists()
        lost = and_(columns.cloudcore == self._cloudcore, columns.reason == UNTOLD_END, ~replaced)
        connection.execute(update(links).where(lost).values(ended=0.0, reason=""))


def _session(row: RowMapping) -> LinkSession:
    return LinkSession(
        node=row["node"], connection=row["connection"], cloudcore=row["cloudcore"], began=row["began"],
        ended=row["ended"], reason=row["reason"], address=row["address"],
        certificate_ends=float(row["certificate_ends"]),
        seen=0.0 if row["ended"] else row["alive_at"] or 0.0,
    )  # fmt: skip


def _row(session: LinkSession, cloudcore: str) -> dict[str, object]:
    return {
        "connection": session.connection, "node": session.node, "cloudcore": cloudcore, "began": session.began,
        "ended": session.ended, "reason": session.reason[:_LONGEST_REASON], "address": session.address[:64],
        "certificate_ends": int(session.certificate_ends),
    }  # fmt: skip


def _trim(connection: Connection, nodes: set[str]) -> None:
    """Delete the oldest connections of nodes that have too many, and of all if there are too many."""
    columns = links.c
    counted = select(columns.node, func.count()).where(columns.node.in_(sorted(nodes))).group_by(columns.node)
    for node, count in connection.execute(counted).all():
        if count > MOST_OF_NODE:
            newest = select(columns.began).where(columns.node == node).order_by(columns.began.desc())
            oldest_kept = newest.offset(MOST_OF_NODE - 1).limit(1).scalar_subquery()
            connection.execute(delete(links).where(columns.node == node, columns.began < oldest_kept))


def _forget(connection: Connection, now: float) -> None:
    columns = links.c
    connection.execute(delete(links).where(columns.ended > 0.0, columns.ended < now - DAYS * 86_400.0))
    connection.execute(delete(marks).where(marks.c.alive_at < now - DAYS * 86_400.0))
    surplus = int(connection.execute(select(func.count()).select_from(links)).scalar_one()) - MOST_ROWS
    if surplus > 0:
        is_open = case((columns.ended == 0.0, 1), else_=0)
        oldest = select(columns.connection).order_by(is_open, columns.began).limit(surplus).scalar_subquery()
        connection.execute(delete(links).where(columns.connection.in_(oldest)))


def _end_lost(connection: Connection, now: float) -> None:
    """End the connections of cloudcores that are no longer alive, at their last mark."""
    columns = links.c
    dead = select(marks.c.cloudcore, marks.c.alive_at).where(marks.c.alive_at < now - LOST_AFTER)
    for cloudcore, alive_at in connection.execute(dead).all():
        lost = update(links).where(columns.cloudcore == cloudcore, columns.ended == 0.0)
        until = case((columns.began > alive_at, columns.began), else_=alive_at)
        connection.execute(lost.values(ended=until, reason=UNTOLD_END))
