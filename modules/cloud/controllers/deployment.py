"""The controller of Deployments: rolls templates out over ReplicaSets (KCM 1.32, `pkg/controller/deployment`)."""

from collections.abc import Sequence
from typing import Final

from modules.apimachinery.conditions import condition_in
from modules.apimachinery.kinds import JsonObject, ObjectKey, is_being_deleted, key_of
from modules.apimachinery.pods.objects import has_ended
from modules.cloud.controllers.claims import claimed
from modules.cloud.controllers.conditions import with_condition
from modules.cloud.controllers.deployment_sets import (
    HASH,
    REVISION,
    annotations_for,
    bounds_of,
    counted,
    has_other_size,
    new_set,
    oldest_first,
    proportional_sizes,
    revision_of,
    size_annotations,
    total,
    wanted,
    without_hash,
)
from modules.cloud.controllers.deployment_status import (
    PROGRESSING,
    TIMED_OUT,
    Sets,
    calculated,
    condition,
    deadline_of,
    is_complete,
    rollout_status,
    times_out_at,
)
from modules.cloud.controllers.plan import (
    NORMAL,
    NOTHING,
    WARNING,
    EventNote,
    PlannedWrite,
    ReconcilePlan,
    create,
    delete,
    patch,
    update_status,
)
from modules.cloud.controllers.pods import owner_reference, template_hash
from modules.cloud.controllers.replica_set import makes_its_own
from modules.cloud.controllers.view import View

_SCALED: Final = "ScalingReplicaSet"


def reconcile(view: View, key: ObjectKey, now: float) -> ReconcilePlan:
    """Return the plan for a Deployment."""
    deployment = view.find(key)
    if deployment is None:
        return NOTHING
    claims = claimed(view, deployment, "ReplicaSet")
    if claims.writes:
        return ReconcilePlan(claims.writes)
    return _Pass(view, deployment, _sorted(claims.owned, deployment), now).plan()


def _sorted(owned: Sequence[JsonObject], deployment: JsonObject) -> Sets:
    new = new_set(owned, deployment)
    return Sets(new, oldest_first(one for one in owned if one is not new))


