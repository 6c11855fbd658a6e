"""Group commit: what a run of messages has changed is made durable at once, and only then is anybody told.

Every handled message leaves an `Outcome` here. The messages that it wants sent wait until the store has committed;
then all go out in the order in which they were handled. One fsync so serves many messages, and an acknowledgement can
never come before what it acknowledges is on the disk. The module says when a run ends: when its inbox is empty, or
after `Module.batch_limit` messages.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from beehive.causes import NO_CAUSE, Cause, here, own, resumed
from metamanager.effects import Effect
from metamanager.errors import StoreWriteError
from metamanager.store import Store


class Outcome(NamedTuple):
    """What handling one message came to."""

    effects: Sequence[Effect]
    changed: bool = False
    """Whether it changed the store: its effects then depend on the commit."""
    otherwise: Callable[[], Sequence[Effect]] = tuple
    """Makes what is sent instead when the change could not be made durable."""
    again: Callable[[], object] | None = None
    """Of a deletion: makes the change once more, with the room that is kept free for that."""
    lost: bool = False
    """Whether it has to be made once more."""


class Batch:
    """See the module's docstring.

    Args:
        store: what is committed.
        deliver: sends an effect.
        committed: told of every commit; with the error when it failed, in which case the `otherwise` are sent.
    """

    def __init__(
        self,
        store: Store,
        deliver: Callable[[Effect], None],
        committed: Callable[[StoreWriteError | None], None],
    ) -> None:
        self._store = store
        self._deliver = deliver
        self._committed = committed
        self._waiting: list[Outcome] = []
        self._causes: list[Cause] = []

    def add(self, outcome: Outcome) -> None:
        """Take an outcome; without a change, and with nothing waiting before it, it is sent at once."""
        if self._waiting or outcome.changed:
            self._waiting.append(outcome)
            self._causes.append(here())
        else:
            self._send(outcome)

    def flush(self) -> None:
        """Commit and send all that waits."""
        if any(outcome.changed and not outcome.lost for outcome in self._waiting):
            self._commit()
        if any(outcome.lost for outcome in self._waiting):
            self._save()
        waiting, self._waiting = self._waiting, []
        causes, self._causes = self._causes, []
        with resumed(NO_CAUSE):
            turn = own()
            for outcome, cause in zip(waiting, causes, strict=True):
                turn.span, turn.trace = cause
                self._send(outcome)

    def lose(self, *, for_good: bool = False) -> None:
        """The database has given up the transaction: no change that waits will be durable. Deletions are made once
        more, unless it is `for_good`.
        """
        self._store.rollback()
        self._waiting = [self._lost(one, for_good=for_good) if one.changed else one for one in self._waiting]

    def _lost(self, outcome: Outcome, *, for_good: bool) -> Outcome:
        if outcome.again is None or for_good:
            return Outcome(outcome.otherwise())
        return outcome._replace(lost=True)

    def _save(self) -> None:
        """Make the deletions once more, which are what frees room."""
        self._store.make_room()
        try:
            for outcome in self._waiting:
                if outcome.lost and outcome.again is not None:
                    outcome.again()
            self._store.commit()
        except StoreWriteError:
            self._store.rollback()
            self._waiting = [Outcome(one.otherwise()) if one.lost else one for one in self._waiting]

    def _commit(self) -> None:
        try:
            self._store.commit()
        except StoreWriteError as error:
            self.lose()
            self._committed(error)
        else:
            self._committed(None)

    def _send(self, outcome: Outcome) -> None:
        for effect in outcome.effects:
            self._deliver(effect)
