"""The lists and watches of a cluster's objects, into the mirror."""

import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from beehive.module import Module
from modules.cloud.apiserver.database.errors import DatabaseError
from modules.cloud.apiserver.kinds import Kind, ObjectKey, kind_named
from modules.cloud.apiserver.transactions import Transactions
from modules.cloud.client.call_requests import collection_path
from modules.cloud.client.kube_client import KubeClient, News
from modules.cloud.client.reflector.effects import Deleted, EpochChanged, Refused, Synced
from modules.cloud.client.reflector.selection import Selection
from modules.cloud.edgecontroller.downstream_controller import DownstreamController
from modules.cloud.edgecontroller.ended_pods import EndedPods
from modules.cloud.edgecontroller.mirror import Mirror
from modules.cloud.edgecontroller.node_connections import NodeConnections
from modules.cloud.edgecontroller.node_watches import SENT_BY_WATCH

_log = logging.getLogger(__name__)

MIRRORED: Final = (
    "Node", "Pod", "ConfigMap", "Secret", "PersistentVolume", "PersistentVolumeClaim", "VolumeAttachment", "CSIDriver",
)  # fmt: skip
"""The kinds that nodes hold (KubeEdge's cloudcore watches the same, whole)."""
_REQUIRED: Final = frozenset({"Node", "Pod"})
"""Kinds without which no node can be served; the right to another may be missing."""
_FOR_WATCHES: Final = frozenset(SENT_BY_WATCH)
"""The kinds that are mirrored from the first time on that a node watches them, or has objects of them."""
_WATCH_SECONDS: Final = 2.0
"""Seconds in which the watch of pods tells a deletion that the API server has answered, unless something is wrong."""
_POD: Final = "Pod"
_ASSIGNED: Final = "spec.nodeName!="


class Reflectors:
    """One reflector for each mirrored kind, and what follows from their news.

    Args:
        mirror: of the objects; empty.
        module: edgecontroller.
        transactions: of edgecontroller.
        end_turn: ends the turn soon: news of the API server come outside the batches of messages.
        downstream: sends nodes their objects; told what the mirror knows beyond the objects.
        connections: have the epochs.
        all_listed: called when all objects are there; again when they were listed again after a restore of etcd.
    """

    def __init__(
        self,
        mirror: Mirror,
        module: Module,
        transactions: Transactions,
        end_turn: Callable[[], None],
        downstream: DownstreamController,
        connections: NodeConnections,
        all_listed: Callable[[], None],
    ) -> None:
        self._mirror = mirror
        self._module = module
        self._transactions = transactions
        self._end_turn = end_turn
        self._downstream = downstream
        self._epochs = connections.epochs
        self._all_listed = all_listed
        self._client: KubeClient | None = None
        self._ended_pods = EndedPods()
        self._missing = set(MIRRORED)
        """Kinds of which no list is complete yet, and without which no node is served."""
        self._for_watches: dict[str, bool] = {}
        """The kinds that are mirrored for the watches of nodes, and whether their lists are complete."""

    @property
    def are_complete(self) -> bool:
        """Whether all objects of the kinds that nodes hold are in the mirror."""
        return not self._missing

    def start(self, client: KubeClient) -> None:
        """Begin to list and watch the kinds that nodes hold."""
        self._client = client
        for name in MIRRORED:
            self._watch(client, kind_named(name))

    def mirrors(self, kind: str) -> bool:
        """Begin to mirror a kind that nodes watch; return whether all objects of a kind are in the mirror."""
        if kind not in _FOR_WATCHES:
            return True
        if kind not in self._for_watches and self._client is not None:
            self._for_watches[kind] = False
            self._watch(self._client, kind_named(kind))
        return self._for_watches.get(kind, False)

    def note_deletion(self, key: ObjectKey, uid: str, node: str) -> None:
        """Take over that the API server has deleted a pod for its node. If the mirror has the pod, its watch is given
        time to tell it first, with what else has happened to the pod.
        """
        if self._mirrors_pod(key, uid):
            self._module.after(_WATCH_SECONDS, partial(self._note_late, key, uid, node))
        else:
            self.note_end(key, uid, node)

    def note_end(self, key: ObjectKey, uid: str, node: str) -> None:
        """Take over that the API server has deleted a pod of a node, before the watch tells it."""
        self.observe(partial(self._pod_ended, key, uid, node))

    def observe(self, change: Callable[[], None]) -> None:
        """Take over a change in the transaction of the turn. One that cannot be handled is dropped.

        Raises:
            DatabaseError: the transaction is lost.
        """
        try:
            self._transactions.attempt(change)
        except DatabaseError:
            raise
        except Exception:  # noqa: BLE001 - one object must not stop the module for all
            _log.exception("a change of an object cannot be handled")

    def _watch(self, client: KubeClient, kind: Kind) -> None:
        selector = _ASSIGNED if kind.name == _POD else ""
        path = collection_path(kind.api_version, kind.plural)
        client.watch(Selection(path=path, field_selector=selector), partial(self._told, kind))

    def _told(self, kind: Kind, news: News) -> None:
        self._end_turn()
        match news:
            case Synced():
                self._downstream.listed(kind.key_name, news.resource_version)
                self._listed(kind, news.resource_version)
            case Refused():
                _log.warning("cannot watch %s: %d: %s", kind.plural, news.status, news.message)
                if kind.name not in _REQUIRED | _FOR_WATCHES:
                    self._have(kind.name)
            case EpochChanged():
                _log.warning("%s: the versions of the API server went back: it was restored", kind.plural)
                self._ended_pods.forget()
                if self.are_complete:
                    self._transactions.begin()
                    self._epochs.went_back()
                    self._list_again()
            case Deleted():
                self._ended_pods.told(news.object.uid)
                key = ObjectKey(kind.key_name, news.object.namespace, news.object.name)
                self.observe(partial(self._mirror.remove, key, news.object.resource_version))
            case _ if news.object.uid not in self._ended_pods:
                self.observe(partial(self._mirror.observe, kind, news.object))

    def _note_late(self, key: ObjectKey, uid: str, node: str) -> None:
        if self._mirrors_pod(key, uid):
            self.note_end(key, uid, node)
            self._end_turn()

    def _mirrors_pod(self, key: ObjectKey, uid: str) -> bool:
        live = self._mirror.revision_of(key)
        return live is not None and live.uid == uid

    def _pod_ended(self, key: ObjectKey, uid: str, node: str) -> None:
        self._ended_pods.add(uid)
        if self._mirrors_pod(key, uid):
            self._mirror.remove(key)
        else:
            self._downstream.delete_unknown(node, key, uid)

    def _listed(self, kind: Kind, version: str) -> None:
        self._transactions.begin()
        if kind.name == _POD and self._epochs.listed(version):
            _log.warning("%s: the API server was restored to an older state", kind.plural)
            self._list_again()
        else:
            self._have(kind.name)

    def _list_again(self) -> None:
        """List all kinds again: until then nodes are not served, as the mirror is partly older than the restore."""

        def list_all() -> None:
            self._missing |= set(MIRRORED)
            self._for_watches = dict.fromkeys(self._for_watches, False)
            if self._client is not None:
                self._client.list_again()

        self._missing |= set(MIRRORED)
        self._module.call_soon(list_all)

    def _have(self, kind: str) -> None:
        if kind in self._for_watches:
            self._for_watches[kind] = True
        if kind in self._missing:
            self._missing.discard(kind)
            if not self._missing:
                self._transactions.begin()
                self._all_listed()
