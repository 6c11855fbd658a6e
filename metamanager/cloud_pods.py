"""Compares the store's pods with the cloud's, in both directions, when what was pushed may not be all.

What the cloud has and the store has not comes with the list (`metamanager.pod_list`): pods whose deletion has begun are
among them, and edged confirms their end. What the store has and a complete list has not is asked for one by one, and
ends when the cloud does not know it (`metamanager.absent_pods`).
"""

from collections.abc import Callable

from beehive import Module, Resource, ResourceType
from metamanager.absent_pods import AbsentPods, StoredPod, absent
from metamanager.batch import Outcome
from metamanager.errors import StoreError
from metamanager.pod_list import PodList
from metamanager.rows import head_of, parse
from metamanager.store import Store


class CloudPods:
    """See the module's docstring.

    Args:
        module: whose turns these are.
        store: that has this node's pods, and takes the list.
        node: name of this node; empty: the cloud is not asked.
        seconds: how long the cloud has for an answer.
        taken: takes what the list has come to, once it is in the store.
        gone: takes each stored pod that the cloud does not have any more.
        failed: told why the store could not be read or changed; it is tried again.
    """

    def __init__(
        self,
        module: Module,
        store: Store,
        node: str,
        seconds: float,
        *,
        taken: Callable[[Outcome], None],
        gone: Callable[[StoredPod], None],
        failed: Callable[[StoreError], None],
    ) -> None:
        self._store = store
        self._node = node
        self._failed = failed
        self._list = PodList(module, store, node, seconds, taken=taken, failed=failed, complete=self._compare)
        self._absent = AbsentPods(module, seconds, gone)
        self._node_uid = ""
        """Of the Node object that the cloud has for this node, as far as it was said to this process."""

    def connection_changed(self, *, connected: bool) -> None:
        """The cloud can be reached, or cannot."""
        if not connected:
            self._absent.give_up()
        self._list.connection_changed(connected=connected and bool(self._node))

    def deleted(self, resource: Resource, key: str, uid: str) -> None:
        """The cloud has deleted an object; without a uid whichever has the key."""
        self._list.deleted(key, uid)
        self._absent.deleted(key, uid)
        if resource.type == ResourceType.NODE and resource.name == self._node:
            self._node_uid = ""

    def said(self, key: str, content: bytes | None) -> None:
        """The cloud has said how an object is; the store does not have that yet.

        A Node object for this node which is another one than before was registered anew: the cloud may have dropped
        pods that were bound to it, or forgotten some of its predecessor.
        """
        resource = parse(key)
        if resource.type != ResourceType.NODE or resource.name != self._node or not content:
            return
        uid = head_of(content).uid or ""
        if uid and uid != (self._node_uid or self._stored_uid(key)):
            self._list.registered()
        self._node_uid = uid or self._node_uid

    def _stored_uid(self, key: str) -> str:
        try:
            stored = self._store.get(key)
        except StoreError as error:
            self._failed(error)
            return ""
        return "" if stored is None else head_of(stored.encode()).uid or ""

    def _compare(self, listed: frozenset[str]) -> None:
        """The cloud has said which pods there are, and left none out."""
        try:
            stored = self._store.get_all(ResourceType.POD)
        except StoreError as error:
            self._failed(error)
        else:
            self._absent.ask_for(absent(stored, listed, self._node))
