"""The actor that watches the network."""

import logging
from collections.abc import Callable
from typing import Protocol

from beehive import Actor

_log = logging.getLogger(__name__)


class NetworkWatch(Protocol):
    """Reports changes of the network; `edgehub.network.netlink` implements it."""

    def run(self, changed: Callable[[str], None]) -> None:
        """Call `changed` with a text for each change until `close`. Blocks; raises OSError when it fails."""

    def close(self) -> None:
        """End `run`; any thread."""


WatchNetwork = Callable[[], NetworkWatch]
"""Opens a watch; raises OSError on a system without watches."""


class NetworkWatcher(Actor):
    """Runs the watch that it receives until its end; close the watch before stopping the actor.

    Args:
        changed: called with each change; does not block.
    """

    def __init__(self, changed: Callable[[str], None]) -> None:
        super().__init__()
        self._changed = changed

    def on_receive(self, message: object) -> None:
        """Watch until the end. Without a watch the link's deadlines find dead links, later."""
        try:
            message.run(self._changed)  # type: ignore[attr-defined]
        except OSError as error:
            _log.warning("changes of the network are no longer watched: %s", error)
