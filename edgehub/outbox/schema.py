"""The outbox's table. Not imported by the agent: SQLAlchemy takes memory, so its statements are printed once
(`edgehub.outbox.generate`), as metamanager's are.
"""

import sqlalchemy as sa

METADATA = sa.MetaData()

OUTBOX = sa.Table(
    "outbox",
    METADATA,
    sa.Column("serial", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("accepted", sa.BigInteger, nullable=False),
    sa.Column("frame", sa.LargeBinary, nullable=False),
)

LOAD = sa.select(OUTBOX).order_by(OUTBOX.c.serial)

PUT = OUTBOX.insert().prefix_with("OR REPLACE", dialect="sqlite")

REMOVE = OUTBOX.delete().where(OUTBOX.c.serial == sa.bindparam("serial"))
