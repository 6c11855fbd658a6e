"""Invariants of workloads: what controllers of Kubernetes would never do, whenever they look, and whatever was lost."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Final

from modules.apimachinery.conditions import is_ready
from modules.apimachinery.kinds import JsonObject, is_being_deleted, uid_of
from modules.apimachinery.pods.objects import has_ended, is_active, node_of
from modules.cloud.controllers.pods import created_at
from modules.cloud.controllers.view import controller_of
from modules.cloud.storage.object_storage import EventType
from modules.lab.simulate.recent_states import RecentStates

WATCHED: Final = ("Pod", "Node", "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob")
_DESIRED: Final = "deployment.kubernetes.io/desired-replicas"
_INDEX: Final = "batch.kubernetes.io/job-completion-index"
_SCHEDULED: Final = "batch.kubernetes.io/cronjob-scheduled-timestamp"


class WorkloadWatch:
    """The check of each change of pods, ReplicaSets and Jobs.

    A controller acts on what it has seen, and the objects may have changed since. So each check allows all states that
    there were within a while.

    Args:
        objects: returns the present objects of a kind.
        now: returns monotonic seconds.
        violated: called with the name of an invariant and a text.
        slack: seconds after which a controller has seen a change.
    """

    def __init__(
        self,
        objects: Callable[[str], Iterable[JsonObject]],
        now: Callable[[], float],
        violated: Callable[[str, str], None],
        slack: float = 0.0,
    ) -> None:
        self._objects = objects
        self._now = now
        self._violated = violated
        self._slack = slack
        self._blind_since = self._blind_until = -1.0
        self._states = RecentStates()
        self._silent_since: dict[str, float] = {}
        """The names of silent nodes, and since when they are known to be."""
        self._taken: set[str] = set()
        """Uids of pods that their controllers have deleted."""
        self._excused: set[str] = set()
        self._rescaled: set[str] = set()
        """Uids of Deployments whose ReplicaSets follow a change of its replicas: a rollout has such bounds."""
        self._succeeded: defaultdict[str, dict[str, int | None]] = defaultdict(dict)
        """The pods that have succeeded, with their indexes, by the uid of their Job."""
        self._times: dict[str, float] = {}
        """The scheduled time of a CronJob's latest Job, by the CronJob's uid."""

    def blind(self, seconds: float) -> None:
        """Allow what was so until now for some seconds more: the controllers see nothing, or start again."""
        now = self._now()
        if now >= self._blind_until:
            self._blind_since = now
        self._blind_until = max(self._blind_until, now + seconds)

    def excuse(self, pod: JsonObject) -> None:
        """Note that somebody else than its controller deletes a pod."""
        self._excused.add(uid_of(pod))

    def changed(self, change: EventType, new: JsonObject, old: JsonObject | None) -> None:
        """Check a change that was made."""
        kind = new["kind"]
        if kind not in WATCHED:
            return
        gone = change is EventType.DELETED
        self._states.record(uid_of(new), None if gone else new, old, self._now(), self._since())
        if kind == "Node" and (gone or _answers(new)):
            self._silent_since.pop(_name(new), None)
        elif kind == "Node":
            self._silent_since.setdefault(_name(new), self._now())
        elif kind == "Pod":
            self._pod_changed(new, old, gone=gone)
        elif kind == "ReplicaSet" and not gone:
            self._resized(new, old)
        elif kind == "Deployment" and old is not None and _replicas(old) != _replicas(new):
            self._rescaled.add(uid_of(new))
        elif kind == "Job" and not gone:
            self._job_changed(new, is_new=old is None)

    def is_silent(self, node: str) -> bool:
        """Return whether a node is known to be silent."""
        return node in self._silent_since

    def _since(self) -> float:
        now = self._now()
        return (self._blind_since if now < self._blind_until else now) - self._slack

    def _recent(self, obj: JsonObject) -> list[JsonObject]:
        """Return the states of an object that controllers may have seen last."""
        return self._states.since(obj, self._since())

    def _is_old(self, obj: JsonObject) -> bool:
        """Return whether all controllers know that an object exists."""
        return self._states.began(obj) < self._since()

    def _pod_changed(self, new: JsonObject, old: JsonObject | None, *, gone: bool) -> None:
        owner = self._owner_of(new)
        if (new.get("status") or {}).get("phase") == "Succeeded" and owner is not None and owner["kind"] == "Job":
            self._succeeded[uid_of(owner)][uid_of(new)] = _index_of(new)
        if old is None and owner is not None:
            self._made(new, owner)
        elif old is not None and not is_being_deleted(old) and (gone or is_being_deleted(new)):
            self._deleted(old, owner)

    def _owner_of(self, obj: JsonObject) -> JsonObject | None:
        reference = controller_of(obj) or {}
        candidates = self._objects(str(reference["kind"])) if reference.get("kind") in WATCHED else ()
        return next((one for one in candidates if uid_of(one) == reference.get("uid")), None)

    def _owned(self, kind: str, owner: JsonObject) -> list[JsonObject]:
        uid = uid_of(owner)
        return [one for one in self._objects(kind) if (controller_of(one) or {}).get("uid") == uid]

    # What is made

    def _made(self, pod: JsonObject, owner: JsonObject) -> None:
        pods = self._owned("Pod", owner)
        match owner["kind"]:
            case "ReplicaSet":
                active, most = sum(map(is_active, pods)), max(map(_replicas, self._recent(owner)))
                if active > most:
                    self._violated("no pod too many", f"{_name(owner)} has {active} pods and wants {most}")
            case "DaemonSet":
                there = [one for one in pods if not has_ended(one) and _target(one) == _target(pod)]
                if len(there) > 1 + self._surges(owner):
                    self._violated("one pod of a DaemonSet on a node", ", ".join(map(_name, there)))
            case "StatefulSet":
                self._check_order(pod, owner, pods)
            case "Job":
                self._check_job_pod(pod, owner, pods)

    def _surges(self, daemon_set: JsonObject) -> bool:
        return any(_rolling(one, "updateStrategy").get("maxSurge") for one in self._recent(daemon_set))

    def _check_order(self, pod: JsonObject, owner: JsonObject, pods: list[JsonObject]) -> None:
        """Check that a StatefulSet's pod is made when all before it are ready."""
        if owner["spec"].get("podManagementPolicy") == "Parallel":
            return
        ready = {_ordinal(one) for one in pods if self._was_ready(one)}
        missing = set(range(_ordinal(pod))) - ready
        if missing:
            self._violated(
                "a StatefulSet keeps its order", f"{_name(pod)} is made while {sorted(missing)} are not ready"
            )

    def _check_job_pod(self, pod: JsonObject, job: JsonObject, pods: list[JsonObject]) -> None:
        active = [one for one in pods if is_active(one)]
        most = max(int(one["spec"].get("parallelism", 1)) for one in self._recent(job))
        if len(active) > most:
            self._violated("no more pods than the parallelism", f"{_name(job)} has {len(active)}, {most} are allowed")
        done, index = self._succeeded[uid_of(job)], _index_of(pod)
        if index is not None:
            if index in done.values() or sum(_index_of(one) == index for one in active) > 1:
                self._violated("an index is done once", f"{_name(pod)} is made, and another one for {index} is there")
        elif len(active) + len(done) > int(job["spec"].get("completions") or len(active) + len(done)):
            text = f"{_name(job)} has {len(active)} pods, {len(done)} have succeeded"
            self._violated("no more pods than completions are left", text)

    def _job_changed(self, job: JsonObject, *, is_new: bool) -> None:
        status, completions = job.get("status") or {}, job["spec"].get("completions")
        done = self._succeeded[uid_of(job)]
        true = len(set(done.values())) if job["spec"].get("completionMode") == "Indexed" else len(done)
        counted = int(status.get("succeeded") or 0)
        is_complete = any(
            one["type"] == "Complete" and one["status"] == "True" for one in status.get("conditions") or ()
        )
        if counted > true or (is_complete and completions is not None and counted != completions):
            text = f"{_name(job)} counts {counted} of {completions}, {true} have succeeded, complete: {is_complete}"
            self._violated("completions are exact", text)
        cron_job = self._owner_of(job) if is_new else None
        if cron_job is None:
            return
        time = str((job["metadata"].get("annotations") or {}).get(_SCHEDULED))
        moment, last = datetime.fromisoformat(time).timestamp(), self._times.get(uid_of(cron_job), created_at(cron_job))
        if moment <= last:
            self._violated("a CronJob runs once for a time, and for none before it", f"{_name(job)} is for {time}")
        self._times[uid_of(cron_job)] = max(moment, last)
        others = [one for one in self._owned("Job", cron_job) if uid_of(one) != uid_of(job)]
        busy = [_name(one) for one in others if not any(map(_has_finished, self._recent(one)))]
        if busy and all(one["spec"].get("concurrencyPolicy") == "Forbid" for one in self._recent(cron_job)):
            self._violated("a CronJob that forbids it runs once at a time", f"{_name(job)} beside {busy}")

    # What is resized and deleted

    def _resized(self, new: JsonObject, old: JsonObject | None) -> None:
        """Check that the ReplicaSets of a Deployment want no more pods than maxSurge allows."""
        deployment = self._owner_of(new)
        if deployment is None:
            return
        sets = self._owned("ReplicaSet", deployment)
        grown = _replicas(new) - (_replicas(old) if old is not None else 0)
        total, most = sum(map(_replicas, sets)), max(map(_most_pods, self._recent(deployment)))
        if grown > 0 and total > most:
            self._violated(
                "maxSurge is kept", f"the ReplicaSets of {_name(deployment)} want {total}, allowed are {most}"
            )
        if all(_has_settled(one, deployment) for one in sets):
            self._rescaled.discard(uid_of(deployment))

    def _deleted(self, pod: JsonObject, owner: JsonObject | None) -> None:
        """Check that a controller may delete a pod."""
        nodes = {_name(node) for node in self._objects("Node")}
        excused = uid_of(pod) in self._excused or _is_disrupted(pod) or (node_of(pod) and node_of(pod) not in nodes)
        if owner is None or is_being_deleted(owner) or excused:
            return
        self._taken.add(uid_of(pod))
        match owner["kind"]:
            case "ReplicaSet":
                self._check_replica_set(pod, owner)
            case "DaemonSet":
                self._check_daemon_set(pod, owner)
            case "StatefulSet":
                self._check_stateful_set(pod, owner)

    def _was_ready(self, pod: JsonObject) -> bool:
        return any(is_ready(one) and is_active(one) for one in self._left(pod))

    def _left(self, pod: JsonObject) -> list[JsonObject]:
        """Return the recent states of a pod; none if its controller deletes it."""
        if uid_of(pod) in self._taken and is_being_deleted(pod):
            return []
        return self._recent(pod)

    def _check_replica_set(self, pod: JsonObject, owner: JsonObject) -> None:
        if not is_active(pod):
            return
        left = sum(any(map(is_active, self._left(one))) for one in self._owned("Pod", owner))
        least = min(map(_replicas, self._recent(owner)))
        if left < least:
            self._violated("no pod too few", f"{_name(owner)} deletes {_name(pod)}, has {left} and wants {least}")
        deployment = self._owner_of(owner)
        if deployment is None or not is_ready(pod) or uid_of(deployment) in self._rescaled:
            return
        sets = self._owned("ReplicaSet", deployment)
        ready = sum(self._was_ready(one) for each in sets for one in self._owned("Pod", each))
        least = min(map(_fewest_pods, self._recent(deployment)))
        if ready < least:
            text = f"{_name(pod)} is deleted, {ready} of {_name(deployment)} stay ready, at least {least} must"
            self._violated("maxUnavailable is kept", text)

    def _check_daemon_set(self, pod: JsonObject, owner: JsonObject) -> None:
        node, pods = _target(pod), self._owned("Pod", owner)
        states = self._recent(owner)
        if self._silent_since.get(node, math.inf) < self._since() and not any(
            _image(pod) == _image(one["spec"]["template"]) for one in states
        ):
            self._violated("pods of silent nodes are left alone", f"{_name(pod)} of {node} is rolled")
        if not is_ready(pod) or self._surges(owner):
            return
        there = {_target(one) for one in pods if self._was_ready(one)}
        lack = [
            _name(one) for one in self._objects("Node")
            if self._is_old(one) and _name(one) not in there and all(map(_answers, self._recent(one)))
        ]  # fmt: skip
        most = max(int(_rolling(one, "updateStrategy").get("maxUnavailable", 1)) for one in states)
        if len(lack) > most:
            text = f"{_name(pod)} is deleted, {', '.join(lack)} have none that is ready, at most {most} may"
            self._violated("maxUnavailable is kept", text)

    def _check_stateful_set(self, pod: JsonObject, owner: JsonObject) -> None:
        ordinal, pods, states = _ordinal(pod), self._owned("Pod", owner), self._recent(owner)
        if owner["spec"].get("podManagementPolicy") == "Parallel":
            return
        if ordinal >= max(map(_replicas, states)):
            above = [_name(one) for one in pods if _ordinal(one) > ordinal and self._is_old(one)]
            if above:
                self._violated("a StatefulSet keeps its order", f"{_name(pod)} is deleted before {above}")
        elif is_ready(pod):
            ready = {_ordinal(one) for one in pods if self._was_ready(one)} | {ordinal}
            missing = set(range(min(map(_replicas, states)))) - ready
            if missing:
                text = f"{_name(pod)} is rolled while {sorted(missing)} are not ready"
                self._violated("a StatefulSet keeps its order", text)

    # The end

    def disagreements(self) -> Iterator[str]:
        """Yield the differences from the wanted state, when nodes and cloud have had time."""
        for deployment in self._objects("Deployment"):
            yield from self._of_deployment(deployment)
        for kind in ("StatefulSet", "DaemonSet"):
            for workload in self._objects(kind):
                pods = [pod for pod in self._owned("Pod", workload) if is_active(pod)]
                nodes = list(self._objects("Node"))
                wanted = _replicas(workload) if kind == "StatefulSet" else len(nodes)
                yield from self._of_pods(workload, pods, wanted)
        for job in self._objects("Job"):
            if not _has_finished(job):
                yield f"Job {_name(job)} has not ended: {job.get('status')}"
        yield from self._left_over()

    def _of_deployment(self, deployment: JsonObject) -> Iterator[str]:
        sets = self._owned("ReplicaSet", deployment)
        pods = [pod for one in sets for pod in self._owned("Pod", one) if is_active(pod)]
        yield from self._of_pods(deployment, pods, _replicas(deployment))
        status = deployment.get("status") or {}
        counts = {name: int(status.get(name) or 0) for name in ("replicas", "updatedReplicas", "availableReplicas")}
        if set(counts.values()) != {_replicas(deployment)}:
            yield f"the status of {_name(deployment)} says {counts}, wanted are {_replicas(deployment)}"

    def _of_pods(self, workload: JsonObject, pods: list[JsonObject], wanted: int) -> Iterator[str]:
        what = f"{workload['kind']} {_name(workload)}"
        if len(pods) != wanted:
            yield f"{what} has {len(pods)} pods instead of {wanted}"
        for pod in pods:
            if _image(pod) != _image(workload["spec"]["template"]) or not is_ready(pod):
                yield f"{_name(pod)} of {what} has {_image(pod)}, ready: {is_ready(pod)}"

    def _left_over(self) -> Iterator[str]:
        for kind in ("Pod", "ReplicaSet", "Job"):
            for obj in self._objects(kind):
                if controller_of(obj) is not None and self._owner_of(obj) is None:
                    yield f"{kind} {_name(obj)} is left of a workload that is gone"


