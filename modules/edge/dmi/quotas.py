"""The rate limits of mappers' reports and registrations."""

from collections import OrderedDict
from typing import Final

from beehive.rate import TokenBucket
from modules.edge.dmi.errors import MapperCallRefused, RefusalStatus

REGISTRATIONS: Final = (1.0, 10)
"""Registrations of one protocol per second, and in a burst."""

ALL_REGISTRATIONS: Final = (10.0, 200)
"""Registrations of all protocols together: each is written to the disk, and a mapper may name a new one each time."""

_MOST: Final = 256
"""Largest number of token buckets. Beyond it the least recently used one is dropped; if needed again, it begins
full."""


class Quotas:
    """The rate of reports of each mapper, and the rate of registrations.

    Args:
        rate: reports a second of one mapper; 0 is unlimited.
        burst: reports of one mapper at a time.
    """

    def __init__(self, rate: float, burst: int) -> None:
        self._rate = rate
        self._burst = burst
        self._buckets: OrderedDict[tuple[str, str], TokenBucket] = OrderedDict()

    def report(self, mapper: str, now: float) -> None:
        """Count a report. Raises MapperCallRefused if the mapper has reported too often.

        Args:
            mapper: its name; empty for reports about devices of no mapper, which share one quota.
            now: monotonic seconds.
        """
        wait = self._bucket("report", mapper, self._rate, self._burst).reserve(now)
        if wait:
            who = f"mapper {mapper}" if mapper else "devices without a mapper"
            raise MapperCallRefused(
                RefusalStatus.RESOURCE_EXHAUSTED,
                f"too many reports of {who}: {self._rate:g} a second are taken, and {self._burst} at once; "
                f"try again in {wait:.2f} s, or raise modules.deviceTwin.mapperReportQPS",
            )

    def registration(self, protocol: str, now: float) -> None:
        """Count a registration. Raises MapperCallRefused if its protocol, or all together, had too many."""
        wait = self._bucket("register", protocol, *REGISTRATIONS).reserve(now)
        wait = wait or self._bucket("register all", "", *ALL_REGISTRATIONS).reserve(now)
        if wait:
            raise MapperCallRefused(
                RefusalStatus.RESOURCE_EXHAUSTED, f"too many registrations of a mapper; try again in {wait:.2f} s"
            )

    def _bucket(self, kind: str, who: str, rate: float, burst: int) -> TokenBucket:
        key = (kind, who)
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = TokenBucket(rate, burst)
        self._buckets.move_to_end(key)
        if len(self._buckets) > _MOST:
            self._buckets.popitem(last=False)
        return bucket
