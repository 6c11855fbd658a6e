"""Compares the store's pods with the cloud's, queries stored pods that the cloud's list lacks, and reports pods that
are gone.
"""

import logging
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from beehive import BeehiveError, Message, Module, Operation, Resource, ResourceType
from beehive.decoding import decode_json
from metamanager import errors
from metamanager.errors import CallError, StoreError
from metamanager.pod_list import PodList
from metamanager.remote_query import Question, question_about
from metamanager.repeated_queries import RepeatedQueries, refusal_in
from metamanager.replies import StoreChanges
from metamanager.rows import PodHead, StoredObject, head_of
from metamanager.store import Store

_log = logging.getLogger(__name__)

REFERENCES: Final = (
    ResourceType.CONFIGMAP,
    ResourceType.SECRET,
    ResourceType.PERSISTENT_VOLUME_CLAIM,
    ResourceType.PERSISTENT_VOLUME,
    ResourceType.VOLUME_ATTACHMENT,
)
"""Types of the objects that pods refer to, and that the cloud can be asked for."""


class CloudPods:
    """The comparison of the store's pods with the cloud's in both directions, when pushes may have been missed.

    Pods that the store lacks come with the list (`metamanager.pod_list`), including those with a deletionTimestamp,
    whose end edged confirms. Stored pods that a complete list lacks are queried one by one, and end if the cloud does
    not have them (`metamanager.cloud_pods`).

    With an earlier Node object the cloud has forgotten, too, which objects of its pods the node has, and does not tell
    it of their deletions. So after a new registration these are queried, as soon as a complete list shows that the
    cloud has not lost its objects.

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
        self._absent = AbsentObjects(module, seconds, changes)
        self._is_new_node = False
        """Whether the node has registered anew, and what its pods refer to is to be queried with the next list."""
        self._node_uid = ""
        """Uid of the cloud's Node object for this node; empty until this process has seen it."""

    def connection_changed(self, *, connected: bool) -> None:
        """Take a change of the connection to the cloud."""
        if not connected:
            self._is_new_node |= self._absent.has_references
            self._absent.cancel()
        self._list.connection_changed(connected=connected and bool(self._node))

    def record_deletion(self, resource: Resource, key: str, uid: str) -> None:
        """Note that the cloud has deleted an object; without a uid, the key decides."""
        self._list.record_deletion(key, uid)
        self._absent.drop(key, uid)
        if resource.type == ResourceType.NODE and resource.name == self._node:
            self._node_uid = ""

    def observe_node(self, resource: Resource, key: str, content: bytes | None) -> None:
        """Note a Node object from the cloud before it is stored.

        A new uid of this node's Node object means a new registration: the cloud may have dropped pods bound to the
        node, or forgotten some of its predecessor.
        """
        if resource.name != self._node or not content:
            return
        uid = head_of(content).uid or ""
        if uid and uid != (self._node_uid or self._stored_uid(key)):
            self._is_new_node = True
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
        """Query the stored pods that a complete list lacks; if the store fails, the list is requested again."""
        self._is_new_node |= self._absent.has_references
        try:
            stored = self._store.get_all(ResourceType.POD)
            references = list(self._references()) if self._is_new_node else []
        except StoreError as error:
            self._list.request_again()
            self._changes.change_failed(error)
        else:
            self._is_new_node = False
            self._absent.check([*absent(stored, listed, self._node), *references])

    def _references(self) -> Iterator[StoredObject]:
        """Yield the stored objects that pods refer to."""
        for kind in REFERENCES:
            for text in self._store.get_all(kind):
                head = head_of(text.encode())
                if head.uid and head.name:
                    yield StoredObject(kind, head.namespace or "", head.name, head.uid)


class AbsentObjects:
    """Queries of the cloud for stored objects that it may no longer have, of pods by name and uid
    (`metamanager.remote_query`).

    A list may lack a pod that is newer. But NotFound, or a Conflict with another uid, is final, for no uid is ever used
    twice: the object no longer exists. Objects that the cloud has after all stay.

    Args:
        module: metamanager.
        seconds: time that the cloud has for each answer.
        changes: take each object that the cloud no longer has.
    """

    def __init__(self, module: Module, seconds: float, changes: StoreChanges) -> None:
        self._changes = changes
        self._queries = RepeatedQueries(module, seconds, _question_about, self._decided)

    @property
    def has_references(self) -> bool:
        """Whether the cloud has not decided on all that pods refer to."""
        return any(each.type != ResourceType.POD for each in self._queries.undecided)

    def check(self, objects: Iterable[StoredObject]) -> None:
        """Query the objects that the newest list lacks, instead of an older list's."""
        self._queries.ask(objects)

    def cancel(self) -> None:
        """Drop the remaining queries: the link has ended, and the next list starts over."""
        self._queries.cancel()

    def drop(self, key: str, uid: str) -> None:
        """Drop the query for an object that the cloud has deleted by a message; without a uid, the key decides."""
        self._queries.drop(lambda stored: stored.key == key and uid in ("", stored.uid))

    def _decided(self, stored: StoredObject, refusal: CallError | None) -> None:
        if refusal is not None and errors.is_gone(refusal):
            _log.warning("%s (%s): the cloud no longer has it; it ends", stored.key, stored.uid)
            self._changes.remove_object(stored)


def _question_about(stored: StoredObject) -> Question:
    if stored.type == ResourceType.POD:
        return question_about(stored.namespace, stored.name, stored.uid)
    return Question(stored.key, Operation.QUERY, acknowledges=True)


def is_gone(answer: Message | BeehiveError) -> bool:
    """Return whether the answer to a pod's query means that no pod of its uid exists."""
    refusal = refusal_in(answer)
    return refusal is not None and errors.is_gone(refusal)


def absent(stored: Iterable[str], listed: frozenset[str], node: str) -> Iterator[StoredObject]:
    """Yield the pods of a node that are stored and not listed.

    Args:
        stored: JSON texts of pods; undecodable ones are skipped.
        listed: uids of the listed pods.
        node: name of the node.
    """
    for text in stored:
        try:
            pod = decode_json(text, PodHead)
        except (msgspec.DecodeError, UnicodeError):
            continue
        head = pod.metadata
        if head.uid and head.namespace and head.name and head.uid not in listed and pod.spec.node_name in ("", node):
            yield StoredObject(ResourceType.POD, head.namespace, head.name, head.uid)
