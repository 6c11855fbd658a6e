"""The period of relists, with and without the runtime's events."""

from edged.pleg.hints import Announced
from edged.pods.model import PodUid

SILENT = 5.0
"""Seconds after which a stream counts as open that was not refused: containerd sends nothing before its first event. A
runtime without events refuses within milliseconds.
"""

DISTRUST = 60.0
"""Seconds that the period stays short after a stream has missed a change."""


class RelistPace:
    """The period of relists: every second without events, and rarely while the stream of events is complete.

    A kubelet with evented PLEG relists every 300 s; but runtimes have lost events (which is why the gate never became a
    default), and containerd 1.7 shares them out among its listeners. So a change that a list shows and no event has
    announced, not even by the next list, shortens the period for a while. All times are monotonic seconds.

    Args:
        alone: seconds between two relists without events (a kubelet's relist period).
        beside: seconds between two relists beside a reliable stream.
    """

    def __init__(self, alone: float, beside: float) -> None:
        self._alone = alone
        self._beside = max(alone, beside)
        self._requested_at: float | None = None
        self._opened_at: float | None = None
        self._last_begin: float | None = None
        self._whole = False
        self._suspects: frozenset[PodUid] = frozenset()
        self._distrusted_until = float("-inf")

    def stream_requested(self, now: float) -> None:
        """Note that the runtime's events were requested."""
        self._requested_at, self._opened_at = now, None

    def stream_opened(self, now: float) -> None:
        """Note that the runtime has begun to send events."""
        self._opened_at = now

    def stream_broke(self) -> None:
        """Note that the stream has ended, or that the runtime has no stream."""
        self._requested_at = self._opened_at = None
        self._suspects = frozenset()

    def relist_soon(self) -> None:
        """Make the next period the shorter one."""
        self._whole = False

    def relisted(
        self, begin: float, changed: frozenset[PodUid], announced: Announced, *, whole: bool
    ) -> frozenset[PodUid]:
        """Note a relist. Return the pods with a change that the stream has missed for certain.

        Args:
            begin: when the relist began.
            changed: pods that the relist found changed.
            announced: pods of the events since the last relist.
            whole: whether all changed pods could be inspected.
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
        """Return the seconds between the last relist and the next one."""
        since = self._reliable_since()
        reliable = since is not None and since <= now and now >= self._distrusted_until
        return self._beside if reliable and self._whole and not self._suspects else self._alone

    def _reliable_since(self) -> float | None:
        if self._opened_at is not None:
            return self._opened_at
        return None if self._requested_at is None else self._requested_at + SILENT
