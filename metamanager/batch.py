"""The group commit: the replies to many messages wait for one commit of their changes."""

from typing import Protocol

import msgspec

from beehive.trace_context import NO_CAUSE, Cause, current_cause, own_context, resumed
from metamanager.errors import StoreWriteError
from metamanager.replies import Outcome, Reply
from metamanager.store import Store
from metamanager.store_health import StoreHealth


class Delivers(Protocol):
    """The sender of replies (`MetaManager`)."""

    def deliver(self, reply: Reply) -> None:
        """Send a reply."""


class Batch:
    """The outcomes of several messages: their changes are committed together, then their replies are sent in order.

    So one fsync serves many messages, and no acknowledgement leaves before its object is on the disk. The module ends a
    batch when its inbox is empty, or after `Module.batch_limit` messages.

    Args:
        store: the database.
        module: sends the replies.
        health: learns of commits that fail, for which `failure_replies` are sent, and of the first that succeeds again.
    """

    def __init__(self, store: Store, module: Delivers, health: StoreHealth) -> None:
        self._store = store
        self._module = module
        self._health = health
        self._waiting: list[Outcome] = []
        self._causes: list[Cause] = []

    def add(self, outcome: Outcome) -> None:
        """Add an outcome. Its replies leave immediately if it has no change and no other outcome waits."""
        if self._waiting or outcome.changed:
            self._waiting.append(outcome)
            self._causes.append(current_cause())
        else:
            self._send(outcome)

    def flush(self) -> None:
        """Commit, then send all waiting replies."""
        if any(outcome.changed and not outcome.lost for outcome in self._waiting):
            self._commit()
        if any(outcome.lost for outcome in self._waiting):
            self._retry_deletions()
        waiting, self._waiting = self._waiting, []
        causes, self._causes = self._causes, []
        with resumed(NO_CAUSE):
            context = own_context()
            for outcome, cause in zip(waiting, causes, strict=True):
                context.span, context.trace = cause
                self._send(outcome)

    def lose(self, *, for_good: bool = False) -> None:
        """Roll back: the waiting changes are lost. `flush` repeats deletions, unless the loss is `for_good`."""
        self._store.rollback()
        self._waiting = [self._mark_lost(one, for_good=for_good) if one.changed else one for one in self._waiting]

    def _mark_lost(self, outcome: Outcome, *, for_good: bool) -> Outcome:
        if outcome.retry is None or for_good:
            return Outcome(outcome.failure_replies())
        return msgspec.structs.replace(outcome, lost=True)

    def _retry_deletions(self) -> None:
        """Repeat the lost deletions, which free room on the disk."""
        self._store.make_room()
        try:
            for outcome in self._waiting:
                if outcome.lost and outcome.retry is not None:
                    outcome.retry()
            self._store.commit()
        except StoreWriteError as error:
            self._store.rollback()
            self._waiting = [Outcome(one.failure_replies()) if one.lost else one for one in self._waiting]
            self._health.report(error)

    def _commit(self) -> None:
        try:
            self._store.commit()
        except StoreWriteError as error:
            self.lose()
            self._health.report(error)
        else:
            if self._health.is_failing:
                self._health.recovered()

    def _send(self, outcome: Outcome) -> None:
        for reply in outcome.replies:
            self._module.deliver(reply)
