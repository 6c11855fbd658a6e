"""What the beginning and the end of containers have in common: hooks, waits and grace periods, shared by the workers,
which begin them, and the edged module, which ends them sooner.
"""

from collections.abc import Callable

from beehive import Runtime
from edged.cri.contract import ContainerRuntime
from edged.lifecycle.departures import Departures
from edged.lifecycle.hooks import Hooks
from edged.lifecycle.start_hooks import StartHooks
from edged.lifecycle.waits import Waits
from edged.pods.model import PodUid
from edged.probes.network import Network


class Lives:
    """Thread-safe.

    Args:
        actors: threads and time.
        runtime: runs the commands of hooks.
        network: makes their requests.
        hook_over: told, on any thread, when a postStart hook of a pod has ended.
    """

    def __init__(
        self, actors: Runtime, runtime: ContainerRuntime, network: Network, hook_over: Callable[[PodUid], None]
    ) -> None:
        self.waits = Waits(actors)
        self.departures = Departures(actors.clock)
        self.hooks = Hooks(runtime, network, self.waits)
        self.start_hooks = StartHooks(actors, self.hooks, hook_over)

    def pod_ends(self, uid: PodUid, grace: int) -> None:
        """A pod is to end, its containers within so many seconds: nobody waits for its postStart hooks any more, and
        what is ending already ends no later.
        """
        self.waits.pod_ends(uid)
        self.departures.shorten(uid, grace)

    def pod_gone(self, uid: PodUid) -> None:
        """A pod is gone."""
        self.waits.pod_gone(uid)
        self.departures.forget(uid)
        self.start_hooks.forget(uid)

    def close(self) -> None:
        """All waits end."""
        self.waits.close()
