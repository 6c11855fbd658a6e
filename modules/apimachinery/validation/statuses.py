"""The rules of statuses, which the subresource `status` checks (Kubernetes 1.32: `Validate…StatusUpdate`)."""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.validation import autoscaling, flow_control, networking
from modules.apimachinery.validation.causes import (
    Causes,
    duplicate,
    forbidden,
    invalid,
    required,
    too_long,
    unsupported,
)
from modules.apimachinery.validation.certificates import issued_certificate
from modules.apimachinery.validation.job_statuses import job_status
from modules.apimachinery.validation.names import faults_of_label_key
from modules.apimachinery.validation.pods import annotation_updates
from modules.apimachinery.validation.rules import named, non_negative, one_of

StatusRule = Callable[[JsonObject, JsonObject, Causes], None]
"""A rule of a changed status: the object after and before, and the causes to append to."""

APPROVED: Final = "Approved"
DENIED: Final = "Denied"
FAILED: Final = "Failed"
_TOTAL: Final = "replicas"
_CONDITION: Final = named(faults_of_label_key)
_REASON: Final = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
_LONGEST_REASON, _LONGEST_MESSAGE = 1024, 32 * 1024
"""Bytes (`metav1.Condition`)."""
_NO_REASON: Final = (
    "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric"
    " characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or"
    f" 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is '{_REASON.pattern}')"
)


def _status(obj: JsonObject) -> JsonObject:
    return obj.get("status") or {}


def _counts(names: Iterable[str], within: Sequence[str] = ()) -> StatusRule:
    """Return the rule that numbers are not negative, and that some are at most `status.replicas`."""

    def rule(new: JsonObject, live: JsonObject, found: Causes) -> None:
        status, total = _status(new), _status(new).get(_TOTAL) or 0
        for name in (*names, "observedGeneration"):
            non_negative(status.get(name) or 0, f"status.{name}", found)
        for name in within:
            if (number := status.get(name) or 0) > total:
                found.append(invalid(f"status.{name}", number, "cannot be greater than status.replicas"))
        available = status.get("availableReplicas") or 0
        if "availableReplicas" in within and available > (status.get("readyReplicas") or 0):
            found.append(invalid("status.availableReplicas", available, "cannot be greater than readyReplicas"))
        if (status.get("collisionCount") or 0) < (_status(live).get("collisionCount") or 0):
            found.append(invalid("status.collisionCount", status.get("collisionCount") or 0, "cannot be decremented"))

    return rule


def _conditions(obj: JsonObject, kind: str) -> list[Any]:
    return [each for each in _status(obj).get("conditions") or () if each.get("type") == kind]


def certificate_approval(new: JsonObject, live: JsonObject, found: Causes) -> None:
    """Check a change by the subresource `approval`, which adds the conditions Approved and Denied."""
    where = "status.conditions"
    for kind in (APPROVED, DENIED, FAILED):
        if len(_conditions(new, kind)) < len(_conditions(live, kind)):
            found.append(forbidden(where, f'updates may not remove a condition of type "{kind}"'))
    seen = set[str]()
    for index, each in enumerate(_status(new).get("conditions") or ()):
        if (kind := str(each.get("type") or "")) in seen:
            found.append(duplicate(f"{where}[{index}].type", kind))
        seen.add(kind)
        if not each.get("status"):
            found.append(required(f"{where}[{index}].status"))
        elif each.get("type") in (APPROVED, DENIED, FAILED) and each.get("status") != "True":
            found.append(unsupported(f"{where}[{index}].status", each.get("status"), ["True"]))
    if _conditions(new, APPROVED) and _conditions(new, DENIED):
        found.append(invalid(where, DENIED, "Approved and Denied conditions are mutually exclusive"))


def _certificate(new: JsonObject, live: JsonObject, found: Causes) -> None:
    certificate_approval(new, live, found)
    if (given := _status(new).get("certificate")) and given != _status(live).get("certificate"):
        issued_certificate(given, "status.certificate", found)
    for kind in (APPROVED, DENIED):
        before, after = _conditions(live, kind), _conditions(new, kind)
        if len(after) > len(before):
            found.append(forbidden("status.conditions", f'updates may not add a condition of type "{kind}"'))
        elif len(after) == len(before) and after != before:
            found.append(forbidden("status.conditions", f'updates may not modify a condition of type "{kind}"'))
    issued = _status(live).get("certificate")
    if issued and _status(new).get("certificate") != issued:
        found.append(forbidden("status.certificate", "updates may not modify existing certificate content"))


def _budget(new: JsonObject, live: JsonObject, found: Causes) -> None:
    _counts(("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"))(new, live, found)
    seen = set[str]()
    for index, each in enumerate(_status(new).get("conditions") or ()):
        where, kind = f"status.conditions[{index}]", str(each.get("type") or "")
        if kind in seen:
            found.append(duplicate(f"{where}.type", kind))
        seen.add(kind)
        _CONDITION(kind, f"{where}.type", found)
        one_of("True", "False", "Unknown")(each.get("status") or "", f"{where}.status", found)
        non_negative(each.get("observedGeneration") or 0, f"{where}.observedGeneration", found)
        for name in ("lastTransitionTime", "reason"):
            if not each.get(name):
                found.append(required(f"{where}.{name}", "must be set"))
        reason = str(each.get("reason") or "")
        if reason and not _REASON.fullmatch(reason):
            found.append(invalid(f"{where}.reason", reason, _NO_REASON))
        for name, most in (("reason", _LONGEST_REASON), ("message", _LONGEST_MESSAGE)):
            if len(str(each.get(name) or "").encode()) > most:
                found.append(too_long(f"{where}.{name}", most))


def _namespace(new: JsonObject, _live: JsonObject, found: Causes) -> None:
    phase = _status(new).get("phase") or "Active"
    is_ending = bool(new["metadata"].get("deletionTimestamp"))
    wanted, when = ("Terminating", "not empty") if is_ending else ("Active", "empty")
    if phase != wanted:
        found.append(invalid("status.Phase", phase, f"may only be '{wanted}' if `deletionTimestamp` is {when}"))


_OF_REPLICAS: Final = ("replicas", "readyReplicas", "availableReplicas")
STATUS_RULES: Final[dict[str, StatusRule]] = {
    "Pod": annotation_updates,
    "Deployment": _counts(
        (*_OF_REPLICAS, "updatedReplicas", "unavailableReplicas"),
        ("updatedReplicas", "readyReplicas", "availableReplicas"),
    ),
    "ReplicaSet": _counts(
        (*_OF_REPLICAS, "fullyLabeledReplicas"), ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")
    ),
    "ReplicationController": _counts(
        (*_OF_REPLICAS, "fullyLabeledReplicas"), ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")
    ),
    "StatefulSet": _counts(
        (*_OF_REPLICAS, "currentReplicas", "updatedReplicas"),
        ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"),
    ),
    "DaemonSet": _counts(
        (
            "currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady",
            "updatedNumberScheduled", "numberAvailable", "numberUnavailable",
        )
    ),
    "PodDisruptionBudget": _budget,
    "Job": job_status,
    "Namespace": _namespace,
    "CertificateSigningRequest": _certificate,
    "HorizontalPodAutoscaler": autoscaling.autoscaler_status,
    "Ingress": networking.ingress_status,
    "Service": networking.service_status,
    **dict.fromkeys(("FlowSchema", "PriorityLevelConfiguration"), flow_control.conditions),
}  # fmt: skip
"""By kind. Other statuses have only their schema."""