def _name(obj: JsonObject) -> str:
    return str(obj["metadata"]["name"])


def _replicas(obj: JsonObject) -> int:
    return int(obj["spec"].get("replicas", 1))


def _rolling(workload: JsonObject, field: str) -> JsonObject:
    found: JsonObject = (workload["spec"].get(field) or {}).get("rollingUpdate") or {}
    return found


def _is_recreated(deployment: JsonObject) -> bool:
    return (deployment["spec"].get("strategy") or {}).get("type") == "Recreate"


def _part(value: object, replicas: int, rounded: Callable[[float], int]) -> int:
    """Return a number, or a percentage of replicas."""
    if isinstance(value, str):
        return rounded(int(value.removesuffix("%")) * replicas / 100)
    return int(str(value))


def _most_pods(deployment: JsonObject) -> int:
    replicas = _replicas(deployment)
    return replicas + (
        0 if _is_recreated(deployment) else _part(_rolling(deployment, "strategy")["maxSurge"], replicas, math.ceil)
    )


def _fewest_pods(deployment: JsonObject) -> int:
    if _is_recreated(deployment):
        return 0
    replicas = _replicas(deployment)
    unavailable = _part(_rolling(deployment, "strategy")["maxUnavailable"], replicas, math.floor)
    return replicas - (unavailable or _most_pods(deployment) == replicas)


