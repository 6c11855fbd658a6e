"""The renewals of leases that nodes send at about the same time."""

from collections.abc import Callable
from typing import Final

from beehive.message import Message
from beehive.module import Module
from beehive.names import Operation, ResourceType
from modules.cloud.cloudhub.messages_without_room import Passing

RENEWAL_DELAY: Final = 0.1
"""Seconds to collect renewals, so that many nodes share a transaction."""


class Renewals:
    """Passes renewals of leases on together: a renewal that follows another within `RENEWAL_DELAY` waits that long for
    more. A thousand idle nodes renew a hundred leases a second, and each alone would be a transaction. The order of
    messages stays: any other message goes after the renewals that wait. A node alone needs no timer.

    Args:
        module: cloudhub.
        pass_on: passes a message to its controllers.
    """

    def __init__(self, module: Module, pass_on: Callable[[Passing], None]) -> None:
        self._module = module
        self._pass_on = pass_on
        self._waiting: list[Passing] = []
        self._has_timer = False
        self._newest = -RENEWAL_DELAY
        """Monotonic seconds of the newest renewal."""

    def offer(self, passing: Passing) -> None:
        """Pass a message on, or keep it until others have come."""
        if passing.message.route.operation != Operation.UPDATE or not _is_renewal(passing.message):
            if self._waiting:
                self.pass_all()
            self._pass_on(passing)
            return
        before, self._newest = self._newest, self._module.clock.monotonic()
        if self._newest - before >= RENEWAL_DELAY and not self._waiting:
            self._pass_on(passing)
            return
        self._waiting.append(passing)
        if not self._has_timer:
            self._has_timer = True
            self._module.after(RENEWAL_DELAY, self._end)

    def pass_all(self) -> None:
        """Pass on all that wait."""
        waiting, self._waiting = self._waiting, []
        for passing in waiting:
            self._pass_on(passing)

    def _end(self) -> None:
        self._has_timer = False
        self.pass_all()


def _is_renewal(message: Message) -> bool:
    return message.route.operation == Operation.UPDATE and message.subject_on_cloud.type == ResourceType.LEASE
