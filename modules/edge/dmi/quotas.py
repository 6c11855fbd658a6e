"""The rate limits of mappers' reports and registrations.

A mapper chooses its name and, in a registration, its protocol; the protocol of a device is the cloud's. What a mapper
chooses gives it no new token bucket.
"""

from collections import OrderedDict
from typing import Final

from beehive.rate import TokenBucket
from modules.edge.dmi.errors import MapperCallRefused, RefusalStatus
from modules.edge.dmi.mappers import MapperRow

REGISTRATIONS: Final = (1.0, 10)
"""Registrations of one protocol per second, and in a burst."""

ALL_REGISTRATIONS: Final = (10.0, 200)
"""Registrations of all protocols together: each is written to the disk, and a mapper may name a new one each time."""

_MOST: Final = 256
"""Largest number of token buckets of a kind. Beyond it the least recently used one is dropped; if needed again, it
begins full."""


class Quotas:
    """The rate of reports of each mapper, and the rate of registrations.

    Args:
        rate: reports a second of one mapper; 0 is unlimited.
        burst: reports of one mapper at a time.
    """

    def __init__(self, rate: float, burst: int) -> None:
        self._rate = rate
        self._burst = burst
        self._reports: OrderedDict[str, TokenBucket] = OrderedDict()
        self._registrations: OrderedDict[str, TokenBucket] = OrderedDict()
        self._all_registrations = TokenBucket(*ALL_REGISTRATIONS)

    def report(self, mapper: MapperRow | None, now: float) -> None:
        """Count a report for its mapper's protocol, whatever the mapper calls itself. Raises MapperCallRefused if there
        were too many.

        Args:
            mapper: None for reports about devices of no mapper, which share one quota.
            now: monotonic seconds.
        """
        protocol = mapper.protocol if mapper is not None else ""
        bucket = self._reports.get(protocol) or TokenBucket(self._rate, self._burst)
        _keep(self._reports, protocol, bucket)
        wait = bucket.reserve(now)
        if wait:
            who = f"mapper {mapper.name}" if mapper is not None else "devices without a mapper"
            raise MapperCallRefused(
                RefusalStatus.RESOURCE_EXHAUSTED,
                f"too many reports of {who}: {self._rate:g} a second are taken, and {self._burst} at once; "
                f"try again in {wait:.2f} s, or raise modules.deviceTwin.mapperReportQPS",
            )

    def registration(self, protocol: str, now: float) -> None:
        """Count a registration. Raises MapperCallRefused if its protocol, or all together, had too many."""
        bucket = self._registrations.get(protocol) or TokenBucket(*REGISTRATIONS)
        wait = bucket.reserve(now) or self._all_registrations.reserve(now)
        if wait:
            raise MapperCallRefused(
                RefusalStatus.RESOURCE_EXHAUSTED, f"too many registrations of a mapper; try again in {wait:.2f} s"
            )
        _keep(self._registrations, protocol, bucket)


def _keep(buckets: OrderedDict[str, TokenBucket], protocol: str, bucket: TokenBucket) -> None:
    buckets[protocol] = bucket
    buckets.move_to_end(protocol)
    if len(buckets) > _MOST:
        buckets.popitem(last=False)
