"""A store that is another one, and tells a view of what has become durable.

Put around metamanager's store by who assembles the process, as the recording one is: so the API tells nothing that a
loss of power could take back, and metamanager knows nothing of it. Used on one thread, as every store.
"""

from collections.abc import Callable
from collections.abc import Set as AbstractSet

from beehive.resource import Form
from metamanager.errors import StoreError, StoreWriteError
from metamanager.rows import UNNOTED, Cause, Row, head_of, parse
from metamanager.store import Store
from modules.metaserver.compose import normal
from modules.metaserver.resources import RESOURCES, TOKENS, of_token
from modules.metaserver.view import Key, View


class WatchedStore:
    """See `metamanager.store.Store` and the module's docstring.

    Args:
        store: that keeps.
        view: is told.
        tokens: the kinds of which it is told.

    Raises:
        StoreError: the store cannot be read.
    """

    def __init__(self, store: Store, view: View, tokens: AbstractSet[str] = TOKENS) -> None:
        self._store = store
        self._view = view
        self._tokens = tokens
        self._changes: list[tuple[Key, bytes | None]] = []
        self.get = store.get
        self.get_all = store.get_all
        view.load(dict(self._rows()))

    def put(self, row: Row) -> bool:
        """See `Store`."""
        taken = self._store.put(row)
        if taken and row.type in self._tokens:
            self._note(row.key, row.value.encode())
        return taken

    def delete(self, key: str, uid: str = "", cause: Cause = UNNOTED, now_ms: int = 0) -> bool:
        """See `Store`."""
        deleted = self._store.delete(key, uid, cause, now_ms)
        if deleted:
            self._note(key, None)
        return deleted

    def delete_owned(self, kind: str, uid: str) -> int:
        """See `Store`. What has an owner so (tokens) is not served."""
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
            self._view.store_changed(changes)

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

    def _note(self, address: str, value: bytes | None) -> None:
        resource = parse(address)
        if resource.form is not Form.OBJECT or resource.type not in self._tokens or not resource.name:
            return
        kind = of_token(resource.type)
        key = Key(kind.token, resource.namespace if kind.namespaced else "", resource.name)
        self._changes.append((key, None if value is None else normal(kind, value)))

    def _rows(self) -> "list[tuple[Key, bytes]]":
        found = []
        for kind in (each for each in RESOURCES if each.token in self._tokens):
            for value in self._store.get_all(kind.token):
                text = normal(kind, value.encode())
                head = head_of(value.encode())
                if text is not None and head.name:
                    key = Key(kind.token, (head.namespace or "") if kind.namespaced else "", head.name)
                    found.append((key, text))
        return found


def watched(
    open_store: Callable[[str], Store], view: View, tokens: AbstractSet[str] = TOKENS
) -> Callable[[str], Store]:
    """Opens a store that tells a view; of these kinds."""

    def open_watched(source: str) -> Store:
        store = open_store(source)
        try:
            return WatchedStore(store, view, tokens)
        except StoreError:
            store.close()
            raise

    return open_watched
