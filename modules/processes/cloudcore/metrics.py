"""The metrics of cloudcore in Prometheus' text format."""

from beehive.exposition import Collector, CollectorRegistry, CounterFamily, GaugeFamily, MetricFamily
from beehive.hive import Hive
from beehive.metrics import HiveCollector
from modules.cloud.coordination.known_cloudcores import KnownCloudcores
from modules.cloud.refusals import Refusals


class RefusalCollector(Collector):
    """Collects the refused requests of nodes, by reason and kind of object.

    Args:
        refusals: the counters.
    """

    def __init__(self, refusals: Refusals) -> None:
        self._refusals = refusals

    def collect(self) -> list[MetricFamily]:
        """Returns the present counters."""
        labels = ("reason", "kind")
        refused = CounterFamily("cloudcore_refused_requests", "Requests of nodes that were refused.", labels=labels)
        for values, count in list(self._refusals.counts.items()):
            refused.add_metric(values, count)
        return [refused]


class CloudcoresCollector(Collector):
    """Collects the number of cloudcores that are alive.

    Args:
        known: the live cloudcores.
    """

    def __init__(self, known: KnownCloudcores) -> None:
        self._known = known

    def collect(self) -> list[MetricFamily]:
        """Returns the present number."""
        alive = GaugeFamily("cloudcore_alive_cloudcores", "Cloudcores that renew their Leases, this one included.")
        alive.add_metric((), len(self._known.alive))
        return [alive]


def exposition(hive: Hive, refusals: Refusals, known: KnownCloudcores) -> str:
    """Returns all metrics in Prometheus' text format."""
    registry = CollectorRegistry()
    registry.register(HiveCollector(hive))
    registry.register(RefusalCollector(refusals))
    registry.register(CloudcoresCollector(known))
    return registry.text()
