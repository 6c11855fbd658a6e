"""Which dead containers, and sandboxes without any, a node need not keep (kubelet's containerGC).

A *unit* is a name in a pod: of each the newest dead containers are kept, because their logs can be read and the pod's
status tells of their end. What is collected goes oldest first.

Otherwise than with a kubelet, the newest dead container of a name stays while the pod lives and nothing else of that
name is there, whatever the limits say: it is what back-off and restart count go by. A kubelet that is told to keep none
forgets both.

Pods that nobody knows are not looked at: they are orphans, or another agent's (`edged.orphans`).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from edged.api import Nanoseconds, seconds
from edged.gc.settings import ContainerPolicy
from edged.pods.labels import CONTAINER_NAME, ref_from_labels
from edged.pods.model import PodUid
from protos.cri.v1 import api_pb2 as cri

Unit = tuple[PodUid, str]
Units = dict[Unit, list[cri.Container]]
"""What may be collected of each, newest first."""


class Garbage(NamedTuple):
    """What is to be removed, in this order."""

    containers: list[cri.Container]
    sandboxes: list[cri.PodSandbox]


def garbage(
    containers: Sequence[cri.Container],
    sandboxes: Sequence[cri.PodSandbox],
    pods: Mapping[PodUid, bool],
    policy: ContainerPolicy,
    now: Nanoseconds,
    *,
    everything: bool = False,
) -> Garbage:
    """What may be removed now.

    Args:
        containers: all that the runtime has.
        sandboxes: all that the runtime has.
        pods: those of this node, and whether each has ended for good.
        policy: how much is kept.
        now: wall clock.
        everything: the disk is short: of pods that have ended nothing is kept (DeleteAllUnusedContainers).
    """
    units, needed = _units(containers, pods, Nanoseconds(now - seconds(policy.minimum_age)))
    gone: list[cri.Container] = []
    if everything:
        for unit in [unit for unit in units if pods[unit[0]]]:
            gone += units.pop(unit)
    if policy.per_pod >= 0:
        gone += _beyond(units, policy.per_pod, needed)
    gone += _beyond_total(units, policy.total, needed)
    gone.sort(key=_created)
    return Garbage(gone, _empty(sandboxes, containers, {c.id for c in gone}, pods, everything=everything))


def _units(
    containers: Iterable[cri.Container], pods: Mapping[PodUid, bool], before: Nanoseconds
) -> tuple[Units, set[str]]:
    """What may be collected, and of that what a pod's life goes by."""
    everyone: Units = {}
    for container in containers:
        ref = ref_from_labels(container.labels)
        if ref is not None and ref.uid in pods:
            everyone.setdefault((ref.uid, container.labels.get(CONTAINER_NAME, "")), []).append(container)
    found: Units = {}
    needed: set[str] = set()
    for unit, inmates in sorted(everyone.items()):
        inmates.sort(key=_attempt, reverse=True)
        dead = [c for c in inmates if c.state == cri.CONTAINER_EXITED and c.created_at <= before]
        if dead:
            found[unit] = dead
        if not pods[unit[0]]:
            needed.add(inmates[0].id)
    return found, needed


def _beyond(units: Units, kept: int, needed: set[str]) -> list[cri.Container]:
    """Take from each unit what is more than is kept."""
    gone = []
    for unit, dead in units.items():
        beyond = [container for container in dead[kept:] if container.id not in needed]
        units[unit] = [container for container in dead if container not in beyond]
        gone += beyond
    return gone


def _beyond_total(units: Units, total: int, needed: set[str]) -> list[cri.Container]:
    """First the same share is left to each unit, one at least; if that is too much still, the oldest of all go."""
    if total < 0 or _count(units) <= total:
        return []
    gone = _beyond(units, max(total // len(units), 1), needed)
    too_many = max(0, _count(units) - total)
    rest = sorted((c for dead in units.values() for c in dead if c.id not in needed), key=_created)
    return gone + rest[:too_many]


def _empty(
    sandboxes: Iterable[cri.PodSandbox],
    containers: Iterable[cri.Container],
    gone: set[str],
    pods: Mapping[PodUid, bool],
    *,
    everything: bool,
) -> list[cri.PodSandbox]:
    """Dead sandboxes that hold nothing; the newest of a pod stays, or nothing of a pod that has ended."""
    homes = {container.pod_sandbox_id for container in containers if container.id not in gone}
    of_pods: dict[PodUid, list[cri.PodSandbox]] = {}
    for sandbox in sandboxes:
        ref = ref_from_labels(sandbox.labels)
        if ref is not None and ref.uid in pods:
            of_pods.setdefault(ref.uid, []).append(sandbox)
    found = []
    for uid, known in sorted(of_pods.items()):
        known.sort(key=lambda sandbox: (sandbox.metadata.attempt, sandbox.created_at), reverse=True)
        kept = 0 if everything and pods[uid] else 1
        found += [s for s in known[kept:] if s.state != cri.SANDBOX_READY and s.id not in homes]
    return found


def _count(units: Units) -> int:
    return sum(len(dead) for dead in units.values())


def _attempt(container: cri.Container) -> tuple[int, int]:
    """Of one name the newest is told by its number: times come from a wall clock, which may go back at a boot."""
    return container.metadata.attempt, container.created_at


def _created(container: cri.Container) -> int:
    return container.created_at
