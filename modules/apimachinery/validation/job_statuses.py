"""The rules of a Job's status (Kubernetes 1.32: `validateJobStatus`, `ValidateJobUpdateStatus` and the registry's
`getStatusValidationOptions`). But for a few, they count where the fields that they are about have changed: a status
that breaks one already can still be written.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.times import parse_rfc3339
from modules.apimachinery.validation.causes import Cause, Causes, contradictory, duplicate, invalid, required
from modules.apimachinery.validation.jobs import IndexesError, index_spans
from modules.apimachinery.validation.rules import non_negative

_COMPLETE, _FAILED, _FAILURE_TARGET, _CRITERIA = "Complete", "Failed", "FailureTarget", "SuccessCriteriaMet"
_SUSPENDED: Final = "Suspended"
_TERMINAL: Final = (_FAILED, _COMPLETE, _FAILURE_TARGET)
_CONDITIONS: Final = "status.conditions"
_COMPLETION, _START = "status.completionTime", "status.startTime"
_COUNTERS: Final = ("active", "succeeded", "failed", "ready", "terminating")


class _Change(NamedTuple):
    """A Job's spec, and its status after and before."""

    spec: Mapping[str, Any]
    status: Mapping[str, Any]
    before: Mapping[str, Any]

    def holds(self, kind: str) -> bool:
        """Return whether the status has a condition that is true."""
        return _holds(self.status, kind)

    def is_changed(self, *names: str) -> bool:
        """Return whether one of some fields, or of some conditions, has changed."""
        return any(
            _holds(self.status, name) != _holds(self.before, name)
            if name[0].isupper()
            else (self.status.get(name) or None) != (self.before.get(name) or None)
            for name in names
        )

    @property
    def is_finished(self) -> bool:
        """Whether the status is of a Job that has ended."""
        return self.holds(_COMPLETE) or self.holds(_FAILED)

    @property
    def has_ended(self) -> bool:
        """Whether the Job has ended, or is alive again, by this change."""
        return self.is_finished != (_holds(self.before, _COMPLETE) or _holds(self.before, _FAILED))


def _holds(status: Mapping[str, Any], kind: str) -> bool:
    return any(each.get("type") == kind and each.get("status") == "True" for each in status.get("conditions") or ())


def job_status(new: JsonObject, live: JsonObject, found: Causes) -> None:
    """Check a Job's changed status: the object after and before, and the causes to append to."""
    change = _Change(live.get("spec") or {}, new.get("status") or {}, live.get("status") or {})
    for name in _COUNTERS:
        non_negative(change.status.get(name) or 0, f"status.{name}", found)
    _check_uncounted(change.status.get("uncountedTerminatedPods") or {}, found)
    _check_complete(change, found)
    _check_targets(change, found)
    _check_finished(change, found)
    _check_ready(change, found)
    _check_indexes(change, found)
    _check_criteria(change, found)
    _check_transition(change, found)


def _check_uncounted(pods: Mapping[str, Any], found: Causes) -> None:
    seen = set[str]()
    for name in ("succeeded", "failed"):
        for index, uid in enumerate(pods.get(name) or ()):
            where = f"status.uncountedTerminatedPods.{name}[{index}]"
            if not uid:
                found.append(invalid(where, "", "must not be empty"))
            elif uid in seen:
                found.append(duplicate(where, uid))
            seen.add(uid)


def _check_complete(change: _Change, found: Causes) -> None:
    status, is_complete = change.status, change.holds(_COMPLETE)
    for other, shown in ((_FAILED, "Failed"), (_FAILURE_TARGET, "FailureTarget")):
        if is_complete and change.holds(other) and change.is_changed(_COMPLETE, other):
            found.append(contradictory(_CONDITIONS, f"cannot set Complete=True and {shown}=true conditions"))
    end, start = status.get("completionTime"), status.get("startTime")
    if change.is_changed(_COMPLETE, "completionTime"):
        if end and not is_complete:
            found.append(_at(_COMPLETION, end, "cannot set completionTime when there is no Complete=True condition"))
        if is_complete and not end:
            found.append(required(_COMPLETION, "completionTime is required for Complete jobs"))
    if start and end and change.is_changed("startTime", "completionTime") and _seconds(end) < _seconds(start):
        found.append(_at(_COMPLETION, end, "completionTime cannot be set before startTime"))


def _check_targets(change: _Change, found: Causes) -> None:
    """Check that a Job has the condition that precedes its end."""
    for kind, target, others in (
        (_FAILED, _FAILURE_TARGET, ("failedIndexes",)),
        (_COMPLETE, _CRITERIA, (_CRITERIA,)),
    ):
        if change.holds(kind) and not change.holds(target) and change.is_changed(kind, *others):
            found.append(
                contradictory(_CONDITIONS, f"cannot set {kind}=True condition without the {target}=true condition")
            )


