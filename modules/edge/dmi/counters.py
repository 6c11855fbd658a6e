"""Counters of the mappers' registrations and reports, and their form for Prometheus."""

from collections import Counter
from typing import Final

from beehive.exposition import MetricFamily, counter, counters_with, gauges_by

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

    def count(self, mapper: str, result: str) -> None:
        """Count a call of a mapper by its result."""
        if mapper not in self._mappers:
            if len(self._mappers) >= MOST_MAPPERS:
                mapper = OTHERS
            self._mappers.add(mapper)
        self.reports[mapper, result] += 1


def dmi_metrics(counters: DmiCounters) -> list[MetricFamily]:
    """Return the present counters for Prometheus."""
    reports = dict(sorted(counters.reports.copy().items()))
    mappers = sorted(counters.mappers.copy().items())
    are_up = {mapper: float(is_up) for mapper, (is_up, _) in mappers}
    devices = {mapper: number for mapper, (_, number) in mappers}
    text = "Calls of mappers by result: stored, or the gRPC status of the refusal."
    return [
        counter("dmi_registrations", "Registrations of mappers that were answered.", counters.registrations),
        counters_with(("mapper", "result"), "dmi_reports", text, reports),
        gauges_by("mapper", "dmi_mapper_up", "1 while a registered mapper listens on its socket.", are_up),
        gauges_by("mapper", "dmi_mapper_devices", "Devices of a registered mapper.", devices),
    ]
