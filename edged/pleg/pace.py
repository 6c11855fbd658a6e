"""How soon the runtime is listed again: every second when nobody tells of changes, seldom while its events are whole.

A kubelet with evented PLEG lists every 300 s then; but runtimes have lost events (which is why the gate never became a
default), and containerd 1.7 shares them out among its listeners. So the stream has to earn its trust: a change that a
list shows and no event has told of, not even by the next list, ends it for a while.
"""

from edged.pleg.hints import Announced
from edged.pods.model import PodUid

SILENT = 5.0
"""Seconds after which a stream counts as open that was not refused: containerd answers nothing before its first event.
A runtime without events refuses within milliseconds."""

DISTRUST = 60.0
"""Seconds for which a stream that has missed something is not relied on."""


class Pace:
    """See the module's docstring. All moments are monotonic seconds.

    Args:
        alone: seconds between two lists without events (a kubelet's relist period).
        beside: seconds between two lists beside a stream that can be relied on.
    """

    def __init__(self, alone: float, beside: float) -> None:
        self._alone = alone
        self._beside = max(alone, beside)
        self._asked_at: float | None = None
        self._opened_at: float | None = None
        self._last_begin: float | None = None
        self._whole = False
        self._suspects: frozenset[PodUid] = frozenset()
        self._distrusted_until = float("-inf")

    def asked(self, now: float) -> None:
        """The runtime has been asked for its events."""
        self._asked_at, self._opened_at = now, None

    def opened(self, now: float) -> None:
        """It has said that it sends them."""
        self._opened_at = now

    def broke(self) -> None:
        """There are no events any more, for now or at all."""
        self._asked_at = self._opened_at = None
        self._suspects = frozenset()

    def hurry(self) -> None:
        """The next list is waited for: what there was to be seen could not be, or somebody wants to know."""
        self._whole = False

    def relisted(
        self, begin: float, changed: frozenset[PodUid], announced: Announced, *, whole: bool
    ) -> frozenset[PodUid]:
        """The runtime was listed; the pods that the stream has missed for certain.

        Args:
            begin: of the list.
            changed: pods that were found changed.
            announced: by events since the last list.
            whole: whether everything could be seen that was to be seen.
        """
        missed = frozenset(uid for uid in self._suspects if not announced.names(uid))
        if missed:
            self._distrusted_until = begin + DISTRUST
        since, before = self._reliable_since(), self._last_begin
        listened = since is not None and before is not None and since <= before
        unannounced = frozenset(uid for uid in changed if not announced.names(uid))
        self._suspects = unannounced if listened else frozenset()
        self._last_begin, self._whole = begin, whole
        return missed

    def period(self, now: float) -> float:
        """Seconds until the next list."""
        since = self._reliable_since()
        reliable = since is not None and since <= now and now >= self._distrusted_until
        return self._beside if reliable and self._whole and not self._suspects else self._alone

    def _reliable_since(self) -> float | None:
        if self._opened_at is not None:
            return self._opened_at
        return None if self._asked_at is None else self._asked_at + SILENT
