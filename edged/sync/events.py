"""The events that parts of edged send to the sync loop (kubelet's syncLoopIteration reads them from channels)."""

import msgspec

from edged.node.status import NodeReport
from edged.pleg.messages import PlegEvent
from edged.pod_workers.job import Done
from edged.pods.kill_options import KillPod
from edged.static_pods.directory import StaticPodChanges
from edged.sync_events import PluginsChanged, PodHealthChanged, PostStartHookEnded
from modules.apimachinery.types import Pod


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
