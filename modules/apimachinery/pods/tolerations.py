"""Taints and tolerations (Toleration.ToleratesTaint of Kubernetes)."""

from collections.abc import Iterable

from modules.apimachinery.types import Taint
from modules.apimachinery.types.pods import Toleration

NO_EXECUTE = "NoExecute"
_OF_SILENCE = "node.kubernetes.io/unreachable"
"""The key of the cloud's taint of a node that does not answer. A node that reads it answers again."""


def untolerated_taint(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> Taint | None:
    """Return the first taint that a pod does not tolerate, or None.

    Only `NoExecute` counts: `NoSchedule` concerns the scheduler, and a pod that it has placed stays. The taint of
    silence does not count.
    """
    stands = tuple(tolerations)
    hard = (taint for taint in taints if taint.effect == NO_EXECUTE and taint.key != _OF_SILENCE)
    return next((taint for taint in hard if not tolerates(taint, stands)), None)


def tolerates(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    """Return whether one of the tolerations matches the taint."""
    return any(_tolerates(toleration, taint) for toleration in tolerations)


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect not in ("", taint.effect):
        return False
    if toleration.key not in ("", taint.key):
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator in ("", "Equal") and bool(toleration.key) and toleration.value == taint.value
