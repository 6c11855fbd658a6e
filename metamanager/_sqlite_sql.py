"""Made by `python -m metamanager.generate` from `metamanager.schema`. Change that, not this."""

CREATE_META = (
    "CREATE TABLE IF NOT EXISTS meta ( key VARCHAR(512) NOT NULL, type VARCHAR(32), value TEXT, uid "
    "VARCHAR(64), resource_version BIGINT, namespace VARCHAR(256), name VARCHAR(256), updated BIGINT, PRIMARY "
    "KEY (key) )"
)

CREATE_INDEX = "CREATE INDEX IF NOT EXISTS edgecore_meta_type ON meta (type)"

ADDED_COLUMNS = {
    "uid": "ALTER TABLE meta ADD COLUMN uid VARCHAR(64)",
    "resource_version": "ALTER TABLE meta ADD COLUMN resource_version BIGINT",
    "namespace": "ALTER TABLE meta ADD COLUMN namespace VARCHAR(256)",
    "name": "ALTER TABLE meta ADD COLUMN name VARCHAR(256)",
    "updated": "ALTER TABLE meta ADD COLUMN updated BIGINT",
}

CREATE_HISTORY = (
    "CREATE TABLE IF NOT EXISTS edgecore_history ( id INTEGER NOT NULL, key VARCHAR(512) NOT NULL, at BIGINT "
    "NOT NULL, cause VARCHAR(64) NOT NULL, message VARCHAR(64) NOT NULL, uid VARCHAR(64), resource_version "
    "BIGINT, size BIGINT, value TEXT, PRIMARY KEY (id) )"
)

CREATE_HISTORY_INDEX = "CREATE INDEX IF NOT EXISTS edgecore_history_key ON edgecore_history (key)"

GET = "SELECT meta.value FROM meta WHERE meta.key = :key"

LIST = "SELECT meta.value FROM meta WHERE meta.type = :type ORDER BY meta.key"

LIST_IN = "SELECT meta.value FROM meta WHERE meta.type = :type AND meta.namespace = :namespace ORDER BY meta.key"

ROWS = (
    "SELECT meta.key, meta.type, meta.value, meta.uid, meta.resource_version, meta.namespace, meta.name, "
    "meta.updated FROM meta ORDER BY meta.key"
)

DELETE = "DELETE FROM meta WHERE meta.key = :key"

DELETE_OF_UID = (
    "DELETE FROM meta WHERE meta.key = :key AND (meta.uid = :uid OR meta.uid IS NULL AND (meta.value LIKE '%' "
    "|| :uid || '%'))"
)

DELETE_OWNED = "DELETE FROM meta WHERE meta.type = :type AND meta.uid = :uid"

STATE = "SELECT meta.uid, meta.resource_version FROM meta WHERE meta.key = :key"

TRIM = (
    "DELETE FROM edgecore_history WHERE edgecore_history.key = :key AND edgecore_history.id <= (SELECT "
    "edgecore_history.id FROM edgecore_history WHERE edgecore_history.key = :key ORDER BY edgecore_history.id "
    "DESC LIMIT 1 OFFSET :kept)"
)

WEIGHTS = (
    "SELECT edgecore_history.id, CASE WHEN (edgecore_history.value IS NOT NULL) THEN edgecore_history.size ELSE "
    "0 END AS anon_1 FROM edgecore_history ORDER BY edgecore_history.id LIMIT :number OFFSET 0"
)

DROP = "DELETE FROM edgecore_history WHERE edgecore_history.id <= :id"

WEIGHT = (
    "SELECT count(*) AS count_1, sum(CASE WHEN (edgecore_history.value IS NOT NULL) THEN edgecore_history.size "
    "ELSE 0 END) AS sum_1 FROM edgecore_history"
)

PUT = (
    "INSERT INTO meta (key, type, value, uid, resource_version, namespace, name, updated) VALUES {rows} ON "
    "CONFLICT (key) DO UPDATE SET type = excluded.type, value = excluded.value, uid = excluded.uid, "
    "resource_version = excluded.resource_version, namespace = excluded.namespace, name = excluded.name, "
    "updated = excluded.updated WHERE meta.uid IS NOT excluded.uid OR coalesce(meta.resource_version, 0) < "
    "excluded.resource_version OR coalesce(meta.resource_version, 0) = excluded.resource_version AND "
    "(excluded.resource_version = 0 OR excluded.uid = '')"
)

NOTE = "INSERT INTO edgecore_history (key, at, cause, message, uid, resource_version, size, value) VALUES {rows}"
