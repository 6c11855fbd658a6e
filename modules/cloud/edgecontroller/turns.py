"""The turns of edgecontroller: a turn is the work between two commits."""

from beehive.module import Module


class TurnModule(Module):
    """A module that commits at the end of a batch of messages, and may be asked for that end outside of a batch."""

    _ends_turn = False
    """Whether the end of the present turn is in the inbox."""

    def end_turn_soon(self) -> None:
        """End the turn after the messages in the inbox: continuations, such as news of the API server, are in no batch
        of messages.
        """
        if not self._ends_turn:
            self._ends_turn = True
            self.call_soon(self._end_turn)

    def _end_turn(self) -> None:
        self._ends_turn = False
        self.on_batch_end()
