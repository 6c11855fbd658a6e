"""Lets the containers of a pod that ends go one after the other, where they have an order; see
`edged.pods.stop_order`.
"""

import threading

from edged.lifecycle.departures import Departure
from edged.lifecycle.waits import Wait, WaitEndedError, WaitOverError, Waits
from edged.pods.model import ContainerId
from edged.pods.stop_order import StopOrder


class StopTurns:
    """Whose turn it is. Each container is waited for on a thread of its own.

    Args:
        waits: by which waiting is ended when edged is.
        order: of the containers that are to be stopped now.
    """

    def __init__(self, waits: Waits, order: StopOrder) -> None:
        self._waits = waits
        self._lock = threading.Lock()
        self._before = {container: set(others) for container, others in order.items()}
        self._waiting: dict[ContainerId, Wait] = {}

    def wait(self, container: ContainerId, departure: Departure) -> None:
        """Return when it is this container's turn, or its grace period is over (kubelet's waitForTurn), or edged ends:
        then the runtime takes no orders any more.
        """
        with self._lock:
            if not self._before.get(container):
                return
        try:
            self._waits.wait(lambda wait: self._begin(container, wait), limit=departure)
        except (WaitOverError, WaitEndedError):
            return

    def ended(self, container: ContainerId) -> None:
        """This container is not waited for any more."""
        with self._lock:
            for others in self._before.values():
                others.discard(container)
            free = [wait for each, wait in self._waiting.items() if not self._before.get(each)]
        for wait in free:
            wait.end()

    def _begin(self, container: ContainerId, wait: Wait) -> None:
        with self._lock:
            self._waiting[container] = wait
            free = not self._before.get(container)
        if free:
            wait.end()
