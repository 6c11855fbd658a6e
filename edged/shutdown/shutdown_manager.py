"""Termination of the node's pods before the machine shuts down."""

import logging
from collections.abc import Sequence
from typing import Final

from beehive import ModuleContext, Timer
from edged.events import EventRecorder, EventType, Reason
from edged.node.reporter import NodeReporter
from edged.pods.kill_options import KillPod
from edged.pods.labels import ref_of
from edged.pods.manager import PodManager
from edged.settings import Group
from edged.shutdown.logind import ShutdownSource
from edged.shutdown.plan import Step, kill_options, plan
from edged.sync_events import SyncEvents

_log = logging.getLogger(__name__)

PAUSE: Final = 0.25
"""Seconds between checks whether a group has ended."""


class ShutdownManager:
    """The kubelet's shutdown manager: it terminates the node's pods group by group, on edged's thread.

    Meanwhile the node is not ready and admits no pod. The next group follows when all pods of a group have ended or its
    seconds are over; after the last one the machine may shut down.

    Args:
        context: the module.
        known: groups of pods; without groups a shutdown is ignored.
        pods: the pods of this node.
        kills: take requests to end pods.
        reporter: reports the node as not ready.
        source: told of the end of the last group; None if the machine's shutdown does not wait.
        recorder: records events of the node.
    """

    def __init__(
        self,
        context: ModuleContext,
        known: Sequence[Group],
        pods: PodManager,
        kills: SyncEvents[KillPod],
        reporter: NodeReporter,
        source: ShutdownSource | None,
        *,
        recorder: EventRecorder,
    ) -> None:
        self._context = context
        self._groups = tuple(known)
        self._pods = pods
        self._kills = kills
        self._reporter = reporter
        self._source = source
        self._recorder = recorder
        self._timer: Timer | None = None
        self.imminent = False
        """Whether the machine is about to shut down."""

    def begin(self) -> None:
        """Begin to terminate the pods: the machine is about to shut down."""
        if self.imminent or not self._groups:
            return
        _log.warning("the machine is shutting down: its pods are being terminated")
        self.imminent = True
        self._recorder.record_node(EventType.NORMAL, Reason.NODE_SHUTDOWN, "Shutdown manager detected shutdown event")
        self._reporter.set_shutting_down(imminent=True)
        self._run_steps(plan(self._pods.unterminated_pods(), self._groups))

    def cancel(self) -> None:
        """Stop: the machine does not shut down. Terminated pods stay terminated."""
        if not self.imminent:
            return
        _log.warning("the shutdown of the machine was cancelled")
        self.imminent = False
        if self._timer is not None:
            self._timer.cancel()
        recorder, message = self._recorder, "Shutdown manager detected shutdown cancellation"
        recorder.record_node(EventType.NORMAL, Reason.NODE_SHUTDOWN, message)
        self._reporter.set_shutting_down(imminent=False)

    def _run_steps(self, steps: list[Step]) -> None:
        if not steps:
            _log.info("all pods have ended, or their time is over")
            if self._source is not None:
                self._source.release()
            return
        step, *rest = steps
        _log.info("%d pods have %d s to end", len(step.pods), step.seconds)
        for pod in step.pods:
            self._kills.handle(KillPod(ref_of(pod).uid, kill_options(pod, step.seconds), shortens=True))
        self._wait(step, self._context.clock.monotonic() + step.seconds, rest)

    def _wait(self, step: Step, until: float, rest: list[Step]) -> None:
        ended = all(self._pods.is_terminated(ref_of(pod).uid) for pod in step.pods)
        if ended or self._context.clock.monotonic() >= until:
            self._run_steps(rest)
        else:
            self._timer = self._context.after(PAUSE, lambda: self._wait(step, until, rest))
