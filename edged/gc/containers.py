"""Garbage collection of containers (kubelet's containerGC): a pure decision, and the collector that carries it out.

A *unit* is a container's name in a pod. The newest dead containers of each unit are kept, because their logs can be
read and the pod's status has their exit. The oldest are removed first.

Unlike in a kubelet, a unit's newest container stays while the pod is active, whatever the limits: back-off and restart
count depend on it. A kubelet that is configured to keep none forgets both.

Unknown pods are left alone: they are orphans, or another agent's (`edged.sync.orphans`).

The housekeeper calls it periodically, and the evictor when a disk is full, each on its own thread. Removing an object
twice is harmless: the CRI does not fail for an object that no longer exists.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Final

import msgspec

from beehive import Clock
from edged.cri.contract import ContainerId, ContainerRuntime, SandboxId
from edged.gc.removal import ListPods, Removals
from edged.pod_workers.pod_directories import PodDirectories
from edged.pods.labels import CONTAINER_NAME, ref_from_labels, ref_of
from edged.pods.model import PodUid
from edged.pods.restart import is_terminal
from edged.settings.gc import ContainerPolicy
from modules.apimachinery.types import Nanoseconds, seconds
from protos.cri.v1 import api_pb2 as cri

_log = logging.getLogger(__name__)

CONTAINER_PERIOD: Final = 60.0
"""Seconds between two collections of containers (kubelet's ContainerGCPeriod)."""

Unit = tuple[PodUid, str]
Units = dict[Unit, list[cri.Container]]
"""The dead containers of each unit that may be removed, newest first."""


class Garbage(msgspec.Struct, frozen=True):
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


def _created(container: cri.Container) -> tuple[int, int]:
    return container.created_at, container.metadata.attempt


class ContainerCollector:
    """The collector of dead containers and sandboxes (kubelet's containerGC).

    Args:
        runtime: lists and removes them.
        policy: how many are kept.
        clock: for their age.
        pods: lists this node's pods.
        files: removes the directories of removed containers.
    """

    def __init__(
        self, runtime: ContainerRuntime, policy: ContainerPolicy, clock: Clock, pods: ListPods, files: PodDirectories
    ) -> None:
        self._runtime = runtime
        self._policy = policy
        self._clock = clock
        self._pods = pods
        self._files = files
        self._removals = Removals()

    def collect(self, *, all_unused: bool = False) -> None:
        """Remove superfluous containers; with `all_unused` all of pods that have ended.

        A container that cannot be removed is left for the next time, with its sandbox. Raises CriError when nothing is
        listed, and when the runtime goes away or does not answer in time: each further call would wait as long.
        """
        pods = {ref_of(pod).uid: is_terminal(pod) for pod in self._pods()}
        if not pods:
            return
        containers = self._runtime.list_containers()
        sandboxes = self._runtime.list_pod_sandboxes()
        now = Nanoseconds(self._clock.now_ns())
        found = garbage(containers, sandboxes, pods, self._policy, now, all_unused=all_unused)
        self._removals.keep({each.id for each in containers} | {each.id for each in sandboxes})
        kept = [container for container in self._removals.ordered(found.containers) if not self._remove(container)]
        in_use = {container.pod_sandbox_id for container in kept}
        free = (sandbox for sandbox in found.sandboxes if sandbox.id not in in_use)
        gone = [sandbox for sandbox in self._removals.ordered(free) if self._remove_sandbox(sandbox.id)]
        if found.containers or found.sandboxes:
            _log.info("removed %d containers and %d sandboxes", len(found.containers) - len(kept), len(gone))

    def _remove_sandbox(self, name: str) -> bool:
        return self._removals.is_removed(name, partial(self._runtime.remove_pod_sandbox, SandboxId(name)))

    def _remove(self, container: cri.Container) -> bool:
        """Remove a container and its files. Return whether it is gone; otherwise it is left for the next time."""
        remove = partial(self._runtime.remove_container, ContainerId(container.id))
        if not self._removals.is_removed(container.id, remove):
            return False
        try:
            self._remove_files(container)
        except OSError as error:
            _log.warning("files of container %s are kept: %s", container.id, error)
        return True

    def _remove_files(self, container: cri.Container) -> None:
        ref = ref_from_labels(container.labels)
        name = container.labels.get(CONTAINER_NAME, "")
        if ref is not None and name:
            self._files.remove_container(ref, name, container.metadata.attempt)
