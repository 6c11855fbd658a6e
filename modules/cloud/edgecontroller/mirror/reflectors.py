"""The lists and watches of a cluster's objects, into the mirror."""

import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from beehive.module import Module
from modules.apimachinery.kinds import Kind, ObjectKey, kind_named
from modules.cloud.client.kube_client import KubeClient, News
from modules.cloud.client.reflector.effects import Deleted, EpochChanged, Refused, Synced
from modules.cloud.client.reflector.observations import ObservedObject
from modules.cloud.client.reflector.selection import Selection
from modules.cloud.devices import DEVICE, DEVICE_MODEL, KEY_NAMES
from modules.cloud.edgecontroller.downstream.controller import DownstreamController
from modules.cloud.edgecontroller.downstream_messages import SENT_BY_WATCH, is_other
from modules.cloud.edgecontroller.mirror.held_devices import HeldDevices
from modules.cloud.edgecontroller.mirror.mirror import Mirror
from modules.cloud.edgecontroller.mirror.recent_uids import RecentUids
from modules.cloud.edgecontroller.state.epochs import Epochs
from modules.cloud.storage.database.errors import DatabaseError
from modules.cloud.storage.transactions import Transactions

_log = logging.getLogger(__name__)

MIRRORED: Final = (
    "Node", "Pod", "ConfigMap", "Secret", "PersistentVolume", "PersistentVolumeClaim", "VolumeAttachment", "CSIDriver",
)  # fmt: skip
"""The kinds that nodes hold (KubeEdge's cloudcore watches the same, whole)."""
_BEFORE: Final = {"Pod": "Node", "ConfigMap": "Pod", "Secret": "Pod"}
"""The kind that is listed before: of pods the bodies of edge nodes are kept, and of the others what they refer to."""
_REQUIRED: Final = frozenset({"Node", "Pod"})
"""Kinds without which no node can be served; the right to another may be missing."""
_FOR_WATCHES: Final = frozenset(SENT_BY_WATCH)
"""The kinds that are mirrored from the first time on that a node watches them, or has objects of them."""
_LATER: Final = _FOR_WATCHES | KEY_NAMES
"""Kinds without which nodes are served: those, and devices, which many clusters do not have."""
_MOST_OTHERS: Final = 12
"""Other kinds that are mirrored for the watches of nodes; each takes one of a client's 32 connections."""
_WATCH_SECONDS: Final = 2.0
"""Seconds until the watch of pods reports a deletion that the API server has answered, unless something is wrong."""
_POD: Final = "Pod"
_ASSIGNED: Final = "spec.nodeName!="


