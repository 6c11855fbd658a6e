"""Compares the store's pods with the cloud's."""

from beehive import Module, Resource, ResourceType
from metamanager.absent_pods import AbsentPods, absent
from metamanager.batch import StoreChanges
from metamanager.errors import StoreError
from metamanager.pod_list import PodList
from metamanager.rows import head_of, parse
from metamanager.store import Store


class CloudPods:
    """Compares the store's pods with the cloud's in both directions, when pushes may have been missed.

    Pods that the store lacks come with the list (`metamanager.pod_list`), including those with a deletionTimestamp,
    whose end edged confirms. Stored pods that a complete list lacks are queried one by one, and end if the cloud does
    not have them (`metamanager.absent_pods`).

    Args:
        module: metamanager.
        store: the database.
        node: name of this node; if empty, the cloud is not asked.
        seconds: time that the cloud has for an answer.
        changes: take the outcome of a list, and each stored pod that the cloud no longer has.
    """

    def __init__(
        self,
        module: Module,
        store: Store,
        node: str,
        seconds: float,
        changes: StoreChanges,
    ) -> None:
        self._store = store
        self._node = node
        self._changes = changes
        self._list = PodList(module, store, node, seconds, changes=changes, complete=self._compare)
        self._absent = AbsentPods(module, seconds, changes)
        self._node_uid = ""
        """Uid of the cloud's Node object for this node; empty until this process has seen it."""

    def connection_changed(self, *, connected: bool) -> None:
        """Take a change of the connection to the cloud."""
        if not connected:
            self._absent.cancel()
        self._list.connection_changed(connected=connected and bool(self._node))

    def note_deleted(self, resource: Resource, key: str, uid: str) -> None:
        """Note that the cloud has deleted an object; without a uid, the one of that key."""
        self._list.note_deleted(key, uid)
        self._absent.note_deleted(key, uid)
        if resource.type == ResourceType.NODE and resource.name == self._node:
            self._node_uid = ""

    def note_object(self, key: str, content: bytes | None) -> None:
        """Note an object from the cloud before it is stored.

        A new uid of this node's Node object means a new registration: the cloud may have dropped pods bound to the
        node, or forgotten some of its predecessor.
        """
        resource = parse(key)
        if resource.type != ResourceType.NODE or resource.name != self._node or not content:
            return
        uid = head_of(content).uid or ""
        if uid and uid != (self._node_uid or self._stored_uid(key)):
            self._list.node_registered()
        self._node_uid = uid or self._node_uid

    def _stored_uid(self, key: str) -> str:
        try:
            stored = self._store.get(key)
        except StoreError as error:
            self._changes.change_failed(error)
            return ""
        return "" if stored is None else head_of(stored.encode()).uid or ""

    def _compare(self, listed: frozenset[str]) -> None:
        """Query the stored pods that a complete list lacks."""
        try:
            stored = self._store.get_all(ResourceType.POD)
        except StoreError as error:
            self._changes.change_failed(error)
        else:
            self._absent.check(absent(stored, listed, self._node))
