"""Made by `python -m edgehub.outbox.generate` from `edgehub.outbox.schema`. Change that, not this."""

CREATE = (
    "CREATE TABLE IF NOT EXISTS outbox ( serial INTEGER NOT NULL, accepted BIGINT NOT NULL, frame BLOB "
    "NOT NULL, PRIMARY KEY (serial) )"
)

LOAD = "SELECT outbox.serial, outbox.accepted, outbox.frame FROM outbox ORDER BY outbox.serial"

PUT = "INSERT OR REPLACE INTO outbox (serial, accepted, frame) VALUES (:serial, :accepted, :frame)"

REMOVE = "DELETE FROM outbox WHERE outbox.serial = :serial"
