"""Sending unacknowledged objects again, a portion at a time."""

from collections import deque
from collections.abc import Callable

from beehive.module import Module
from beehive.names import Group
from modules.cloud.edgecontroller.downstream.controller import DownstreamController
from modules.cloud.edgecontroller.state.object_syncs import ObjectSyncs

_PORTION = 256
"""Objects of nodes that are looked at in one turn."""
_BUSY = 256
"""Depth of an inbox above which acknowledgements are probably on their way in it."""
_PAUSE = 1.0
"""Seconds between two looks whether the inboxes are shorter."""


class Resending:
    """A walk through all connected nodes, in steps between which other messages are handled.

    It pauses while the inboxes of edgecontroller or cloudhub are long: sent objects or their acknowledgements still
    wait in one of them, and sending the objects again would make the inboxes longer.

    Args:
        module: edgecontroller.
        transact: does work in a transaction.
        downstream: sends the objects.
        object_syncs: of the connected nodes.
    """

    def __init__(
        self,
        module: Module,
        transact: Callable[[Callable[[], None]], None],
        downstream: DownstreamController,
        object_syncs: ObjectSyncs,
    ) -> None:
        self._module = module
        self._transact = transact
        self._downstream = downstream
        self._object_syncs = object_syncs
        self._nodes: deque[str] = deque()

    def begin(self) -> None:
        """Begin to go through the nodes, unless that is still under way."""
        if not self._nodes:
            self._nodes.extend(self._object_syncs.nodes())
            self._resume()

    def _resume(self) -> None:
        if not self._nodes:
            return
        if self._is_busy():
            self._module.after(_PAUSE, self._resume)
            return
        self._transact(self._resend_portion)
        if self._nodes:
            self._module.call_soon(self._resume)

    def _resend_portion(self) -> None:
        looked = 0
        while self._nodes and looked < _PORTION:
            looked += 1 + self._downstream.resend_unacknowledged(self._nodes.popleft())

    def _is_busy(self) -> bool:
        hive = self._module.hive
        names = (str(self._module.name), *hive.members(Group.CLOUDHUB))
        return any(hive.slot(name).inbox.depth() > _BUSY for name in names)
