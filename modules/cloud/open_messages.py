"""The messages of nodes that a module of the cloud owes an answer."""

from collections.abc import Iterable

from beehive.message import Message


class OpenMessages:
    """The messages of nodes that a module has taken and not answered. Those that go with its failure are answered with
    an error: their nodes would wait until their own time is over.
    """

    def __init__(self) -> None:
        self._open: dict[int, Message] = {}
        """By the identity of the header, which a message keeps when its content is dropped."""

    def begin(self, message: Message) -> None:
        """Note that the handling of a message begins."""
        self._open[id(message.header)] = message

    def close(self, message: Message) -> None:
        """Note that it is answered, or needs no answer."""
        self._open.pop(id(message.header), None)

    def lost(self, tried_again: Iterable[Message]) -> list[Message]:
        """Return the messages that go with the module, which are all but those that are tried again."""
        kept = {id(message.header) for message in tried_again}
        return [message for key, message in self._open.items() if key not in kept]
