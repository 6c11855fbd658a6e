"""metamanager in a replay: it groups changes into commits as the recorded run did.

metamanager commits when its inbox is empty. Messages that come within a millisecond are one commit if its thread was
busy in that moment, and several if not. Messages after a commit wait for it: another grouping is another order.
"""

from collections.abc import Callable

from metamanager.module import MetaManager
from modules.lab.replay.store import RecordedStore


def grouped(store: Callable[[], RecordedStore]) -> type[MetaManager]:
    """Return metamanager that ends its batches where they ended.

    Args:
        store: returns the store that it has opened last.
    """

    class GroupedMetaManager(MetaManager):
        """metamanager as it is, but for the ends of its batches."""

        def is_batch_full(self) -> bool:
            """End a batch that has all changes of the recorded commit, though more messages wait."""
            return store().is_whole()

        def on_batch_end(self) -> None:
            """Commit when the recorded commit began."""
            self._flush_in_time()

        def _flush(self) -> None:
            self._flush_is_due = False
            self._flush_in_time()

        def _flush_in_time(self) -> None:
            seconds = store().until_begun()
            if seconds > 0:
                self.after(seconds, self._flush_in_time)
            else:
                self._batch.flush()

    return GroupedMetaManager
