"""The actor that runs links."""

from beehive import Actor
from edgehub.inbound import Inbound
from edgehub.link import Link


class LinkRunner(Actor):
    """Runs each link that it receives until the link ends, and reports the end to `inbound`.

    It reads no other message meanwhile, so close the link before stopping the actor.
    """

    def __init__(self, inbound: Inbound) -> None:
        super().__init__()
        self._inbound = inbound

    def on_receive(self, message: object) -> None:
        """Run a link until it ends."""
        if isinstance(message, Link):
            self._inbound.ended(message.run(self._inbound))
