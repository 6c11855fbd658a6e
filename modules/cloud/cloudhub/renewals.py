"""The renewals of leases that nodes send at about the same time."""

from collections.abc import Callable
from typing import Final

from beehive.message import Message
from beehive.module import Module
from beehive.names import Operation, ResourceType
from beehive.resource import Side, type_of
from modules.cloud.cloudhub.messages_without_room import Passing

RENEWAL_DELAY: Final = 0.1
"""Seconds to collect renewals, so that many nodes share a transaction."""


class Renewals:
    """Passes renewals of leases on together: the first one at once, and those that follow it within `RENEWAL_DELAY`
    after that. A thousand idle nodes renew a hundred leases a second, and each alone would be a transaction. The order
    of messages stays: any other message goes after the renewals that wait.

    Args:
        module: cloudhub.
        pass_on: passes a message to its controllers.
    """

    def __init__(self, module: Module, pass_on: Callable[[Passing], None]) -> None:
        self._module = module
        self._pass_on = pass_on
        self._waiting: list[Passing] = []
        self._collects = False

    def offer(self, passing: Passing) -> None:
        """Pass a message on, or keep it until others have come."""
        if not _is_renewal(passing.message):
            self.pass_all()
            self._pass_on(passing)
        elif self._collects:
            self._waiting.append(passing)
        else:
            self._collect()
            self._pass_on(passing)

    def pass_all(self) -> None:
        """Pass on all that wait."""
        waiting, self._waiting = self._waiting, []
        for passing in waiting:
            self._pass_on(passing)

    def _collect(self) -> None:
        self._collects = True
        self._module.after(RENEWAL_DELAY, self._end)

    def _end(self) -> None:
        self._collects = False
        if self._waiting:
            self._collect()
        self.pass_all()


def _is_renewal(message: Message) -> bool:
    route = message.route
    return route.operation == Operation.UPDATE and type_of(route.resource, Side.CLOUD) == ResourceType.LEASE
