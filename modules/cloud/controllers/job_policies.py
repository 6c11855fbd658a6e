"""The decisions of a Job's podFailurePolicy, successPolicy and backoffLimitPerIndex (KCM 1.32, `pod_failure_policy.go`,
`success_policy.go`, `backoff_utils.go`).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from beehive.whole_numbers import whole_number
from modules.apimachinery.conditions import condition_of
from modules.apimachinery.kinds import JsonObject, metadata_of
from modules.cloud.controllers import job_pods
from modules.cloud.controllers.job_status import read_indexes
from modules.cloud.controllers.pods import created_at

CONTROLLER: Final = "kubernetes.io/job-controller"
FAILURES: Final = "batch.kubernetes.io/job-index-failure-count"
IGNORED: Final = "batch.kubernetes.io/job-index-ignored-failure-count"
_IGNORE, _COUNT, _FAIL_JOB, _FAIL_INDEX = "Ignore", "Count", "FailJob", "FailIndex"
_KNOWN: Final = (_IGNORE, _COUNT, _FAIL_JOB, _FAIL_INDEX)


class FailureVerdict(NamedTuple):
    """The consequence of a pod's failure."""

    action: str = _COUNT
    why: str = ""
    """Why the Job fails by it."""

    @property
    def is_counted(self) -> bool:
        """Whether the failure counts."""
        return self.action != _IGNORE

    @property
    def fails_job(self) -> bool:
        """Whether the Job fails immediately."""
        return self.action == _FAIL_JOB

    @property
    def fails_index(self) -> bool:
        """Whether the pod's index is not tried again."""
        return self.action == _FAIL_INDEX


def is_of_another(job: JsonObject) -> bool:
    """Return whether a Job has another controller than this one (`managedBy`)."""
    return (job.get("spec") or {}).get("managedBy") not in (None, CONTROLLER)


def verdict_of(job: JsonObject, pod: JsonObject) -> FailureVerdict:
    """Return the consequence of a pod's failure: the first rule that matches decides. Rules with an action that is not
    known here are of a later version, and are left out.
    """
    rules = (job["spec"].get("podFailurePolicy") or {}).get("rules") or ()
    for number, rule in enumerate(rules):
        action = str(rule.get("action"))
        if action not in _KNOWN or (action == _FAIL_INDEX and not is_per_index(job)):
            continue
        found = _exit_code(rule.get("onExitCodes"), pod) or _condition(rule.get("onPodConditions") or (), pod)
        if found:
            return FailureVerdict(action, f"{found} matching {action} rule at index {number}")
    return FailureVerdict()


def _exit_code(wanted: JsonObject | None, pod: JsonObject) -> str:
    if not wanted:
        return ""
    metadata, values = metadata_of(pod), wanted.get("values") or ()
    for name, code in _failures(pod):
        is_meant = wanted.get("containerName") in (None, name)
        is_in, operator = code in values, wanted.get("operator")
        if is_meant and ((operator == "In" and is_in) or (operator == "NotIn" and not is_in)):
            of = f"{metadata.get('namespace')}/{metadata.get('name')}"
            return f"Container {name} for pod {of} failed with exit code {code}"
    return ""


def _failures(pod: JsonObject) -> Iterator[tuple[str, int]]:
    """Yield name and exit code of the containers that have failed."""
    for which in ("containerStatuses", "initContainerStatuses"):
        for one in (pod.get("status") or {}).get(which) or ():
            ended = (one.get("state") or {}).get("terminated") or {}
            if isinstance(ended.get("exitCode"), int) and ended["exitCode"] != 0:
                yield str(one.get("name")), ended["exitCode"]


def _condition(patterns: Sequence[JsonObject], pod: JsonObject) -> str:
    metadata = metadata_of(pod)
    for pattern in patterns:
        kind, status = str(pattern.get("type")), pattern.get("status") or "True"
        if condition_of(pod, kind).get("status") == status:
            return f"Pod {metadata.get('namespace')}/{metadata.get('name')} has condition {kind}"
    return ""


def success_of(job: JsonObject, succeeded: set[int]) -> str:
    """Return the sentence about the first rule of the successPolicy that holds; "" if none does. None of a rule's
    indexes may be left where a Job's completions have become fewer: it never holds then.
    """
    for number, rule in enumerate((job["spec"].get("successPolicy") or {}).get("rules") or ()):
        given, count = rule.get("succeededIndexes"), rule.get("succeededCount")
        wanted = read_indexes(str(given), job) if given is not None else None
        there = succeeded if wanted is None else succeeded & wanted
        if (len(there) >= count) if isinstance(count, int) else (wanted and there == wanted):
            return f"Matched rules at index {number}"
    return ""


def is_per_index(job: JsonObject) -> bool:
    """Return whether failures are counted for each index."""
    spec = job["spec"]
    return spec.get("completionMode") == "Indexed" and spec.get("backoffLimitPerIndex") is not None


def is_index_failed(job: JsonObject, pod: JsonObject) -> bool:
    """Return whether the index of a pod that has failed is not tried again."""
    verdict = verdict_of(job, pod)
    return verdict.fails_index or (verdict.is_counted and _number(pod, FAILURES) >= job["spec"]["backoffLimitPerIndex"])


def kept_failures(
    job: JsonObject, pods: Sequence[JsonObject], settled: set[int], active: set[int]
) -> dict[int, JsonObject]:
    """Return the latest failed pod of each index that is to be tried again. It keeps its finalizer until then, because
    it has the number of failures.

    Args:
        job: the Job.
        pods: its pods.
        settled: the indexes that have succeeded or failed.
        active: those with a pod that runs or will.
    """
    found: dict[int, JsonObject] = {}
    for pod in pods:
        index = job_pods.index_of(pod)
        is_meant = index is not None and index not in settled and index not in active
        if index is None or not is_meant or not job_pods.is_tracked(pod) or not job_pods.has_failed(pod, job):
            continue
        known = found.get(index)
        if known is None or _order(known) < _order(pod):
            found[index] = pod
    return found


def failure_counts(job: JsonObject, before: JsonObject | None) -> Mapping[str, str]:
    """Return the annotations with the failures of an index for its next pod.

    Args:
        job: the Job.
        before: the index's pod that has failed last, or None.
    """
    if before is None:
        return {FAILURES: "0"}
    counted = verdict_of(job, before).is_counted
    failures, ignored = _number(before, FAILURES) + counted, _number(before, IGNORED) + (not counted)
    return {FAILURES: str(failures), **({IGNORED: str(ignored)} if ignored else {})}


def failures_of(pod: JsonObject) -> int:
    """Return how often an index had failed before a pod was made for it."""
    return _number(pod, FAILURES) + _number(pod, IGNORED)


def _order(pod: JsonObject) -> tuple[int, float]:
    return failures_of(pod), created_at(pod)


def _number(pod: JsonObject, annotation: str) -> int:
    return whole_number((metadata_of(pod).get("annotations") or {}).get(annotation)) or 0
