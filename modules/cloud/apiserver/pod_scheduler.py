"""PodScheduler: gives its own pods their nodes, and reports why a pod waits."""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from modules.apimachinery.api_errors import ApiError
from modules.apimachinery.kinds import (
    JsonObject,
    ObjectKey,
    is_being_deleted,
    key_kind,
    key_of,
    kind_named,
    metadata_of,
)
from modules.apimachinery.times import format_rfc3339
from modules.apimachinery.unvalidated import as_object
from modules.cloud.apiserver.event_registry import EventRegistry
from modules.cloud.apiserver.pod_scheduled import (
    as_gated,
    as_preempted,
    as_waiting,
    failed_scheduling,
    has_default_scheduler,
    is_gated,
    nominated_node,
    preempted,
    scheduled,
    waits_because,
    with_node,
    with_nominated_node,
)
from modules.cloud.apiserver.reconciler import Attempt, Reconciler
from modules.cloud.apiserver.scheduler import MAKE_ROOM, Placement, Placer, makes_room, placement_at
from modules.cloud.apiserver.scheduling.rooms import NodeRooms
from modules.cloud.apiserver.scheduling.volume_nodes import DelayedClaims, has_delayed_claims
from modules.cloud.applications import NODE_GROUP
from modules.cloud.authorization.trusted_labels import TrustedLabels
from modules.cloud.storage.object_storage import ObjectEvent, Storage
from modules.cloud.storage.unbound_pods import Rank

if TYPE_CHECKING:
    from beehive.clock import Clock

_log = logging.getLogger(__name__)

_POD: Final = kind_named("Pod")
_NODE: Final = kind_named("Node")
_NAMESPACE: Final = kind_named("Namespace")
_VOLUME: Final = kind_named("PersistentVolume")
_BUDGET: Final = kind_named("PodDisruptionBudget")
_MOST_LOOKS: Final = 600
"""Looks at nodes before others have their turn; each takes up to 25 µs."""
_PASSED_AS_LOOK: Final = 8
"""Pods that are left to wait, in the time of a look."""


class Scheduling(NamedTuple):
    """Rules by which pods without a node get one."""

    default_node: str | None = None
    """The node of all of them; without it one is looked for."""
    is_enabled: bool = True
    """Whether they are placed here; otherwise all of them are left to another scheduler."""


