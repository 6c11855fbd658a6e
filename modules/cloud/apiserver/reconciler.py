"""The reconcilers of the API server, whose writes share the transaction of the changes that they follow from.

No client sees the one without the other: a namespace without its account, a node under pressure without its taint, an
owner that is gone beside its dependents. Pods get their nodes here, too: the answer to a creation says why a pod waits,
and a transaction of its own would double the commits of each pod. What may be written later belongs to
`modules.cloud.controllers`.
"""

import logging
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Final

from modules.apimachinery.api_errors import ApiError
from modules.apimachinery.kinds import ObjectKey
from modules.cloud.storage.object_storage import ObjectEvent

_log = logging.getLogger(__name__)

_MOST_REFUSED: Final = 1000
"""Objects whose refusals are remembered: those of the last ones."""

Attempt = Callable[[Callable[[], None]], None]
"""Does work in the transaction; if it raises, nothing of it remains (`Transactions.attempt`)."""


class OneOfMany:
    """A context in which the refusal of a change that follows for one object is logged: all others must not wait for
    an object that a user has made so large that nothing can be added. A refusal for the same reason is logged once.
    """

    def __init__(self) -> None:
        self._refused: dict[ObjectKey, str] = {}

    @contextmanager
    def __call__(self, key: ObjectKey) -> Iterator[None]:
        """Return the context of one object."""
        why = ""
        try:
            yield
        except ApiError as error:
            why = str(error)
        before = self._refused.pop(key, "")
        if why != before and why:
            _log.warning("%s is left as it is: %s", key, why)
        if why:
            self._refused[key] = why
            if len(self._refused) > _MOST_REFUSED:
                del self._refused[next(iter(self._refused))]


class Reconciler:
    """A writer of what follows from changes, at the end of their transaction. All methods are called on one thread."""

    name: str
    """In logs and metrics: kube-controller-manager's, where it has such a controller."""
    kinds: Collection[str] | None = None
    """The kinds whose changes it handles; None: all."""
    is_of_statuses: bool = True
    """Whether a change of nothing but a pod's status may concern it."""
    is_due: bool = True
    """Whether `reconcile` may have something to do; a reconciler that does not keep it is always asked."""

    def load(self) -> None:
        """Take over the objects when the API server starts, and have all of them reconciled."""

    def handle_event(self, event: ObjectEvent) -> None:
        """Handle a change, by this cloudcore or another."""

    def handle_own(self, event: ObjectEvent) -> None:
        """Handle a change by this cloudcore, after `handle_event`: another one reconciles after its own changes."""

    def roll_back(self, event: ObjectEvent) -> None:
        """Take a change back; the newest comes first."""

    def reset(self) -> None:
        """Have all objects reconciled: a transaction was undone, as there was no room for it."""

    def reconcile(self, attempt: Attempt, *, is_turn: bool) -> bool:
        """Write what follows, and return whether the rest waits for its turn, which comes after other messages.

        Args:
            attempt: does work in the transaction.
            is_turn: whether the transaction is such a turn.
        """
        raise NotImplementedError

    def overdue(self) -> Callable[[], None] | None:
        """Return work for a transaction of its own that has become due without a change, or None. It is asked for
        every few seconds.
        """
        return None


class OwnChanges(Reconciler):
    """A reconciler that does its work again after a change of this cloudcore that it depends on, and at the start.

    Args:
        name: in logs and metrics.
        kinds: whose changes may concern it.
        concerns: returns whether a change makes the work due.
        work: writes the missing parts, of all objects.
        is_of_statuses: whether a change of nothing but a pod's status may concern it.
    """

    def __init__(
        self,
        name: str,
        kinds: Collection[str],
        concerns: Callable[[ObjectEvent], bool],
        work: Callable[[], None],
        *,
        is_of_statuses: bool = True,
    ) -> None:
        self.name = name
        self.is_of_statuses = is_of_statuses
        self.kinds = kinds
        self._concerns = concerns
        self._work = work

    def handle_own(self, event: ObjectEvent) -> None:
        """Note whether the work is due."""
        if not self.is_due:
            self.is_due = self._concerns(event)

    def reset(self) -> None:
        """Have the work done again."""
        self.is_due = True

    def reconcile(self, attempt: Attempt, *, is_turn: bool) -> bool:  # noqa: ARG002 - it is done in one part
        """Do the work if it is due."""
        if self.is_due:
            self.is_due = False
            attempt(self._work)
        return False
