"""The channel of the sync loop (kubelet's syncLoopIteration reads five of them), and the events that it carries."""

from collections.abc import Callable
from typing import NamedTuple

from beehive import ModuleContext
from edged.api import Pod
from edged.node.status import NodeReport
from edged.pleg.messages import PodInspected, Relisted
from edged.pod_workers.job import Done
from edged.pods.model import PodUid
from edged.static_pods.directory import StaticPodChanges


class PodReleased(NamedTuple):
    """A pod that was held back may begin now."""

    pod: Pod


class PodsListed(NamedTuple):
    """The store has returned the pods of this node."""

    pods: tuple[Pod, ...]


class PodHealthChanged(NamedTuple):
    """A probe has another result, or a postStart hook or an image pull has ended."""

    uid: PodUid


class RuntimeInspected(NamedTuple):
    """The PLEG has asked the runtime about its pods; it may not have answered."""


class PluginsChanged(NamedTuple):
    """A storage driver was added or removed, or devices were."""


SyncEvent = (
    PodReleased
    | PodsListed
    | StaticPodChanges
    | Relisted
    | PodInspected
    | PodHealthChanged
    | Done
    | NodeReport
    | RuntimeInspected
    | PluginsChanged
)


class SyncChannel:
    """Takes events from the parts below the sync loop to the loop.

    It is made first, so that no part needs to know the sync loop: parts send, and the loop receives.

        channel = SyncChannel(module)
        probes = ProbeManager(..., changed=lambda uid: channel.send(PodHealthChanged(uid)))
        loop = SyncLoop(channel, ...)

    Args:
        context: the module, on whose thread events are received.
    """

    def __init__(self, context: ModuleContext) -> None:
        self._context = context
        self._receiver: Callable[[SyncEvent], None] | None = None

    def receive(self, receiver: Callable[[SyncEvent], None]) -> None:
        """Set the function that receives every event from now on."""
        self._receiver = receiver

    def send(self, event: SyncEvent) -> None:
        """Deliver an event before returning; on the module's thread only."""
        if self._receiver is not None:
            self._receiver(event)

    def post(self, event: SyncEvent) -> None:
        """Deliver an event later, on the module's thread. May be called from any thread."""
        self._context.call_soon(lambda: self.send(event))
