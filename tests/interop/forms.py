"""The form of a JSON value: a recorded message and ours must have the same form, not the same values."""

from collections.abc import Iterator
from typing import Any

NOT_HERE = (
    "managedFields",
    "spec/taints",
    "node.alpha.kubernetes.io/ttl",
    "annotations/cloudcore",
    "annotations/kubectl.kubernetes.io/last-applied-configuration",
    "spec/tolerations",
    "spec/priority",
    "spec/preemptionPolicy",
    "volumeMounts",
    "spec/volumes",
)
"""Fields that other parts of a real cluster set: field owners, admission, the node controller."""


def form_of(value: Any) -> set[str]:
    """Return each path in a JSON value with the type at its end; null counts as absent."""
    return {path for path in _paths_in(value) if not any(part in path for part in NOT_HERE)}


def _paths_in(value: Any, path: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for key, member in value.items():
            yield from _paths_in(member, f"{path}/{key}")
    elif isinstance(value, list):
        for member in value:
            yield from _paths_in(member, f"{path}/[]")
    elif value is not None:
        yield f"{path}:{'number' if isinstance(value, int | float) else type(value).__name__}"
