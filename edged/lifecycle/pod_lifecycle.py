"""PodLifecycle: hooks, waits and grace periods of all pods."""

from beehive import Runtime
from edged.cri.contract import ContainerRuntime
from edged.lifecycle.hooks import HookRunner
from edged.lifecycle.post_start_hooks import PostStartHooks
from edged.lifecycle.running_grace_periods import GracePeriods
from edged.lifecycle.waits import Waits
from edged.pods.model import PodUid
from edged.probes.network import Network
from edged.sync_events import PostStartHookEnded, SyncEvents


class PodLifecycle:
    """Hooks, waits and grace periods: pod workers begin them, the edged module ends them earlier. Thread-safe.

    Args:
        actors: threads and time.
        runtime: runs the commands of hooks.
        network: makes the connections of hooks.
        hooks_ended: takes the results of postStart hooks.
    """

    def __init__(
        self, actors: Runtime, runtime: ContainerRuntime, network: Network, hooks_ended: SyncEvents[PostStartHookEnded]
    ) -> None:
        self.waits = Waits(actors)
        self.grace_periods = GracePeriods(actors.clock)
        self.hooks = HookRunner(runtime, network, self.waits)
        self.post_start_hooks = PostStartHooks(actors, self.hooks, hooks_ended)

    def terminate_pod(self, uid: PodUid, grace: int) -> None:
        """End the waits for the postStart hooks of a pod, and limit its grace periods to so many seconds from now."""
        self.waits.terminate_pod(uid)
        self.grace_periods.shorten(uid, grace)

    def forget_pod(self, uid: PodUid) -> None:
        """Drop a pod that is removed from the node."""
        self.waits.forget_pod(uid)
        self.grace_periods.forget_pod(uid)
        self.post_start_hooks.forget_pod(uid)

    def close(self) -> None:
        """End all waits."""
        self.waits.close()