def _has_settled(replica_set: JsonObject, deployment: JsonObject) -> bool:
    status, metadata = replica_set.get("status") or {}, replica_set["metadata"]
    is_seen = status.get("observedGeneration", 0) >= metadata.get("generation", 0)
    desired = (metadata.get("annotations") or {}).get(_DESIRED)
    follows = not _replicas(replica_set) or desired == str(_replicas(deployment))
    return is_seen and follows and int(status.get("replicas") or 0) == _replicas(replica_set)


def _has_finished(job: JsonObject) -> bool:
    conditions = (job.get("status") or {}).get("conditions") or ()
    return any(one["type"] in ("Complete", "Failed") and one["status"] == "True" for one in conditions)


def _is_disrupted(pod: JsonObject) -> bool:
    """Return whether a pod is evicted from its node."""
    return any(one["type"] == "DisruptionTarget" for one in (pod.get("status") or {}).get("conditions") or ())


def _answers(node: JsonObject) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] != "Unknown" for one in conditions)


def _ordinal(pod: JsonObject) -> int:
    return int(_name(pod).rpartition("-")[2])


def _index_of(pod: JsonObject) -> int | None:
    index = (pod["metadata"].get("annotations") or {}).get(_INDEX)
    return None if index is None else int(index)


def _image(pod: JsonObject) -> str:
    return str(pod["spec"]["containers"][0]["image"])


def _target(pod: JsonObject) -> str:
    """Return the node that a pod of a DaemonSet is for."""
    affinity = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    return str(affinity["nodeSelectorTerms"][0]["matchFields"][0]["values"][0])
