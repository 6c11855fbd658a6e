"""The events that parts of edged send to the sync loop (kubelet's syncLoopIteration reads them from channels)."""

from typing import Final

import msgspec

from edged.node.status import NodeReport
from edged.pleg.messages import PlegEvent, PodInspection, Relisted
from edged.pod_workers.job import Done
from edged.pods.kill_options import KillPod
from edged.static_pods.directory import StaticPodChanges
from edged.sync_events import PluginsChanged, PodHealthChanged, PostStartHookEnded
from modules.apimachinery.types import Pod

SYNCED: Final = "synced"
"""First word of the turn in which edged takes the result of a worker's job; the pod's uid follows."""
INSPECTED: Final = "inspected"
"""The same of the PLEG's inspection of a pod; alone, of a relist."""


class PodReleased(msgspec.Struct, frozen=True):
    """A pod that was requested from the cloud, or held until the cloud answered, may begin now."""

    pod: Pod


class PodsListed(msgspec.Struct, frozen=True):
    """The store has returned the pods of this node."""

    pods: tuple[Pod, ...]


SyncEvent = (
    PodReleased
    | PodsListed
    | StaticPodChanges
    | PlegEvent
    | PodHealthChanged
    | PostStartHookEnded
    | KillPod
    | Done
    | NodeReport
    | PluginsChanged
)


def turn_of(event: SyncEvent) -> tuple[str, float | None]:
    """Return the name of the turn in which edged takes an event of another thread, and when the work began whose result
    it is, in monotonic seconds; None if that does not matter. A replay takes it in its place among the other turns.
    """
    match event:
        case Done(job, begun=begun):
            return f"{SYNCED} {job.ref.uid}", begun
        case PodInspection(facts, at):
            return f"{INSPECTED} {facts.ref.uid}", at
        case Relisted(at=at):
            return INSPECTED, at
        case PodHealthChanged(uid) | KillPod(uid):
            return f"{type(event).__name__} {uid}", None
        case PostStartHookEnded(container=container):
            return f"{type(event).__name__} {container}", None
        case _:
            return type(event).__name__, None
