"""The pods of a Job: how they are made, counted and indexed (KCM 1.32, `pkg/controller/job`)."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from beehive.whole_numbers import whole_number
from modules.apimachinery.conditions import changed_at, condition_of
from modules.apimachinery.kinds import JsonObject, is_being_deleted, metadata_of, uid_of
from modules.apimachinery.pods.objects import has_ended, node_of, phase_of
from modules.apimachinery.times import parse_rfc3339
from modules.cloud.controllers.plan import PlannedWrite, patch
from modules.cloud.controllers.pods import created_at, pod_of

TRACKING: Final = "batch.kubernetes.io/job-tracking"
"""The finalizer that keeps a pod until it was counted."""
INDEX: Final = "batch.kubernetes.io/job-completion-index"
_FIRST_PAUSE: Final = 10.0
_LONGEST_PAUSE: Final = 600.0


def is_tracked(pod: JsonObject) -> bool:
    """Return whether a pod has the finalizer."""
    return TRACKING in (metadata_of(pod).get("finalizers") or ())


def untracked(pod: JsonObject) -> PlannedWrite:
    """Return the removal of the finalizer."""
    finalizers = [one for one in metadata_of(pod).get("finalizers") or () if one != TRACKING]
    return patch(pod, {"metadata": {"finalizers": finalizers or None}})


def is_terminating(pod: JsonObject) -> bool:
    """Return whether a pod is being deleted and has not ended yet."""
    return not has_ended(pod) and is_being_deleted(pod)


def has_succeeded(pod: JsonObject) -> bool:
    """Return whether a pod counts as a success."""
    return phase_of(pod) == "Succeeded"


def has_failed(pod: JsonObject, job: JsonObject) -> bool:
    """Return whether a pod counts as a failure; one being deleted does unless only failed ones are replaced, and it has
    a node, which reports its end.
    """
    if phase_of(pod) == "Failed":
        return True
    return is_terminating(pod) and (job["spec"].get("podReplacementPolicy") != "Failed" or not node_of(pod))


def index_of(pod: JsonObject) -> int | None:
    """Return the completion index of a pod, or None."""
    return whole_number((metadata_of(pod).get("annotations") or {}).get(INDEX))


def free_indexes(job: JsonObject, taken: set[int], most: int) -> list[int]:
    """Return the lowest indexes of a Job that are not taken."""
    found: list[int] = []
    for index in range(int(job["spec"].get("completions") or 0)):
        if len(found) >= most:
            break
        if index not in taken:
            found.append(index)
    return found


def pod_for(job: JsonObject, index: int | None, annotations: Mapping[str, str] = MappingProxyType({})) -> JsonObject:
    """Return a new pod of a Job, tracked, with its index if the Job has indexes, and with further annotations then."""
    template = job["spec"].get("template") or {}
    name = job["metadata"]["name"]
    pod = pod_of(template, job, f"{name}-" if index is None else f"{name}-{index}-")
    metadata = pod["metadata"]
    metadata["finalizers"] = [*(metadata.get("finalizers") or ()), TRACKING]
    if index is None:
        return pod
    metadata["labels"] = {**(metadata.get("labels") or {}), INDEX: str(index)}
    metadata["annotations"] = {**(metadata.get("annotations") or {}), INDEX: str(index), **annotations}
    field = {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}}
    variable = {"name": "JOB_COMPLETION_INDEX", "valueFrom": field}
    spec = dict(pod["spec"])
    for which in ("initContainers", "containers"):
        if spec.get(which):
            spec[which] = [_with_variable(container, variable) for container in spec[which]]
    return {**pod, "spec": {**spec, "hostname": f"{name}-{index}"}}


def restarts_of(pods: Sequence[JsonObject]) -> int:
    """Return how often the containers of pods were started again."""
    statuses = (
        status
        for pod in pods
        for which in ("initContainerStatuses", "containerStatuses")
        for status in (pod.get("status") or {}).get(which) or ()
    )
    return sum(int(status.get("restartCount") or 0) for status in statuses)


def pause_ends(pods: Sequence[JsonObject], job: JsonObject) -> float:
    """Return the time before which no pod is made: 10 s after the last failure, twice as long for each failure since
    the last success, at most 10 min.
    """
    failures = sorted(_ended_at(pod) for pod in pods if has_failed(pod, job))
    success = max((_ended_at(pod) for pod in pods if has_succeeded(pod)), default=0.0)
    since = [moment for moment in failures if moment > success]
    if not since:
        return 0.0
    return since[-1] + _pause(len(since))


def index_pause_ends(pod: JsonObject, failures: int) -> float:
    """Return the time before which no pod is made for an index.

    Args:
        pod: its pod that has failed last.
        failures: of the index, before that pod.
    """
    return _ended_at(pod) + _pause(failures + 1)


def _pause(failures: int) -> float:
    return min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(failures - 1, 10))


def _ended_at(pod: JsonObject) -> float:
    """Return when a pod ended, if it has (getFinishedTime): as its containers say, its condition, or its
    deletion. A pod that its node has refused has none of these, and ended when it was made.
    """
    status, metadata = pod.get("status") or {}, metadata_of(pod)
    states = [one.get("state") or {} for one in status.get("containerStatuses") or ()]
    ends = [parse_rfc3339(str((state.get("terminated") or {}).get("finishedAt") or "")) for state in states]
    known = [end for end in ends if end is not None]
    if ends and len(known) == len(ends):
        return max(known)
    ready = condition_of(pod, "Ready")
    since = changed_at(ready) if ready.get("status") == "False" else None
    if since is not None:
        return since
    deletion = parse_rfc3339(str(metadata.get("deletionTimestamp") or ""))
    if deletion is not None:
        return deletion - float(metadata.get("deletionGracePeriodSeconds") or 0)
    return created_at(pod)


def _with_variable(container: JsonObject, variable: JsonObject) -> JsonObject:
    given = container.get("env") or ()
    if any(one.get("name") == variable["name"] for one in given):
        return container
    return {**container, "env": [*given, variable]}


def orphaned(pods: Sequence[JsonObject], uid: str) -> tuple[PlannedWrite, ...]:
    """Return the removals of the finalizer from pods whose Job is not there any more.

    Args:
        pods: with a reference to a Job of the name, or without a controller.
        uid: of the present Job of that name, or "".
    """
    return tuple(untracked(pod) for pod in pods if is_tracked(pod) and not _is_of(pod, uid))


def _is_of(pod: JsonObject, uid: str) -> bool:
    references = metadata_of(pod).get("ownerReferences") or ()
    return any(one.get("uid") == uid and uid for one in references)


def uids(pods: Sequence[JsonObject]) -> list[str]:
    """Return the uids of pods."""
    return list(map(uid_of, pods))
