"""The messages of nodes that go to cloudhub together, as databases commit in groups."""

import math
from collections.abc import Callable, Mapping
from typing import Final

from beehive.names import Operation, ResourceType
from modules.cloud.websocket.link import FrameReceived, LinkEvent

MOST: Final = 8
"""Messages that wait: a node's next messages may wait for its acknowledgements, and where reports come faster, they
share transactions anyway.
"""
LARGEST: Final = 64 * 1024
"""Bytes of a frame that waits, longer than statuses are."""
_ACKNOWLEDGEMENT_SECONDS: Final = 0.05
RENEWAL_SECONDS: Final = 0.1
"""A thousand idle nodes renew a hundred leases a second."""
REPORT_SECONDS: Final = 0.02
_DELAYS: Final[Mapping[tuple[str, str], float]] = {
    (ResourceType.LEASE, Operation.UPDATE): RENEWAL_SECONDS,
    **dict.fromkeys(
        (
            (ResourceType.PODPATCH, Operation.PATCH),
            (ResourceType.PODSTATUS, Operation.UPDATE),
            (ResourceType.NODEPATCH, Operation.PATCH),
            (ResourceType.NODESTATUS, Operation.UPDATE),
            (ResourceType.EVENT, Operation.INSERT),
            (ResourceType.EVENT, Operation.PATCH),
        ),
        REPORT_SECONDS,
    ),
}
"""Seconds that a report waits, by the type of its resource and its operation."""
_NONE: Final = (-math.inf, "")


class GroupedFrames:
    """Messages for which nobody waits, passed on together: alone, each is a transaction, and wakes seven threads.

    A report (a status or an Event; the renewal of a lease) that follows another node's of its sort within its delay
    waits that long for more, so that few nodes wait for nothing. An acknowledgement waits for the next message. The
    order stays: any other message goes after those that wait, except for a keepalive.

    Args:
        pass_on: passes an event on.
    """

    def __init__(self, pass_on: Callable[[LinkEvent], None]) -> None:
        self._pass_on = pass_on
        self._waiting: list[FrameReceived] = []
        self.due = math.inf
        """Monotonic seconds when they wait no longer."""
        self._newest: dict[float, tuple[float, str]] = {}
        """By delay, the monotonic seconds of the newest report, and its node."""

    def offer(self, received: FrameReceived, now: float) -> None:
        """Pass a message on, or keep it until `due`."""
        operation = received.message.route.operation
        if operation == Operation.KEEPALIVE:
            self._pass_on(received)
            return
        is_report = operation != Operation.RESPONSE
        delay = _DELAYS.get((received.message.subject.type, operation), 0.0) if is_report else _ACKNOWLEDGEMENT_SECONDS
        if not delay or received.error or received.size > LARGEST:
            self.deliver(received)
            return
        if is_report:
            newest, reporter = self._newest.get(delay, _NONE)
            self._newest[delay] = now, received.node
            if now - newest >= delay or received.node == reporter:
                delay = 0.0
        self._waiting.append(received)
        self.due = min(self.due, now + delay)
        if len(self._waiting) >= MOST:
            self.pass_all()

    def deliver(self, event: LinkEvent) -> None:
        """Pass an event on, after the messages that wait."""
        if self._waiting:
            self.pass_all()
        self._pass_on(event)

    def pass_due(self, now: float) -> None:
        """Pass on all that wait, if one of them has waited long enough."""
        if now >= self.due:
            self.pass_all()

    def pass_all(self) -> None:
        """Pass on all that wait."""
        waiting, self._waiting = self._waiting, []
        self.due = math.inf
        for each in waiting:
            self._pass_on(each)
