"""Warnings about fields of workloads that the controllers of cloudcore do not follow (docs/workloads.md)."""

from typing import Final

from modules.apimachinery.kinds import JsonObject
from modules.tools.printing.fields import map_at

_RETENTION: Final = "spec.persistentVolumeClaimRetentionPolicy"


def workload_warnings(plural: str, obj: JsonObject) -> tuple[str, ...]:
    """Return a warning for each field of a stored object that says what cloudcore's controllers do not do.

    Args:
        plural: `statefulsets`; other resources have no warnings.
        obj: the object.
    """
    if plural == "statefulsets" and "Delete" in map_at(obj, _RETENTION).values():
        return (f"{_RETENTION}: cloudcore's controllers do not follow it; kube-controller-manager does",)
    return ()
