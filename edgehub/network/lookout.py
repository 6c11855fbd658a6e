"""The actor that waits for news of the network, on a thread of its own."""

import logging
from collections.abc import Callable
from typing import Protocol

from beehive import Actor

_log = logging.getLogger(__name__)


class NetworkWatch(Protocol):
    """Tells of changes of the network; `edgehub.network.netlink` is the kernel's."""

    def run(self, changed: Callable[[str], None]) -> None:
        """Tell what has changed until `close`; blocks. Raises OSError when it cannot go on."""

    def close(self) -> None:
        """Let `run` end; any thread."""


WatchNetwork = Callable[[], NetworkWatch]
"""Makes one; raises OSError where there is none."""


class Lookout(Actor):
    """Runs the watch it is told of until its end. Who wants it to stop closes the watch first.

    Args:
        changed: told of each change; returns at once.
    """

    def __init__(self, changed: Callable[[str], None]) -> None:
        super().__init__()
        self._changed = changed

    def on_receive(self, message: object) -> None:
        """Watch. Without it the link's deadlines find out, later."""
        try:
            message.run(self._changed)  # type: ignore[attr-defined]
        except OSError as error:
            _log.warning("changes of the network are not watched any more: %s", error)
