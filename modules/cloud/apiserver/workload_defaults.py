"""The defaults that an API server sets in workloads: kinds of the API groups apps and batch, and their templates.

From Kubernetes' defaulting of apps/v1 and batch/v1 (SetDefaults_Deployment and its likes) and, for the selector of a
Job, from its strategy of creation. Defaults are stored with the object; the controllers complete templates before they
compare them, so that a newer cloudcore with more defaults rolls nothing out.
"""

from collections.abc import Callable, Mapping
from typing import Final

from modules.apimachinery.conversion import copied
from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.validation.workloads import CONTROLLER_UID, job_labels
from modules.cloud.apiserver.pod_defaults import complete_template_spec

_MOST_FAILURES: Final = 2**31 - 1


def with_workload_defaults(obj: JsonObject) -> JsonObject:
    """Return a copy of a workload with its defaults."""
    obj, kind = copied(obj), obj["kind"]
    spec: JsonObject = obj if kind == "PodTemplate" else obj.setdefault("spec", {})
    complete = _DEPENDENT.get(kind)
    if complete is not None:
        complete(obj, spec)
    for name, value in _DEFAULTS[kind].items():
        spec.setdefault(name, value)
    owner = (spec.get("jobTemplate") or {}).get("spec") or {} if kind == "CronJob" else spec
    template = owner.get("template")
    if isinstance(template, dict) and isinstance(template.get("spec"), dict):
        complete_template_spec(template["spec"])
    return obj


def with_job_selector(job: JsonObject, uid: str) -> JsonObject:
    """Return a new Job with the selector and the labels of its pods, unless it has its own selector.

    Args:
        job: the Job, with defaults.
        uid: its future uid.
    """
    spec = job["spec"]
    if spec.get("manualSelector"):
        return job
    template = spec.get("template") or {}
    metadata = template.get("metadata") or {}
    labels = {**(metadata.get("labels") or {}), **job_labels(job["metadata"]["name"], uid)}
    selector = {"matchLabels": {CONTROLLER_UID: uid, **((spec.get("selector") or {}).get("matchLabels") or {})}}
    own = job["metadata"].get("labels")
    shared = {"labels": labels} if not own or own is metadata.get("labels") else {}
    return {
        **job,
        "metadata": {**job["metadata"], **shared},
        "spec": {
            **spec,
            "selector": {**(spec.get("selector") or {}), **selector},
            "template": {**template, "metadata": {**metadata, "labels": labels}},
        },
    }


def _deployment(_obj: JsonObject, spec: JsonObject) -> None:
    strategy = spec.setdefault("strategy", {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", "25%")
        rolling.setdefault("maxSurge", "25%")


def _replication_controller(obj: JsonObject, spec: JsonObject) -> None:
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if labels:
        if not spec.get("selector"):
            spec["selector"] = dict(labels)
        if not obj["metadata"].get("labels"):
            obj["metadata"]["labels"] = dict(labels)


def _daemon_set(_obj: JsonObject, spec: JsonObject) -> None:
    strategy = spec.setdefault("updateStrategy", {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxSurge", 0)
        rolling.setdefault("maxUnavailable", 1)


def _stateful_set(_obj: JsonObject, spec: JsonObject) -> None:
    strategy = spec.setdefault("updateStrategy", {})
    if "type" not in strategy:
        strategy["type"] = "RollingUpdate"
        strategy.setdefault("rollingUpdate", {})
    if strategy["type"] == "RollingUpdate" and "rollingUpdate" in strategy:
        strategy["rollingUpdate"].setdefault("partition", 0)
    kept = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
    for moment in ("whenDeleted", "whenScaled"):
        kept.setdefault(moment, "Retain")
    for claim in spec.get("volumeClaimTemplates") or ():
        claim |= {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
        claim.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")
        claim.setdefault("status", {}).setdefault("phase", "Pending")


def _job(obj: JsonObject, spec: JsonObject) -> None:
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("backoffLimit", _MOST_FAILURES if "backoffLimitPerIndex" in spec else 6)
    spec.setdefault("podReplacementPolicy", "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed")
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            pattern["status"] = pattern.get("status") or "True"  # a client in Go sends an empty one for none
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if labels and not obj["metadata"].get("labels"):
        obj["metadata"]["labels"] = labels  # one map, as in Go: what is added for its pods, the Job has, too


_DEFAULTS: Final[Mapping[str, JsonObject]] = {
    "Deployment": {"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600},
    "ReplicaSet": {"replicas": 1},
    "ReplicationController": {"replicas": 1},
    "PodTemplate": {},
    "DaemonSet": {"revisionHistoryLimit": 10},
    "StatefulSet": {"replicas": 1, "podManagementPolicy": "OrderedReady", "revisionHistoryLimit": 10},
    "Job": {"parallelism": 1, "completionMode": "NonIndexed", "suspend": False, "manualSelector": False},
    "CronJob": {
        "concurrencyPolicy": "Allow", "suspend": False, "successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 1,
    },
}  # fmt: skip
"""By kind, the fields of the spec that have one default."""
_DEPENDENT: Final[Mapping[str, Callable[[JsonObject, JsonObject], None]]] = {
    "Deployment": _deployment,
    "ReplicationController": _replication_controller,
    "DaemonSet": _daemon_set,
    "StatefulSet": _stateful_set,
    "Job": _job,
}
"""By kind, what sets the defaults that depend on other fields, in an object and its spec."""

WORKLOADS: Final = frozenset(_DEFAULTS)
"""The kinds that make pods, by way of others or themselves."""
