"""Workloads whose pods cannot be made, or whose rollout has stopped: what no list of pods shows."""

import re
import shlex
from collections.abc import Callable
from typing import Final

import msgspec

from beehive.whole_numbers import whole_number
from modules.apimachinery.printing.fields import JsonObject, objects_at, text_at
from modules.insight.fleet.rows import LONGEST

WORKLOADS: Final = {
    "deployments": "Deployment", "replicasets": "ReplicaSet", "statefulsets": "StatefulSet", "daemonsets": "DaemonSet",
    "jobs": "Job",
}  # fmt: skip
"""Kinds by their plurals."""
_MADE: Final = {
    "Deployment": ("spec.replicas", "status.replicas"),
    "ReplicaSet": ("spec.replicas", "status.replicas"),
    "StatefulSet": ("spec.replicas", "status.replicas"),
    "DaemonSet": ("status.desiredNumberScheduled", "status.currentNumberScheduled"),
    "Job": ("spec.parallelism", "status.active"),
}
"""By kind, the members with the desired number of pods, and with the number of existing pods."""
_QUOTA: Final = re.compile(r"exceeded quota: ([a-z0-9.-]+)")
_FINISHED: Final = ("Complete", "Failed")


class Lack(msgspec.Struct, frozen=True):
    """A workload some of whose pods cannot be made, or that makes no progress."""

    namespace: str
    owner: str
    """Kind and name."""
    desired: int
    missing: int
    """Pods that do not exist; 0 for a rollout that has stopped."""
    why: str

    @property
    def words(self) -> str:
        """The fault, as a sentence."""
        if self.missing:
            return f"{self.owner}: {self.missing} of {self.desired} pods cannot be made"
        return f"{self.owner}: its rollout has stopped"

    @property
    def command(self) -> str:
        """Its name in a command."""
        kind, _, name = self.owner.partition(" ")
        return shlex.join([kind.lower(), f"{self.namespace}/{name}"])

    def remedy(self, program: str) -> str:
        """Return advice; a quota is named."""
        quota = _QUOTA.search(self.why)
        if quota is None:
            return ""
        named = shlex.join([program, "-n", self.namespace, "describe", "resourcequota", quota[1]])
        return f"raise the quota, or ask for less: `{named}`"


def lack_of(kind: str, obj: JsonObject, refusal: Callable[[], str]) -> Lack | None:
    """Return what a workload lacks; None if nothing does, or the reason is unknown.

    Args:
        kind: of the workload.
        obj: the workload; a workload that another one controls is left to its controller.
        refusal: returns the last message of an Event FailedCreate about it; asked when a pod is missing for a reason
            that its status does not tell.
    """
    if kind == "ReplicaSet" and any(each.get("controller") for each in objects_at(obj, "metadata.ownerReferences")):
        return None
    conditions = {
        text_at(each, "type"): text_at(each, "message")
        for each in objects_at(obj, "status.conditions")
        if each.get("status") == ("False" if each.get("type") == "Progressing" else "True")
    }
    if not conditions.keys().isdisjoint(_FINISHED):
        return None
    wanted, made = _MADE[kind]
    desired = whole_number(text_at(obj, wanted) or "1") or 0
    if kind == "Job":
        desired = _left_of(obj, desired)
    missing = max(0, desired - (whole_number(text_at(obj, made) or "0") or 0))
    why = conditions.get("ReplicaFailure", "") or conditions.get("Progressing", "")
    if not why and missing and kind in ("StatefulSet", "DaemonSet", "Job"):
        why = refusal()
    if not why:
        return None
    namespace, name = (text_at(obj, f"metadata.{field}") for field in ("namespace", "name"))
    return Lack(namespace, f"{kind} {name}", desired, missing, " ".join(why.split())[:LONGEST])


def _left_of(job: JsonObject, most: int) -> int:
    """Return how many pods a Job has at once, `most` at most: fewer near its end, and none while it is suspended."""
    done, completions = whole_number(text_at(job, "status.succeeded")) or 0, text_at(job, "spec.completions")
    left = (whole_number(completions) or 0) - done if completions else 0 if done else most
    return 0 if text_at(job, "spec.suspend") == "true" else min(most, left)
