"""The node's watch of a replay: edged takes its first report at the recorded time.

A pod has a status only once edged knows the runtime's name. Whether it takes that with the first report before or after
the PLEG's first facts is up to threads; the registration of the node tells.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from beehive.names import ModuleName, Operation, ResourceType
from beehive.trace import CriCall, Delivered
from edged.cri.contract import ContainerRuntime
from edged.node.machine import MachineInfo
from edged.node.status import NodeReport
from edged.node.watch import NodeWatch
from edged.settings import EdgedSettings
from edged.sync_events import SyncEvents
from modules.lab.replay.outputs import sent_at
from modules.lab.replay.turns import call_at

_NAME: Final = "/NodeWatch"
"""End of the watch's name as an actor."""
_NEAR: Final = 5.0
"""Seconds within which an inspection that is due counts as a recorded one."""


def first_report(deliveries: Iterable[Delivered]) -> float:
    """Return when edged took the first report of the node; 0 if no message tells.

    Args:
        deliveries: deliveries of the recorded run, in the order that they were sent.
    """
    for one in deliveries:
        if (
            one.sender == ModuleName.EDGED
            and one.message.operation == Operation.INSERT
            and f"/{ResourceType.NODE}/" in one.message.resource
        ):
            return 0.0 if one.cause else sent_at(one)
    return 0.0


def recorded_node_watch(taken_at: float) -> type[NodeWatch]:
    """Return the watch whose first report edged takes at a time."""

    class RecordedNodeWatch(NodeWatch):
        """The watch as it is, but for when its first report is taken."""

        def __init__(
            self,
            settings: EdgedSettings,
            runtime: ContainerRuntime,
            reports: SyncEvents[NodeReport],
            version: str,
            machine_info: MachineInfo,
            volumes: Callable[[], tuple[str, ...]] = tuple,
        ) -> None:
            super().__init__(settings, runtime, self, version, machine_info, volumes)
            self._edged = reports
            self._taken_at = taken_at

        def post(self, event: NodeReport) -> None:
            """Send a report to edged."""
            taken_at, self._taken_at = self._taken_at, 0.0
            call_at(self.clock, taken_at, partial(self._edged.post, event))

        handle = post

    return RecordedNodeWatch


def inspected_at(calls: Iterable[CriCall]) -> list[float]:
    """Return when the watch of the recorded run asked for the runtime's status, once for each report."""
    return [one.time - one.seconds for one in calls if one.method == "status" and one.sender.endswith(_NAME)]


def punctual_node_watch(times: list[float]) -> type[NodeWatch]:
    """Return the watch that inspects the node at the recorded times: each inspection is a period after the last one
    ended, and takes longer on a busy machine.
    """

    class PunctualNodeWatch(NodeWatch):
        """The watch as it is, but for when it inspects the node again."""

        def on_start(self) -> None:
            """Set the times."""
            super().on_start()
            now = self.clock.monotonic()
            for time in times[1:]:
                self.clock.after(max(0.0, time - now), super()._inspect_again)

        def _inspect_again(self) -> None:
            """Leave it to the recorded inspection, if there is one."""
            now = self.clock.monotonic()
            if not any(abs(time - now) < _NEAR for time in times):
                super()._inspect_again()

    return PunctualNodeWatch
