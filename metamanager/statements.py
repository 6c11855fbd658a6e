"""The SQL of the database of a node, an SQLite file.

Other databases get portable statements from SQLAlchemy (`metamanager.core_store`), which a node with a file does not
load: it would cost 13 MB of resident memory and 0.13 s of each start.
"""

from typing import Final

# The table of objects

CREATE_META: Final = (
    "CREATE TABLE IF NOT EXISTS meta ( key VARCHAR(512) NOT NULL, type VARCHAR(32), value TEXT, uid VARCHAR(64), "
    "resource_version BIGINT, namespace VARCHAR(256), name VARCHAR(256), updated BIGINT, PRIMARY KEY (key) )"
)
"""KubeEdge's table with additional columns. KubeEdge's tools name their columns, and leave the additional ones NULL."""
ADDED_COLUMNS: Final = {
    "uid": "ALTER TABLE meta ADD COLUMN uid VARCHAR(64)",
    "resource_version": "ALTER TABLE meta ADD COLUMN resource_version BIGINT",
    "namespace": "ALTER TABLE meta ADD COLUMN namespace VARCHAR(256)",
    "name": "ALTER TABLE meta ADD COLUMN name VARCHAR(256)",
    "updated": "ALTER TABLE meta ADD COLUMN updated BIGINT",
}
"""The statements that add the columns to KubeEdge's table."""
CREATE_INDEX: Final = "CREATE INDEX IF NOT EXISTS edgecore_meta_type ON meta (type)"

GET: Final = "SELECT value FROM meta WHERE key = :key"
LIST: Final = "SELECT value FROM meta WHERE type = :type ORDER BY key"
LIST_IN: Final = "SELECT value FROM meta WHERE type = :type AND namespace = :namespace ORDER BY key"
ROWS: Final = "SELECT key, type, value, uid, resource_version, namespace, name, updated FROM meta ORDER BY key"
STATE: Final = "SELECT uid, resource_version FROM meta WHERE key = :key"
PUT: Final = (
    "INSERT INTO meta (key, type, value, uid, resource_version, namespace, name, updated) VALUES {rows} "
    "ON CONFLICT (key) DO UPDATE SET type = excluded.type, value = excluded.value, uid = excluded.uid, "
    "resource_version = excluded.resource_version, namespace = excluded.namespace, name = excluded.name, "
    "updated = excluded.updated WHERE meta.uid IS NOT excluded.uid "
    "OR coalesce(meta.resource_version, 0) < excluded.resource_version "
    "OR coalesce(meta.resource_version, 0) = excluded.resource_version "
    "AND (excluded.resource_version = 0 OR excluded.uid = '' OR excluded.type IN ('endpoints', 'endpointslice'))"
)
"""Inserts or replaces rows, unless the stored one has a newer or the same state (`Row.supersedes`)."""
DELETE: Final = "DELETE FROM meta WHERE key = :key"
DELETE_OF_UID: Final = (
    "DELETE FROM meta WHERE key = :key AND (uid = :uid OR uid IS NULL AND value LIKE '%' || :uid || '%')"
)
"""A row written by KubeEdge has its uid only in the value, where KubeEdge searches for it too."""
DELETE_OWNED: Final = "DELETE FROM meta WHERE type = :type AND uid = :uid"

# The last changes of each object (`metamanager.history`)

CREATE_HISTORY: Final = (
    "CREATE TABLE IF NOT EXISTS edgecore_history ( id INTEGER NOT NULL, key VARCHAR(512) NOT NULL, at BIGINT NOT NULL, "
    "cause VARCHAR(64) NOT NULL, message VARCHAR(64) NOT NULL, uid VARCHAR(64), resource_version BIGINT, size BIGINT, "
    "value TEXT, PRIMARY KEY (id) )"
)
"""`size` is NULL for a deletion, `value` for a state that is not kept."""
CREATE_HISTORY_INDEX: Final = "CREATE INDEX IF NOT EXISTS edgecore_history_key ON edgecore_history (key)"

NOTE: Final = "INSERT INTO edgecore_history (key, at, cause, message, uid, resource_version, size, value) VALUES {rows}"
TRIM: Final = (
    "DELETE FROM edgecore_history WHERE key = :key AND id <= "
    "(SELECT id FROM edgecore_history WHERE key = :key ORDER BY id DESC LIMIT 1 OFFSET :kept)"
)
"""Deletes all but the newest `kept` changes of an object."""
WEIGHTS: Final = (
    "SELECT id, CASE WHEN value IS NOT NULL THEN size ELSE 0 END FROM edgecore_history ORDER BY id LIMIT :number"
)
"""The stored size, not the text's length: SQLite would read the whole text for that."""
WEIGHT: Final = "SELECT count(*), sum(CASE WHEN value IS NOT NULL THEN size ELSE 0 END) FROM edgecore_history"
DROP: Final = "DELETE FROM edgecore_history WHERE id <= :id"
