"""Dead containers and empty sandboxes to remove (kubelet's containerGC). Pure.

A *unit* is a container's name in a pod. The newest dead containers of each unit are kept, because their logs can be
read and the pod's status has their exit. The oldest are removed first.

Unlike in a kubelet, a unit's newest container stays while the pod is active, whatever the limits: back-off and restart
count depend on it. A kubelet that is configured to keep none forgets both.

Unknown pods are left alone: they are orphans, or another agent's (`edged.sync.orphans`).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from edged.api import Nanoseconds, seconds
from edged.pods.labels import CONTAINER_NAME, ref_from_labels
from edged.pods.model import PodUid
from edged.settings.gc import ContainerPolicy
from protos.cri.v1 import api_pb2 as cri

Unit = tuple[PodUid, str]
Units = dict[Unit, list[cri.Container]]
"""The dead containers of each unit that may be removed, newest first."""


class Garbage(NamedTuple):
    """Objects to remove, in this order."""

    containers: list[cri.Container]
    sandboxes: list[cri.PodSandbox]


def garbage(
    containers: Sequence[cri.Container],
    sandboxes: Sequence[cri.PodSandbox],
    pods: Mapping[PodUid, bool],
    policy: ContainerPolicy,
    now: Nanoseconds,
    *,
    all_unused: bool = False,
) -> Garbage:
    """Return the containers and sandboxes to remove now.

    Args:
        containers: all of the runtime.
        sandboxes: all of the runtime.
        pods: this node's pods, and whether each has ended for good.
        policy: how many are kept.
        now: wall clock.
        all_unused: the disk is full: keep nothing of pods that have ended (DeleteAllUnusedContainers).
    """
    units, needed = _units(containers, pods, Nanoseconds(now - seconds(policy.minimum_age)))
    removed: list[cri.Container] = []
    if all_unused:
        for unit in [unit for unit in units if pods[unit[0]]]:
            removed += units.pop(unit)
    if policy.per_pod >= 0:
        removed += _beyond(units, policy.per_pod, needed)
    removed += _beyond_total(units, policy.total, needed)
    removed.sort(key=_created)
    return Garbage(removed, _empty(sandboxes, containers, {c.id for c in removed}, pods, all_unused=all_unused))


def _units(
    containers: Iterable[cri.Container], pods: Mapping[PodUid, bool], before: Nanoseconds
) -> tuple[Units, set[str]]:
    """Return the removable containers, and the ids that active pods still need."""
    instances_of: Units = {}
    for container in containers:
        ref = ref_from_labels(container.labels)
        if ref is not None and ref.uid in pods:
            instances_of.setdefault((ref.uid, container.labels.get(CONTAINER_NAME, "")), []).append(container)
    found: Units = {}
    needed: set[str] = set()
    for unit, instances in sorted(instances_of.items()):
        instances.sort(key=_attempt, reverse=True)
        dead = [c for c in instances if c.state == cri.CONTAINER_EXITED and c.created_at <= before]
        if dead:
            found[unit] = dead
        if not pods[unit[0]]:
            needed.add(instances[0].id)
    return found, needed


def _beyond(units: Units, kept: int, needed: set[str]) -> list[cri.Container]:
    """Take the containers beyond the number to keep from each unit."""
    removed = []
    for unit, dead in units.items():
        beyond = [container for container in dead[kept:] if container.id not in needed]
        units[unit] = [container for container in dead if container not in beyond]
        removed += beyond
    return removed


def _beyond_total(units: Units, total: int, needed: set[str]) -> list[cri.Container]:
    """Leave each unit the same share, at least one; if that is still too much, take the oldest of all."""
    if total < 0 or _count(units) <= total:
        return []
    removed = _beyond(units, max(total // len(units), 1), needed)
    too_many = max(0, _count(units) - total)
    rest = sorted((c for dead in units.values() for c in dead if c.id not in needed), key=_created)
    return removed + rest[:too_many]


def _empty(
    sandboxes: Iterable[cri.PodSandbox],
    containers: Iterable[cri.Container],
    removed: set[str],
    pods: Mapping[PodUid, bool],
    *,
    all_unused: bool,
) -> list[cri.PodSandbox]:
    """Return dead sandboxes without containers. A pod keeps its newest one, unless it has ended and `all_unused` is
    set.
    """
    occupied = {container.pod_sandbox_id for container in containers if container.id not in removed}
    of_pods: dict[PodUid, list[cri.PodSandbox]] = {}
    for sandbox in sandboxes:
        ref = ref_from_labels(sandbox.labels)
        if ref is not None and ref.uid in pods:
            of_pods.setdefault(ref.uid, []).append(sandbox)
    found = []
    for uid, known in sorted(of_pods.items()):
        known.sort(key=lambda sandbox: (sandbox.metadata.attempt, sandbox.created_at), reverse=True)
        kept = 0 if all_unused and pods[uid] else 1
        found += [s for s in known[kept:] if s.state != cri.SANDBOX_READY and s.id not in occupied]
    return found


def _count(units: Units) -> int:
    return sum(len(dead) for dead in units.values())


def _attempt(container: cri.Container) -> tuple[int, int]:
    """Sort key of one name's containers: the attempt, because creation times come from a wall clock that may go back at
    a boot.
    """
    return container.metadata.attempt, container.created_at


def _created(container: cri.Container) -> int:
    return container.created_at
