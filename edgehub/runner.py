"""The actor on whose thread a link lives."""

from beehive import Actor
from edgehub.inbound import Inbound
from edgehub.link import Link


class Runner(Actor):
    """Runs each link it is told of until its end, and says how it ended.

    It does not look into its inbox meanwhile: who wants it to stop closes the link first.
    """

    def __init__(self, inbound: Inbound) -> None:
        super().__init__()
        self._inbound = inbound

    def on_receive(self, message: object) -> None:
        """Run a link."""
        if isinstance(message, Link):
            self._inbound.ended(message.run(self._inbound))
