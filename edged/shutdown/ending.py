"""Ends the node's pods group by group, when the machine is about to shut down; on the edged module's thread.

While it does so the node is not ready and takes no pod. A group has its time: when all of it have ended, or the time is
over, the next one follows. At the end the machine is held up no longer.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol

from beehive import Clock, Timer
from edged.api import Pod
from edged.events import EventRecorder, EventType, Reason
from edged.pods.labels import ref_of
from edged.pods.model import PodUid
from edged.pods.verdict import Verdict
from edged.shutdown.plan import Group, Step, plan, verdict

_log = logging.getLogger(__name__)

NOT_READY: Final = "node is shutting down"
"""What the node's condition Ready says (kubelet)."""
PAUSE: Final = 0.25
"""Seconds between two looks whether a group has ended."""


class Turns(Protocol):
    """The module on whose thread this lives."""

    @property
    def clock(self) -> Clock:
        """Time."""

    def after(self, seconds: float, function: Callable[[], None]) -> Timer:
        """Call in the module's own turn."""


class Pods(Protocol):
    """What is asked of the keeper."""

    def unended(self) -> Iterable[Pod]:
        """The pods of which something may run yet, those among them that are ending."""

    def end_in_time(self, uid: PodUid, verdict: Verdict) -> None:
        """End one for good; one that is ending has no more time than the verdict says."""

    def has_ended(self, uid: PodUid) -> bool:
        """Whether nothing of it runs any more."""


class NodeShutdown:
    """See the module's docstring.

    Args:
        turns: the module.
        known: groups of pods; without any the shutdown is not looked at.
        pods: of this node.
        changed: the node's status is another one.
        over: nothing is left to be waited for.
        recorder: is told of it.
    """

    def __init__(
        self,
        turns: Turns,
        known: Sequence[Group],
        pods: Pods,
        *,
        changed: Callable[[], None],
        over: Callable[[], None],
        recorder: EventRecorder,
    ) -> None:
        self._turns = turns
        self._groups = tuple(known)
        self._pods = pods
        self._changed = changed
        self._over = over
        self._recorder = recorder
        self._timer: Timer | None = None
        self.imminent = False
        """Whether the machine is about to shut down."""

    def begin(self) -> None:
        """The machine is about to shut down."""
        if self.imminent or not self._groups:
            return
        _log.warning("the machine shuts down: its pods are ended")
        self.imminent = True
        self._recorder.record_node(EventType.NORMAL, Reason.NODE_SHUTDOWN, "Shutdown manager detected shutdown event")
        self._changed()
        self._go_on(plan(self._pods.unended(), self._groups))

    def cancel(self) -> None:
        """It does not shut down after all. What has been ended stays so."""
        if not self.imminent:
            return
        _log.warning("the machine does not shut down after all")
        self.imminent = False
        if self._timer is not None:
            self._timer.cancel()
        recorder, message = self._recorder, "Shutdown manager detected shutdown cancellation"
        recorder.record_node(EventType.NORMAL, Reason.NODE_SHUTDOWN, message)
        self._changed()

    def _go_on(self, steps: list[Step]) -> None:
        if not steps:
            _log.info("all pods have ended, or had their time")
            self._over()
            return
        step, *rest = steps
        _log.info("%d pods have %d s to end", len(step.pods), step.seconds)
        for pod in step.pods:
            self._pods.end_in_time(ref_of(pod).uid, verdict(pod, step.seconds))
        self._wait(step, self._turns.clock.monotonic() + step.seconds, rest)

    def _wait(self, step: Step, until: float, rest: list[Step]) -> None:
        ended = all(self._pods.has_ended(ref_of(pod).uid) for pod in step.pods)
        if ended or self._turns.clock.monotonic() >= until:
            self._go_on(rest)
        else:
            self._timer = self._turns.after(PAUSE, lambda: self._wait(step, until, rest))
