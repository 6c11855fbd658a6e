"""The controller of DaemonSets: a pod on each eligible node (KCM 1.32, `pkg/controller/daemon`).

Nodes of an edge are away for days. In kube-controller-manager they use up maxUnavailable, and a rollout stands for
ever. Here an old pod on a node that does not answer is left alone and counts neither way; it has its turn when the node
is back. A node that went silent after it got the new pod does count: a bad version must not spread.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from modules.apimachinery.conditions import is_ready
from modules.apimachinery.kinds import JsonObject, ObjectKey, is_being_deleted, metadata_of
from modules.apimachinery.pods.objects import has_ended, node_of, phase_of
from modules.cloud.controllers.claims import claimed
from modules.cloud.controllers.conditions import kept
from modules.cloud.controllers.daemon_pods import Belongs, belongs, pod_for, target_node
from modules.cloud.controllers.deployment_sets import scaled_value
from modules.cloud.controllers.plan import (
    NORMAL,
    NOTHING,
    WARNING,
    EventNote,
    PlannedWrite,
    ReconcilePlan,
    update_status,
)
from modules.cloud.controllers.pods import available_later, by_age, created_at, is_available
from modules.cloud.controllers.replica_set import MOST_WRITES, creation, deletion, is_unreachable, makes_its_own
from modules.cloud.controllers.revisions import HASH, Revisions, hash_of, revisions_of, surplus
from modules.cloud.controllers.view import View


class _OnNode(NamedTuple):
    """A node, or the name of a deleted one, with the pods of a DaemonSet there."""

    name: str
    belongs: Belongs
    pods: list[JsonObject]
    """The oldest first, those that are bound before the others (podByCreationTimestampAndPhase)."""
    is_unreachable: bool


def reconcile(view: View, key: ObjectKey, now: float) -> ReconcilePlan:
    """Return the plan for a DaemonSet."""
    daemon_set = view.find(key)
    if daemon_set is None:
        return NOTHING
    claims = claimed(view, daemon_set, "Pod")
    if claims.writes:
        return ReconcilePlan(claims.writes)
    revisions = revisions_of(view, daemon_set)
    if revisions.writes and not is_being_deleted(daemon_set):
        return ReconcilePlan(revisions.writes)
    return _Pass(view, daemon_set, claims.owned, revisions, now).plan()


def _age(pod: JsonObject) -> tuple[bool, float, str]:
    return not node_of(pod), *by_age(pod)


class _Pass:
    """One look at a DaemonSet."""

    def __init__(
        self, view: View, daemon_set: JsonObject, pods: Sequence[JsonObject], revisions: Revisions, now: float
    ) -> None:
        self._view = view
        self._daemon_set = daemon_set
        self._revisions = revisions
        self._now = now
        self._nodes = list(self._on_nodes(pods))
        self._pods = pods
        self._made: list[str] = []
        """Nodes that get a pod."""
        self._deleted: list[JsonObject] = []
        self._events: list[EventNote] = []
        self._again: list[float] = []

    def plan(self) -> ReconcilePlan:
        writes: tuple[PlannedWrite, ...] = ()
        is_whole = self._revisions.present is not None and makes_its_own(self._daemon_set, {HASH: self._revisions.hash})
        if is_whole and not is_being_deleted(self._daemon_set):
            for each in self._nodes:
                self._manage(each)
            strategy = self._daemon_set["spec"].get("updateStrategy") or {}
            if not self._made and not self._deleted and strategy.get("type") != "OnDelete":
                self._roll()
            made = [creation(pod_for(self._daemon_set, node, self._revisions.hash)) for node in self._made]
            writes = (*made, *map(deletion, self._deleted))[:MOST_WRITES]
            if not writes:
                writes = surplus(self._daemon_set, self._revisions, set(map(hash_of, self._pods)))
        moments = available_later(self._pods, self._daemon_set, self._now)
        return ReconcilePlan(
            writes,
            update_status(self._daemon_set, self._status()),
            tuple(self._events) if writes else (),
            again_at=min([*moments, *self._again], default=None),
        )

    def _on_nodes(self, pods: Sequence[JsonObject]) -> Iterator[_OnNode]:
        by_node: dict[str, list[JsonObject]] = {}
        for pod in pods:
            if not (has_ended(pod) and is_being_deleted(pod)):
                by_node.setdefault(target_node(pod), []).append(pod)
        for node in sorted(self._view.all_of("Node"), key=lambda one: str(one["metadata"]["name"])):
            name = str(node["metadata"]["name"])
            found = sorted(by_node.pop(name, ()), key=_age)
            trusted = self._view.labels.node(node)
            yield _OnNode(name, belongs(self._daemon_set, trusted), found, is_unreachable(self._view, name))
        for name, found in sorted(by_node.items()):  # bound pods wait: a Node that was deleted may register again
            waiting = [pod for pod in found if not node_of(pod)]
            if waiting:
                yield _OnNode(name, Belongs(is_made=False, is_kept=False), waiting, is_unreachable=False)

    def _manage(self, on: _OnNode) -> None:
        """Make a pod where one is missing, and delete the pods that do not belong there."""
        if on.belongs.is_made and not on.pods:
            self._made.append(on.name)
        present = [pod for pod in on.pods if not is_being_deleted(pod)]
        if not on.belongs.is_kept:
            self._deleted += present
            return
        running = [pod for pod in present if not self._ended(pod, on.name)]
        is_surging = self._surge() > 0
        if is_surging and on.belongs.is_made and on.pods and not present:  # the ones that end are no hindrance
            self._made.append(on.name)
        groups = [[pod for pod in running if self._is_new(pod) is new] for new in (True, False)]
        for group in groups if is_surging else [running]:
            self._deleted += group[1:]
        if is_surging and all(groups) and not is_ready(groups[1][0]) and not on.is_unreachable:
            self._deleted.append(groups[1][0])  # there is nothing to wait for

    def _ended(self, pod: JsonObject, node: str) -> bool:
        """Delete a pod that has ended; if it has failed, later each time. Return whether it has ended."""
        if not has_ended(pod):
            return False
        name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        if phase_of(pod) == "Failed":
            until = self._view.pauses.until(f"{metadata_of(self._daemon_set)['uid']}/{node}", pod, self._now)
            if self._now < until:
                self._again.append(until)
                return True
            words = f"Found failed daemon pod {name} on node {node}, will try to kill it"
            self._events.append(EventNote(WARNING, "FailedDaemonPod", words))
        else:
            words = f"Found succeeded daemon pod {name} on node {node}, will try to delete it"
            self._events.append(EventNote(NORMAL, "SucceededDaemonPod", words))
        self._deleted.append(pod)
        return True

    def _roll(self) -> None:
        """RollingUpdate: replace old pods as far as the bounds allow. Where taints keep new pods away, the old one goes
        in its turn, too.
        """
        eligible = [on for on in self._nodes if on.belongs.is_made or (on.belongs.is_kept and on.pods)]
        if self._surge() > 0:
            self._roll_with_surge(eligible)
            return
        unavailable, broken, young, candidates = 0, [], [], []
        for on in eligible:
            running = [pod for pod in on.pods if not is_being_deleted(pod) and not has_ended(pod)]
            new = next(filter(self._is_new, running), None)
            if new is not None:
                unavailable += not self._is_available(new)
            elif on.is_unreachable:
                continue
            elif not running:
                unavailable += 1
            elif not is_ready(running[0]):
                broken.append(running[0])
                unavailable += 1
            elif not self._is_available(running[0]):
                young.append(running[0])
            else:
                candidates.append(running[0])
        young.sort(key=created_at, reverse=True)
        room = max(0, self._max_unavailable(self._desired()) - unavailable)
        self._deleted += [*broken, *[*young, *candidates[: max(0, room - len(young))]][:room]]

    def _roll_with_surge(self, eligible: Sequence[_OnNode]) -> None:
        surging, available = 0, 0
        replaced, candidates = list[str](), list[str]()
        misplaced = list[JsonObject]()
        for on in eligible:
            running = [pod for pod in on.pods if not is_being_deleted(pod) and not has_ended(pod)]
            new = next(filter(self._is_new, running), None)
            old = next((pod for pod in running if not self._is_new(pod)), None)
            present = old or new
            is_working = present is not None and self._is_available(present)
            available += is_working and not on.is_unreachable
            if old is None or (new is None and on.is_unreachable):
                continue
            if new is None and not on.belongs.is_made:
                (misplaced if is_working else self._deleted).append(old)
            elif new is None:
                (candidates if is_working else replaced).append(on.name)
            elif self._is_available(new):
                self._deleted.append(old)
            else:
                surging += 1
        self._deleted += misplaced[: max(0, available - self._desired())]
        self._made += [*replaced, *candidates[: max(0, self._surge() - surging)]]

    def _surge(self) -> int:
        strategy = self._daemon_set["spec"].get("updateStrategy") or {}
        if strategy.get("type") == "OnDelete":  # bounds of an earlier strategy may be left
            return 0
        return scaled_value((strategy.get("rollingUpdate") or {}).get("maxSurge", 0), self._desired(), up=True)

    def _desired(self) -> int:
        """Return the number of nodes that are to have a pod."""
        return sum(on.belongs.is_made for on in self._nodes)

    def _max_unavailable(self, desired: int) -> int:
        rolling = (self._daemon_set["spec"].get("updateStrategy") or {}).get("rollingUpdate") or {}
        return max(1, scaled_value(rolling.get("maxUnavailable", 1), desired, up=True))

    def _is_new(self, pod: JsonObject) -> bool:
        return hash_of(pod) == self._revisions.hash

    def _is_available(self, pod: JsonObject) -> bool:
        return is_available(pod, self._daemon_set, self._now)

    def _status(self) -> JsonObject:
        first = [on.pods[0] for on in self._nodes if on.belongs.is_made and on.pods]
        desired = self._desired()
        available = sum(map(self._is_available, first))
        updated = sum(map(self._is_new, first)) if self._revisions.present else 0
        counts = {
            "updatedNumberScheduled": updated,
            "numberAvailable": available,
            "numberUnavailable": desired - available,
        }
        collisions = self._revisions.collisions
        return {
            "currentNumberScheduled": len(first),
            "numberMisscheduled": sum(bool(on.pods) for on in self._nodes if not on.belongs.is_made),
            "desiredNumberScheduled": desired,
            "numberReady": sum(map(is_ready, first)),
            "observedGeneration": self._daemon_set["metadata"].get("generation", 0),
            **{name: count for name, count in counts.items() if count},
            **({"collisionCount": collisions} if collisions else {}),
            **kept(self._daemon_set.get("status") or {}),
        }