class _Pass:
    """One look at a Deployment."""

    def __init__(self, view: View, deployment: JsonObject, sets: Sets, now: float) -> None:
        self._view = view
        self._deployment = deployment
        self._sets = sets
        self._now = now
        self._writes: list[PlannedWrite] = []
        self._replicas = wanted(deployment)
        self._bounds = bounds_of(deployment)
        self._conditions: Sequence[JsonObject] = (deployment.get("status") or {}).get("conditions") or ()
        self._collides = False

    def plan(self) -> ReconcilePlan:
        deployment, sets = self._deployment, self._sets
        if is_being_deleted(deployment) or not makes_its_own(deployment):
            return self._end(calculated(deployment, sets, self._conditions, self._now))
        self._update_paused_condition()
        if sets.new:
            self._bring_up_to_date(sets.new)
        is_paused = bool(deployment["spec"].get("paused"))
        active = [one for one in sets.all if wanted(one) > 0]
        if is_paused or any(has_other_size(one, deployment) for one in active):
            self._scale(active)
            if is_paused and not self._writes:
                self._clean_up()
            return self._end(calculated(deployment, sets, self._conditions, self._now))
        if (deployment["spec"].get("strategy") or {}).get("type") == "Recreate":
            self._recreate()
        else:
            self._roll()
        if not self._writes and is_complete(deployment, deployment.get("status") or {}):
            self._clean_up()
        return self._end(rollout_status(deployment, self._sets, self._conditions, self._now))

    def _end(self, status: JsonObject) -> ReconcilePlan:
        """Return the plan with a status, and the Deployment's revision."""
        deployment = self._deployment
        if self._collides:
            status = {**status, "collisionCount": int(status.get("collisionCount", 0)) + 1}
        refusal = self._view.refusals.get(key_of(deployment))
        if refusal is not None and deadline_of(deployment) is not None:
            failed = condition(PROGRESSING, "False", refusal.reason, refusal.message, self._now)
            status = {**status, "conditions": with_condition(status["conditions"], failed)}
        annotations = dict(deployment["metadata"].get("annotations") or {})
        if self._sets.new and revision_of(self._sets.new) >= self._newest_revision():
            annotations[REVISION] = str(revision_of(self._sets.new))
        write = update_status(deployment, status, annotations)
        again_at = times_out_at(deployment, status) if deployment["spec"].get("paused") is not True else None
        if again_at is not None and again_at <= self._now:  # one that is being deleted, or scaled, does not time out
            again_at = None
        return ReconcilePlan(tuple(self._writes), write, again_at=again_at)

    def _update_paused_condition(self) -> None:
        """Set the condition that the Deployment is paused, or was resumed; a pause stops the clock of its progress."""
        current = condition_in(self._conditions, PROGRESSING)
        if deadline_of(self._deployment) is None or current.get("reason") == TIMED_OUT:
            return
        is_paused, was_paused = (
            bool(self._deployment["spec"].get("paused")),
            current.get("reason") == "DeploymentPaused",
        )
        if is_paused != was_paused:
            word = "paused" if is_paused else "resumed"
            new = condition(PROGRESSING, "Unknown", f"Deployment{word.title()}", f"Deployment is {word}", self._now)
            self._conditions = with_condition(self._conditions, new)

    def _newest_revision(self) -> int:
        """Return the revision of the new ReplicaSet: one more than the highest old revision."""
        return max(map(revision_of, self._sets.old), default=0) + 1

    def _bring_up_to_date(self, new: JsonObject) -> None:
        """Give the new ReplicaSet the Deployment's annotations, revision and minReadySeconds, and set the condition
        that there is one for the template, if there is none about the progress yet.
        """
        annotations = annotations_for(self._deployment, new, max(self._newest_revision(), revision_of(new)))
        changes: JsonObject = {}
        if annotations != (new["metadata"].get("annotations") or {}):
            changes["metadata"] = {"annotations": annotations}
        seconds = self._deployment["spec"].get("minReadySeconds", 0)
        if new["spec"].get("minReadySeconds", 0) != seconds:
            changes["spec"] = {"minReadySeconds": seconds}
        if changes:
            self._writes.append(patch(new, changes))
        if deadline_of(self._deployment) is not None and not condition_in(self._conditions, PROGRESSING):
            words = f'Found new replica set "{new["metadata"]["name"]}"'
            found = condition(PROGRESSING, "True", "FoundNewReplicaSet", words, self._now)
            self._conditions = with_condition(self._conditions, found)

    def _prepare_new(self, size: int) -> bool:
        """Make the new ReplicaSet, if there is none; return whether there was one."""
        deployment = self._deployment
        if self._sets.new is not None:
            return True
        made = self._made(size)
        if not makes_its_own(deployment, made["metadata"]["labels"]):
            return False
        taken = self._view.find(ObjectKey("ReplicaSet", made["metadata"]["namespace"], made["metadata"]["name"]))
        if taken is not None:  # by another template, or another owner: a ReplicaSet of its own would be the new one
            self._collides = True
            return False
        name = made["metadata"]["name"]
        event = EventNote(NORMAL, _SCALED, f"Scaled up replica set {name} from 0 to {size}") if size else None
        refused = EventNote(WARNING, "ReplicaSetCreateError", f'Failed to create new replica set "{name}": {{why}}')
        self._writes.append(create(made, done=event, refused=refused, counts_as="ReplicaSetCreateError"))
        if deadline_of(self._deployment) is not None:
            words = f'Created new replica set "{name}"'
            note = condition(PROGRESSING, "True", "NewReplicaSetCreated", words, self._now)
            self._conditions = with_condition(self._conditions, note)
        self._sets = Sets(made, self._sets.old)
        return False

    def _made(self, size: int) -> JsonObject:
        deployment = self._deployment
        spec, metadata = deployment["spec"], deployment["metadata"]
        template = without_hash(spec.get("template") or {})
        suffix = template_hash(template, int((deployment.get("status") or {}).get("collisionCount") or 0))
        labels = {**template["metadata"]["labels"], HASH: suffix}
        selector = spec.get("selector") or {}
        matched = {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), HASH: suffix}}
        seconds = {"minReadySeconds": spec["minReadySeconds"]} if spec.get("minReadySeconds") else {}
        return {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {
                "name": f"{metadata['name']}-{suffix}",
                "namespace": metadata["namespace"],
                "labels": labels,
                "annotations": annotations_for(deployment, None, self._newest_revision()),
                "ownerReferences": [owner_reference(deployment)],
            },
            "spec": {
                "replicas": size,
                **seconds,
                "selector": matched,
                "template": {**template, "metadata": {**template["metadata"], "labels": labels}},
            },
        }

    def _resize(self, replica_set: JsonObject, size: int, before: int | None = None) -> None:
        """Write a ReplicaSet's number of replicas, with the Event."""
        former = wanted(replica_set) if before is None else before
        annotations = size_annotations(self._deployment)
        given = replica_set["metadata"].get("annotations") or {}
        is_annotated = all(given.get(name) == value for name, value in annotations.items())
        if size == former and is_annotated:
            return
        event = None
        if size != former:
            word = "up" if size > former else "down"
            name = replica_set["metadata"]["name"]
            event = EventNote(NORMAL, _SCALED, f"Scaled {word} replica set {name} from {former} to {size}")
        changes = {"metadata": {"annotations": annotations}, "spec": {"replicas": size}}
        self._writes.append(patch(replica_set, changes, done=event))

    def _scale(self, active: Sequence[JsonObject]) -> None:
        """Follow a change of the Deployment's replicas, without going on with a rollout."""
        sets = self._sets
        if len(active) <= 1:
            only = active[0] if active else sets.new or (sets.old[-1] if sets.old else None)
            if only is not None:
                self._resize(only, self._replicas)
            return
        if sets.new is not None and self._is_saturated(sets.new):
            for one in sets.old:
                if wanted(one):
                    self._resize(one, 0)
        elif (self._deployment["spec"].get("strategy") or {}).get("type") != "Recreate":
            sizes = proportional_sizes(self._deployment, active)
            for one in active:
                self._resize(one, sizes[one["metadata"]["name"]])

    def _is_saturated(self, new: JsonObject) -> bool:
        counts = wanted(new), counted(new, "availableReplicas")
        return not has_other_size(new, self._deployment) and set(counts) == {self._replicas}

    def _roll(self) -> None:
        """RollingUpdate: the new ReplicaSet grows as far as the surge allows, then old ones shrink."""
        sets, spread = self._sets, self._replicas + self._bounds.surge
        others = total(sets.old)
        size = min(self._replicas, max(0, spread - others))
        if not self._prepare_new(size) or sets.new is None:
            return
        present = wanted(sets.new)
        if present > self._replicas:
            self._resize(sets.new, self._replicas)
            return
        grown = present + max(0, min(spread - others - present, self._replicas - present))
        if grown != present:
            self._resize(sets.new, grown)
            return
        self._shrink_old(sets.new)

    def _shrink_old(self, new: JsonObject) -> None:
        old = [one for one in self._sets.old if wanted(one)]
        least = self._replicas - self._bounds.unavailable
        sizes = {one["metadata"]["name"]: wanted(one) for one in old}
        budget = sum(sizes.values()) + wanted(new) - least - (wanted(new) - counted(new, "availableReplicas"))
        for one in old:  # pods that are not available go first
            unhealthy = wanted(one) - counted(one, "availableReplicas")
            self._shrink(one, sizes, min(budget, unhealthy))
            budget -= wanted(one) - sizes[one["metadata"]["name"]]
        available = sum(counted(one, "availableReplicas") for one in self._sets.all)
        rest = min(available - least, budget)
        for one in old:
            before = sizes[one["metadata"]["name"]]
            self._shrink(one, sizes, min(rest, before))
            rest -= before - sizes[one["metadata"]["name"]]

    def _shrink(self, replica_set: JsonObject, sizes: dict[str, int], by: int) -> None:
        name = replica_set["metadata"]["name"]
        if by > 0:
            self._resize(replica_set, sizes[name] - by, sizes[name])
            sizes[name] -= by

    def _recreate(self) -> None:
        """Recreate: no new pod before the last old one is gone."""
        old = [one for one in self._sets.old if wanted(one)]
        for one in old:
            self._resize(one, 0)
        if old or any(self._has_pods(one) for one in self._sets.old):
            return
        if self._prepare_new(self._replicas) and self._sets.new is not None:
            self._resize(self._sets.new, self._replicas)

    def _has_pods(self, replica_set: JsonObject) -> bool:
        return any(not has_ended(pod) for pod in self._view.owned_by(replica_set, "Pod"))

    def _clean_up(self) -> None:
        """Delete the oldest ReplicaSets beyond revisionHistoryLimit; never one with pods."""
        limit = self._deployment["spec"].get("revisionHistoryLimit")
        old = [one for one in self._sets.old if not is_being_deleted(one)]
        if not isinstance(limit, int) or len(old) <= limit:
            return
        for one in sorted(old, key=revision_of)[: len(old) - limit]:  # `old` has the oldest first
            observed = (one.get("status") or {}).get("observedGeneration", 0)
            is_seen = observed >= one["metadata"].get("generation", 0)
            if not wanted(one) and not counted(one, "replicas") and is_seen:
                self._writes.append(delete(one, {"propagationPolicy": "Background"}))