class Reflectors:
    """One reflector for each mirrored kind, and the handling of the changes that they report.

    Args:
        mirror: of the objects; empty.
        module: edgecontroller.
        transactions: of edgecontroller.
        downstream: sends nodes their objects; told of deletions and restarts of watches.
        epochs: of the API server's versions.
        all_listed: called when all objects are there; again when they were listed again after a restore of etcd.
    """

    def __init__(
        self,
        mirror: Mirror,
        module: Module,
        transactions: Transactions,
        downstream: DownstreamController,
        epochs: Epochs,
        all_listed: Callable[[], None],
    ) -> None:
        self._mirror = mirror
        self._module = module
        self._transactions = transactions
        self._downstream = downstream
        self._epochs = epochs
        self._all_listed = all_listed
        self._client: KubeClient | None = None
        self._ended_pods = RecentUids()
        """Pods that the API server has deleted for their nodes: a late watch may still report old states."""
        self._held = HeldDevices(mirror, module, self._observe_device)
        self.missing = set(MIRRORED)
        """Kinds whose first list is not complete yet. No node is served without them."""
        self._following: set[str] = set()
        """The kinds of `_BEFORE` that are watched."""
        self._later: dict[str, bool] = {}
        """The kinds of `_LATER` that are mirrored, and whether their lists are complete."""
        self._refused: dict[str, int] = {}
        """The kinds that the API server refuses, with its status."""
        self._ever_listed: set[str] = set()
        """Kinds that were listed once: from then on the reflector reports deletions."""

    def start(self, client: KubeClient) -> None:
        """Begin to list and watch the kinds that nodes hold, and devices: models first, as nodes get them first."""
        self._client = client
        for name in MIRRORED:
            if name not in _BEFORE:
                self._watch(client, kind_named(name))
        self._watch_later(DEVICE_MODEL)

    def mirrors(self, kind: str) -> bool:
        """Begin to mirror a kind that nodes watch; return whether all objects of a kind are in the mirror. Those of a
        kind that the API server refuses may be there all the same, so no node is told that they have gone.
        """
        if kind in _FOR_WATCHES and kind not in self._later:
            self._watch_later(kind_named(kind))
        return self._later.get(kind, kind not in _LATER and not is_other(kind) and kind not in self._refused)

    def mirror(self, kind: Kind) -> bool:
        """Begin to mirror a kind that a node watches; return whether that is possible, or done already."""
        name = kind.key_name
        if name in self._later or not is_other(name):
            self.mirrors(name)
            return True
        if sum(map(is_other, self._later)) >= _MOST_OTHERS:
            return False
        self._watch_later(kind)
        return True

    def refusal_of(self, kind: str) -> int:
        """Return the status of the API server's refusal of a kind, or 0."""
        return self._refused.get(kind, 0)

    def handle_deletion(self, key: ObjectKey, uid: str, node: str) -> None:
        """Take the deletion of a pod by the API server for its node. If the mirror has the pod, its watch is given time
        to report the deletion first, after other changes of the pod.
        """
        if self._mirrors_pod(key, uid):
            self._module.after(_WATCH_SECONDS, partial(self._handle_late, key, uid, node))
        else:
            self.handle_end(key, uid, node)

    def handle_end(self, key: ObjectKey, uid: str, node: str) -> None:
        """Take over that the API server has deleted a pod of a node, before the watch tells it."""
        self.observe(partial(self._pod_ended, key, uid, node))

    def observe(self, change: Callable[[], None]) -> None:
        """Take over a change in the transaction of the turn. A change that cannot be handled is dropped.

        Raises:
            DatabaseError: the transaction is lost.
        """
        try:
            self._transactions.attempt(change, begins=False)
        except DatabaseError:
            raise
        except Exception:  # noqa: BLE001 - one object must not stop the module for all
            _log.exception("a change of an object cannot be handled")

    def list_again(self) -> None:
        """List all kinds again, as when their watches end: they may have passed over a restore of the API server."""
        if self._client is not None:
            self._module.call_soon(self._client.list_again)

    def was_restored(self) -> None:
        """Take that the API server may have objects and versions from before: all is listed again, if it was before."""
        self._module.end_turn_soon()
        self._ended_pods.clear()
        if not self.missing:
            self.went_back()

    def went_back(self) -> None:
        """Begin the next epoch: the API server was restored, as its versions or another cloudcore say."""
        self._epochs.went_back()
        self._list_again()

    def _watch_later(self, kind: Kind) -> None:
        if self._client is not None:
            self._later[kind.key_name] = False
            self._watch(self._client, kind)

    def _watch_following(self, listed: str) -> None:
        """Begin with the kinds that had to wait for the first list of a kind."""
        for name, before in _BEFORE.items():
            if before == listed and name not in self._following and self._client is not None:
                self._following.add(name)
                self._watch(self._client, kind_named(name))

    def _watch(self, client: KubeClient, kind: Kind) -> None:
        selector = _ASSIGNED if kind.name == _POD else ""
        client.watch(Selection(kind=kind, field_selector=selector), partial(self._handle, kind), kind.key_name)

    def _handle(self, kind: Kind, news: News) -> None:
        self._module.end_turn_soon()
        match news:
            case Synced():
                self._downstream.newest.listed(kind.key_name, news.resource_version)
                self._listed(kind, news.resource_version)
                self._watch_following(kind.key_name)
            case Refused():
                self._log_refusal(kind, news)
                self._refused[kind.key_name] = news.status
                if kind.key_name not in _REQUIRED | _LATER and not is_other(kind.key_name):
                    self._have(kind.key_name)
            case EpochChanged():
                _log.warning("%s: the versions of the API server went back: it was restored", kind.plural)
                self.was_restored()
            case Deleted():
                self._ended_pods.discard(news.object.uid)
                key = ObjectKey(kind.key_name, news.object.namespace, news.object.name)
                self._held.drop(key)
                self._downstream.newest.observe(kind.key_name, news.object.resource_version)
                self.observe(partial(self._mirror.remove, key, news.object.resource_version))
            case _ if kind.key_name == DEVICE.key_name and self._held.holds(news.object):
                pass  # it waits for its model, also in the first list: the model can be newer than the list of models
            case _ if news.object.uid not in self._ended_pods:
                if not news.is_listed:  # one of a list that is not complete says nothing of others
                    self._downstream.newest.observe(kind.key_name, news.object.resource_version)
                self.observe(partial(self._mirror.observe, kind, news.object))
                if kind.key_name == DEVICE_MODEL.key_name:
                    self._held.release(ObjectKey(kind.key_name, news.object.namespace, news.object.name))

    def _observe_device(self, observed: ObservedObject) -> None:
        self.observe(partial(self._mirror.observe, DEVICE, observed))
        self._module.end_turn_soon()

    def _log_refusal(self, kind: Kind, refused: Refused) -> None:
        """Log that the API server refuses a kind. That it has no devices is logged once, because cloudcore asks for
        them for ever.
        """
        is_new = self._refused.get(kind.key_name) != refused.status
        if kind.key_name not in KEY_NAMES and (is_new or not kind.is_custom):
            _log.warning("cannot watch %s: %d: %s", kind.plural, refused.status, refused.message)
        elif kind.key_name in KEY_NAMES and is_new:
            _log.info("no devices are served: the API server answers %d: %s", refused.status, refused.message)

    def _handle_late(self, key: ObjectKey, uid: str, node: str) -> None:
        if self._mirrors_pod(key, uid):
            self.handle_end(key, uid, node)
            self._module.end_turn_soon()

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
        self._refused.pop(kind.key_name, None)
        if kind.name == _POD and self._epochs.listed(version):
            _log.warning("%s: the API server was restored to an older state", kind.plural)
            self._list_again()
        else:
            self._have(kind.key_name)

    def _list_again(self) -> None:
        """List all kinds again: until then nodes are not served, as the mirror is partly older than the restore."""

        def list_all() -> None:
            self.missing |= set(MIRRORED)
            self._later = dict.fromkeys(self._later, False)
            self._held.forget_listed()
            if self._client is not None:
                self._client.list_again()

        self.missing |= set(MIRRORED)
        self._module.call_soon(list_all)

    def _have(self, kind: str) -> None:
        if kind == DEVICE.key_name:
            self._held.after_those_now(self._have_devices)
        elif kind in self._later:
            self._have_later(kind)
        if kind in self.missing:
            self.missing.discard(kind)
            if not self.missing:
                self._transactions.begin()
                self._all_listed()

    def _have_devices(self) -> None:
        self._module.end_turn_soon()
        self._transactions.begin()
        self._have_later(DEVICE.key_name)

    def _have_later(self, kind: str) -> None:
        self._later[kind] = True
        is_first = kind not in self._ever_listed
        self._ever_listed.add(kind)
        if kind == DEVICE.key_name:
            self._downstream.send_deletions(kind)
        elif kind == DEVICE_MODEL.key_name:
            if is_first:
                self._watch_later(DEVICE)
        elif is_first:
            self._downstream.send_deletions(kind)
