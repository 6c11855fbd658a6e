"""The source of stored objects in the cache: a wrapper of metamanager's store."""

from collections.abc import Callable
from collections.abc import Set as AbstractSet

from beehive.on_failure import on_failure
from beehive.resource import Form, Resource
from metamanager.errors import StoreWriteError
from metamanager.rows import UNNOTED, Cause, Row, head_of
from metamanager.store import Store
from modules.edge.metaserver.compose import normalize
from modules.edge.metaserver.resources import RESOURCES, TOKENS, of_token
from modules.edge.metaserver.watch_cache import CacheKey, WatchCache


class WatchCacheStore:
    """A `Store` that passes all calls to another one and updates the cache after each commit.

    So the API never serves an object that a loss of power could take back, and metamanager does not know the API. The
    process wraps the store in it, as in the recording one; one thread uses it, as every store.

    Args:
        store: the wrapped store.
        cache: loaded immediately, and updated with each commit.
        tokens: the kinds in the cache.

    Raises:
        StoreError: the store cannot be read.
    """

    def __init__(self, store: Store, cache: WatchCache, tokens: AbstractSet[str] = TOKENS) -> None:
        self._store = store
        self._cache = cache
        self._tokens = tokens
        self._changes: list[tuple[CacheKey, bytes | None]] = []
        self.get = store.get
        self.get_all = store.get_all
        self.rows = store.rows
        cache.load(dict(self._rows()))

    def put(self, row: Row) -> bool:
        """See `Store`."""
        taken = self._store.put(row)
        if taken and row.type in self._tokens:
            self._observe(row.key, row.value.encode())
        return taken

    def delete(self, key: str, uid: str = "", cause: Cause = UNNOTED, now_ms: int = 0) -> bool:
        """See `Store`."""
        deleted = self._store.delete(key, uid, cause, now_ms)
        if deleted:
            self._observe(key, None)
        return deleted

    def delete_owned(self, kind: str, uid: str) -> int:
        """See `Store`. Rows with such an owner (service account tokens) are not served."""
        return self._store.delete_owned(kind, uid)

    def commit(self) -> None:
        """See `Store`."""
        try:
            self._store.commit()
        except StoreWriteError:
            self._changes.clear()
            raise
        changes, self._changes = self._changes, []
        if changes:
            self._cache.apply_store_changes(changes)

    def make_room(self) -> bool:
        """See `Store`."""
        return self._store.make_room()

    def rollback(self) -> None:
        """See `Store`."""
        self._changes.clear()
        self._store.rollback()

    def close(self) -> None:
        """See `Store`."""
        self._store.close()

    def _observe(self, address: str, value: bytes | None) -> None:
        resource = Resource.read(address)
        if resource.form is not Form.OBJECT or resource.type not in self._tokens or not resource.name:
            return
        kind = of_token(resource.type)
        key = CacheKey(kind.token, resource.namespace if kind.namespaced else "", resource.name)
        self._changes.append((key, None if value is None else normalize(kind, value)))

    def _rows(self) -> "list[tuple[CacheKey, bytes]]":
        values = ((token, value) for token in served_tokens(self._tokens) for value in self._store.get_all(token))
        return [entry for token, value in values if (entry := object_of(token, value.encode())) is not None]


def served_tokens(tokens: AbstractSet[str] = TOKENS) -> list[str]:
    """Return the type tokens that the API serves."""
    return [each.token for each in RESOURCES if each.token in tokens]


def object_of(token: str, value: bytes) -> tuple[CacheKey, bytes] | None:
    """Return the key and text of a stored value; None for a value that is no object with a name."""
    kind = of_token(token)
    text, head = normalize(kind, value), head_of(value)
    if text is None or not head.name:
        return None
    return CacheKey(token, (head.namespace or "") if kind.namespaced else "", head.name), text


def watch_cache_opener(
    open_store: Callable[[str], Store], cache: WatchCache, tokens: AbstractSet[str] = TOKENS
) -> Callable[[str], Store]:
    """Return an opener of stores that update the cache.

    Args:
        open_store: opens the wrapped store.
        cache: see `WatchCacheStore`.
        tokens: see `WatchCacheStore`.
    """

    def open_watched(source: str) -> Store:
        store = open_store(source)
        with on_failure(store.close):
            return WatchCacheStore(store, cache, tokens)

    return open_watched
