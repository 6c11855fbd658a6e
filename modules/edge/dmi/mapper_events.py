"""Events of the node about its mappers."""

import logging
from typing import Final

from beehive import Module
from edged.events.model import EventType
from edged.events.reasons import Reason
from edged.events.recorder import EventRecorder
from edged.events.reporter import EventReporter
from metamanager.client import AsyncMetaClient
from modules.edge.dmi.mappers import MapperRow

_log = logging.getLogger(__name__)

_RATE: Final = (0.2, 20)
"""Events per second, and at once."""


class MapperEvents:
    """Records that mappers have ended, and are back.

    Args:
        module: dmi.
        node: name of the node; without one nothing is recorded.
        meta: takes the events.
    """

    def __init__(self, module: Module, node: str, meta: AsyncMetaClient) -> None:
        self._module = module
        self._node = node
        self._meta = meta
        self._reporter: EventReporter | None = None

    def mapper_changed(self, row: MapperRow, *, is_lost: bool, devices: int) -> None:
        """Record that a mapper has ended, or is back.

        Args:
            row: the mapper.
            is_lost: whether it has ended.
            devices: their number.
        """
        if is_lost:
            why = f"mapper {row.name} does not listen on {row.socket}: the state of its devices ({devices}) is unknown"
            _log.warning("%s", why)
            self._record(EventType.WARNING, Reason.MAPPER_NOT_READY, why)
        else:
            self._record(EventType.NORMAL, Reason.MAPPER_READY, f"mapper {row.name} listens on {row.socket} again")

    def close(self) -> None:
        """Send the waiting events."""
        if self._reporter is not None:
            self._reporter.close()

    def _record(self, event_type: EventType, reason: Reason, message: str) -> None:
        if not self._node:
            return
        if self._reporter is None:
            self._reporter = EventReporter(self._meta, self._module, self._node, *_RATE)
        EventRecorder(self._module.clock, self._node, self._reporter.report).record_node(event_type, reason, message)
