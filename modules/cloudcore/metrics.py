"""What cloudcore counts, in Prometheus' text form: `cloudcore metrics`."""

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from beehive.hive import Hive
from beehive.metrics import HiveCollector
from modules.cloudhub.refusals import Refusals


class RefusalCollector(Collector):
    """What nodes were refused, by reason and kind of object.

    Args:
        refusals: where it is counted.
    """

    def __init__(self, refusals: Refusals) -> None:
        self._refusals = refusals

    def collect(self) -> list[Metric]:
        """The counters of this moment."""
        labels = ("reason", "kind")
        refused = CounterMetricFamily(
            "cloudcore_refused_requests", "Requests of nodes that were refused.", labels=labels
        )
        for values, count in list(self._refusals.counts.items()):
            refused.add_metric(values, count)
        return [refused]


def exposition(hive: Hive, refusals: Refusals) -> str:
    """All of it, as Prometheus reads it."""
    registry = CollectorRegistry()
    registry.register(HiveCollector(hive))
    registry.register(RefusalCollector(refusals))
    return generate_latest(registry).decode()
