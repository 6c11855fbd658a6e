"""Counters of the mappers' registrations and reports, and their collector for Prometheus."""

from collections import Counter
from typing import Final

from beehive.exposition import Collector, CounterFamily, GaugeFamily, MetricFamily, counter

MOST_MAPPERS: Final = 200
"""Largest number of mappers with counters of their own, since their names come from outside."""

OTHERS: Final = "(others)"
STORED: Final = "stored"


class DmiCounters:
    """Counts since the process started. They outlive the module's restarts."""

    def __init__(self) -> None:
        self.registrations = 0
        """Registrations that were answered."""
        self.reports: Counter[tuple[str, str]] = Counter()
        """Calls by mapper (empty without one) and result: `stored`, or the gRPC status of the refusal."""
        self.mappers: dict[str, tuple[bool, int]] = {}
        """Of each registered mapper, whether somebody listens on its socket, and the number of its devices."""
        self._mappers: set[str] = set()

    def stored(self, mapper: str) -> None:
        """Count a report that is stored."""
        self._count(mapper, STORED)

    def refused(self, mapper: str, status: str) -> None:
        """Count a call that is refused."""
        self._count(mapper, status)

    def _count(self, mapper: str, result: str) -> None:
        if mapper not in self._mappers:
            if len(self._mappers) >= MOST_MAPPERS:
                mapper = OTHERS
            self._mappers.add(mapper)
        self.reports[mapper, result] += 1


class DmiCollector(Collector):
    """The collector that exports the counters.

    Args:
        counters: of the module dmi.
    """

    def __init__(self, counters: DmiCounters) -> None:
        self._counters = counters

    def collect(self) -> list[MetricFamily]:
        """Return the present values."""
        registered = self._counters.registrations
        registrations = counter("dmi_registrations", "Registrations of mappers that were answered.", registered)
        text = "Calls of mappers by result: stored, or the gRPC status of the refusal."
        reports = CounterFamily("dmi_reports", text, ["mapper", "result"])
        for (mapper, result), number in sorted(self._counters.reports.copy().items()):
            reports.add_metric([mapper, result], number)
        up = GaugeFamily("dmi_mapper_up", "1 while a registered mapper listens on its socket.", labels=["mapper"])
        devices = GaugeFamily("dmi_mapper_devices", "Devices of a registered mapper.", labels=["mapper"])
        for mapper, (is_up, count) in sorted(self._counters.mappers.copy().items()):
            up.add_metric([mapper], float(is_up))
            devices.add_metric([mapper], count)
        return [registrations, reports, up, devices]
