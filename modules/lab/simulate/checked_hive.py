"""A hive that demands that nobody changes the content of a message after it was sent."""

from typing import Final

from beehive import Message, Runtime
from beehive.delivery import DeliveryMode
from beehive.hive import Hive
from beehive.testing import SentContents

_KEPT: Final = 200
"""Messages whose contents are looked at once more when so many others were sent."""


class CheckedHive(Hive):
    """The hive of a simulated process; a module that sends a message when another was changed fails.

    Args:
        runtime: of the process.
    """

    def __init__(self, runtime: Runtime) -> None:
        super().__init__(runtime)
        self._contents = SentContents(_KEPT)

    def respond(self, message: Message, by: str | None = None) -> bool:
        """See `Hive.respond`."""
        self._contents.record(message)
        return super().respond(message, by)

    def _deliver(self, destination: str, message: Message, mode: DeliveryMode, *, waits: bool = True) -> None:
        self._contents.record(message)
        super()._deliver(destination, message, mode, waits=waits)
