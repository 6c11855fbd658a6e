"""Warnings about fields of workloads that the controllers of cloudcore do not follow (docs/workloads.md)."""

from typing import Final

from modules.apimachinery.kinds import JsonObject
from modules.tools.printing.fields import map_at, value_at

_JOB: Final = ("podFailurePolicy", "successPolicy", "backoffLimitPerIndex", "maxFailedIndexes")
_FIELDS: Final = {
    "jobs": tuple(f"spec.{field}" for field in _JOB),
    "cronjobs": tuple(f"spec.jobTemplate.spec.{field}" for field in _JOB),
}
_RETENTION: Final = "spec.persistentVolumeClaimRetentionPolicy"


def workload_warnings(plural: str, obj: JsonObject) -> tuple[str, ...]:
    """Return a warning for each field of a stored object that says what cloudcore's controllers do not do.

    Args:
        plural: `jobs`, `statefulsets` and so on; other resources have no warnings.
        obj: the object.
    """
    fields = [path for path in _FIELDS.get(plural, ()) if value_at(obj, path) is not None]
    if plural == "statefulsets" and "Delete" in map_at(obj, _RETENTION).values():
        fields.append(_RETENTION)
    return tuple(f"{path}: cloudcore's controllers do not follow it; kube-controller-manager does" for path in fields)