def _check_finished(change: _Change, found: Causes) -> None:
    if not change.is_finished:
        return
    status, spec = change.status, change.spec
    for name in ("active", "terminating"):
        if (number := status.get(name) or 0) > 0 and (change.has_ended or change.is_changed(name)):
            found.append(invalid(f"status.{name}", number, f"{name}>0 is invalid for finished job"))
    has_no_pods = bool(spec.get("suspend")) and spec.get("completions") == 0
    if not status.get("startTime") and not has_no_pods and (change.has_ended or change.is_changed("startTime")):
        found.append(required(_START, "startTime is required for finished job"))
    pods = status.get("uncountedTerminatedPods") or {}
    if any(pods.values()) and (change.has_ended or change.is_changed("uncountedTerminatedPods")):
        why = "uncountedTerminatedPods needs to be empty for finished job"
        found.append(contradictory("status.uncountedTerminatedPods", why))


def _check_ready(change: _Change, found: Causes) -> None:
    ready, active = change.status.get("ready") or 0, change.status.get("active") or 0
    if ready > active and change.is_changed("ready", "active"):
        found.append(invalid("status.ready", ready, "cannot set more ready pods than active"))


def _check_indexes(change: _Change, found: Causes) -> None:
    completed, failed = str(change.status.get("completedIndexes") or ""), change.status.get("failedIndexes")
    per_index, completions = change.spec.get("backoffLimitPerIndex"), int(change.spec.get("completions") or 0)
    is_failed_new = failed != change.before.get("failedIndexes")
    done: Sequence[tuple[int, int]] = ()
    lost: Sequence[tuple[int, int]] = ()
    try:
        done = [*index_spans(completed, completions)]
    except IndexesError as error:
        if change.is_changed("completedIndexes"):
            found.append(_wrong("completedIndexes", completed, f"error parsing completedIndexes: {error}"))
    try:
        lost = [*index_spans(failed or "", completions)]
    except IndexesError as error:
        if is_failed_new and per_index is not None:
            found.append(_wrong("failedIndexes", failed, f"error parsing failedIndexes: {error}"))
    if completed and change.is_changed("completedIndexes") and change.spec.get("completionMode") != "Indexed":
        why = "cannot set non-empty completedIndexes when non-indexed completion mode"
        found.append(_wrong("completedIndexes", completed, why))
    if failed is not None and is_failed_new and per_index is None:
        why = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
        found.append(_wrong("failedIndexes", failed, why))
    common = _first_common(done, lost)
    if common is not None and (is_failed_new or change.is_changed("completedIndexes")):
        why = f"failedIndexes and completedIndexes overlap at index: {common}"
        found.append(_wrong("failedIndexes", failed, why))


def _first_common(one: Sequence[tuple[int, int]], two: Sequence[tuple[int, int]]) -> int | None:
    """Return the first index that is in both of two lists of spans, which do not decrease."""
    left = right = 0
    while left < len(one) and right < len(two):
        first = max(one[left][0], two[right][0])
        if first <= min(one[left][1], two[right][1]):
            return first
        if one[left][1] < two[right][1]:
            left += 1
        else:
            right += 1
    return None


def _check_criteria(change: _Change, found: Causes) -> None:
    if not change.holds(_CRITERIA):
        policy = change.spec.get("successPolicy")
        if policy is not None and change.holds(_COMPLETE) and change.is_changed(_COMPLETE, _CRITERIA):
            why = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True"
            found.append(contradictory(_CONDITIONS, why))
        return
    for other in (_FAILED, _FAILURE_TARGET):
        if change.holds(other):
            found.append(contradictory(_CONDITIONS, f"cannot set SuccessCriteriaMet=True and {other}=true conditions"))


def _check_transition(change: _Change, found: Causes) -> None:
    """Check what a Job cannot become after what it was."""
    spec, status, before = change.spec, change.status, change.before
    for kind in _TERMINAL:
        if _holds(before, kind) and not change.holds(kind):
            found.append(contradictory(_CONDITIONS, f"cannot disable the terminal {kind}=True condition"))
    is_scaled = spec.get("completionMode") == "Indexed" and spec.get("completions") == spec.get("parallelism")
    for name in ("failed", *(() if is_scaled else ("succeeded",))):
        if (status.get(name) or 0) < (before.get(name) or 0):
            found.append(invalid(f"status.{name}", status.get(name) or 0, f"cannot decrease the {name} counter"))
    start, end = status.get("startTime"), status.get("completionTime")
    resumes = _holds(before, _SUSPENDED) and not change.holds(_SUSPENDED)  # then it begins anew
    if before.get("startTime") and start != before["startTime"] and not (spec.get("suspend") or resumes):
        found.append(required(_START, "startTime cannot be removed for unsuspended job"))
    if before.get("completionTime") and end and end != before["completionTime"]:
        found.append(_at(_COMPLETION, end, "completionTime cannot be mutated"))
    if _holds(before, _CRITERIA) and not change.holds(_CRITERIA):
        found.append(contradictory(_CONDITIONS, "cannot disable the SuccessCriteriaMet=True condition"))


def _wrong(name: str, value: Any, why: str) -> Cause:
    return invalid(f"status.{name}", value, why)


def _at(field: str, time: str, why: str) -> Cause:
    """Return the cause for a wrong time, which Go shows in a form of its own."""
    return contradictory(field, f"{time[:10]} {time[11:19]} +0000 UTC: {why}")


def _seconds(time: str) -> float:
    return parse_rfc3339(time) or 0.0