class PodScheduler(Reconciler):
    """The reconciler that gives each pod without a node a fitting one (`Placer`), or the condition that no node fits.

    Pods with scheduling gates wait until the gates are removed, and pods that name another scheduler are left to it.

    Args:
        storage: has the objects.
        events: takes the Events about pods that wait, and about pods that have got a node.
        clock: the present time.
        scheduling: of pods without a node.
        delete: deletes a pod as a person does.
    """

    name = "scheduler"
    kinds = MAKE_ROOM

    def __init__(
        self,
        storage: Storage,
        events: EventRegistry,
        clock: "Clock",
        scheduling: Scheduling,
        delete: Callable[[ObjectKey], object],
    ) -> None:
        self._storage = storage
        self._events = events
        self._clock = clock
        self._default_node, self._is_enabled = scheduling
        self._delete = delete
        self._fleet = NodeRooms(storage.find, lambda: storage.list(_VOLUME))
        self._labels = TrustedLabels(storage.find)
        self._has_round = False
        self._seen: Rank | None = None
        """The pod that this round has looked at last."""
        self._may_place = True
        """Whether something has changed since the last round that may let a waiting pod onto a node."""
        self._awaits_turn = False
        """Whether the rest of a round, or the next one, waits for its turn."""

    def load(self) -> None:
        """Have all pods that wait looked at."""
        self._may_place, self._awaits_turn = True, False

    def handle_own(self, event: ObjectEvent) -> None:
        """Note whether a change may let a waiting pod onto a node."""
        self._may_place = self._may_place or makes_room(event)

    def roll_back(self, event: ObjectEvent) -> None:
        """Begin another round after a Node that was not stored: its creation has looked at pods of the present one."""
        self._may_place = self._may_place or (event.key.kind == _NODE.name and event.old is None)

    def reset(self) -> None:
        """Have all pods that wait looked at again."""
        self._may_place = True

    def reconcile(self, attempt: Attempt, *, is_turn: bool) -> bool:
        """Place some of the pods that wait, after a change that may have made room for them; a change during a round
        begins another round.
        """
        if is_turn:
            self._awaits_turn = False
        if self._awaits_turn:
            return True
        if not (is_turn and self.has_round):
            if not self._may_place:
                return False
            self._may_place = False
            self.begin_round()
        if self.has_round:
            attempt(self.place_waiting_pods)
        self._awaits_turn = self.has_round or self._may_place
        return self._awaits_turn

    def placed(self, obj: JsonObject, placer: Placer | None = None) -> JsonObject:
        """Return the object; a pod without a node gets one, or the condition that no node fits.

        Args:
            obj: any object.
            placer: places several pods that are stored, and their claims are bound; None: one is made for this pod. It
                waits for the next round if that is to bind claims of it.
        """
        if key_kind(obj) != _POD.name or obj["spec"].get("nodeName") or is_being_deleted(obj):
            return obj
        if is_gated(obj):
            return as_gated(obj, format_rfc3339(self._clock.now()))
        if not self._is_own(obj):
            return obj
        find, has_delayed = self._storage.find, has_delayed_claims(obj, self._storage.find)
        if has_delayed and placer is None:
            self._may_place = True
            return obj
        if has_delayed and self._default_node:
            labels = as_object(metadata_of(find(ObjectKey(_NODE.name, "", self._default_node)) or {}).get("labels"))
            placement = placement_at(self._default_node, labels, DelayedClaims(obj, find, self._fleet.list_volumes))
        elif self._default_node:
            placement = Placement(self._default_node)
        else:
            placement = (placer or self._placer()).place(obj)
        for each in placement.claimed:
            self._storage.replace(each)
        now = format_rfc3339(self._clock.now())
        return with_node(obj, placement.node, now) if placement.node else as_waiting(obj, placement.why, now)

    def record_placement(
        self, asked: JsonObject, old: JsonObject | None, new: JsonObject, placer: Placer | None = None
    ) -> None:
        """Record an Event for a pod that has got a node which was chosen for it. For one that waits, record an Event
        for each reason, and let others make room for it.

        Args:
            asked: its state before `placed`.
            old: its former state, or None.
            new: any object, as it is stored.
            placer: knows the nodes; None: one is made.
        """
        if key_kind(new) != _POD.name:
            return
        why = waits_because(new)
        if not why:
            is_chosen = new["spec"].get("nodeName") and not asked["spec"].get("nodeName")
            if is_chosen and not self._default_node:
                self._events.keep(scheduled(new, format_rfc3339(self._clock.now())))
            return
        if old is None or waits_because(old) != why:
            self._events.keep(failed_scheduling(new, why, format_rfc3339(self._clock.now())))
        if self._is_own(new) and not self._default_node:
            self._make_room(new, placer or self._placer())

    def _make_room(self, pod: JsonObject, placer: Placer) -> None:
        """Delete the pods of a lower priority in whose place a pod fits; it gets the node when they have ended."""
        found = placer.preemption(pod, lambda: self._storage.list(_BUDGET))
        now, node = format_rfc3339(self._clock.now()), found.node if found else ""
        try:
            for key in map(key_of, found.victims if found else ()):
                victim = self._storage.find(key)
                if victim is not None and not is_being_deleted(victim):
                    self._events.keep(preempted(victim, pod, node, now))
                    self._storage.replace(as_preempted(victim, now))
                    self._delete(key)
            if nominated_node(pod) != node:
                self._storage.replace(with_nominated_node(pod, node))
        except ApiError as error:  # a webhook keeps a pod from being deleted, for instance
            _log.warning("no room is made for pod %s: %s", key_of(pod), error)

    @property
    def has_round(self) -> bool:
        """Whether pods that wait are still to be looked at in this round."""
        return self._has_round and self._storage.unbound.after(self._seen) is not None

    def begin_round(self) -> None:
        """Have all pods that wait looked at by `place_waiting_pods`, the highest priority first."""
        self._has_round, self._seen = True, None

    def place_waiting_pods(self) -> None:
        """Look for nodes for pods without one: for all, or for the rest of a round, as far as that takes a
        few hundredths of a second.
        """
        if not self.has_round:
            self.begin_round()
        placer = self._placer() if self.has_round else None
        passed = 0
        while placer is not None and placer.looks + passed // _PASSED_AS_LOOK < _MOST_LOOKS:
            self._seen = self._storage.unbound.after(self._seen)
            if self._seen is None:
                self._has_round = False
                return
            pod = self._storage.get(self._seen.key)
            if is_gated(pod) or not self._is_own(pod):
                passed += 1
                continue
            try:
                self.record_placement(pod, pod, self._storage.replace(self.placed(pod, placer)), placer)
            except ApiError as error:  # a pod so large that its node's name makes it too large, for instance
                _log.warning("pod %s cannot be given a node: %s", key_of(pod), error)
            except Exception:  # noqa: BLE001 - one bad pod must not keep the others waiting
                _log.exception("pod %s cannot be given a node", key_of(pod))

    def _is_own(self, pod: JsonObject) -> bool:
        return self._is_enabled and has_default_scheduler(pod)

    def _placer(self) -> Placer:
        """Return a placer that knows the present nodes, pods and namespaces; only pods of changed nodes are read."""
        storage, fleet = self._storage, self._fleet
        fleet.set_nodes(self._labels.nodes(storage.list(_NODE), storage.list(NODE_GROUP)))
        fleet.namespaces = {
            str(one["metadata"]["name"]): one["metadata"].get("labels") or {} for one in storage.list(_NAMESPACE)
        }
        changes = storage.changes_of_pods
        for name in fleet.outdated(changes):
            fleet.set_pods(name, [storage.get(key) for key in storage.pods_of(name)], changes.get(name, 0))
        return Placer(fleet, [pod for pod in storage.nominated_pods() if not is_being_deleted(pod)])
