"""The figures of edgemesh."""

from beehive.exposition import Collector, CounterFamily, GaugeFamily, MetricFamily, counter, gauge


class MeshCounters:
    """Counts since the process started. They outlive the module's restarts."""

    def __init__(self) -> None:
        self.applied = 0
        """Changes of the data plane."""
        self.failed = 0
        """Changes that were refused."""
        self.restored = 0
        """Times that another program had deleted the rules."""
        self.unread = 0
        """Objects of the cloud that could not be read."""
        self.plane = ""
        """The carrier of connections; empty without one."""
        self.services = 0
        """Services that the node knows."""
        self.answers: dict[str, int] = {}
        """Answers of the name server, by their response code."""
        self.dropped = 0
        """Queries without an answer: of clients that ask too much, and of clients that may not ask."""
        self.mismatches = 0
        """Answers of name servers that nobody has asked for, which may be forged."""
        self.stale = 0
        """Answers from the cache whose time was over, while no name server answered."""


class MeshCollector(Collector):
    """The collector that publishes the counters.

    Args:
        counters: of the module.
    """

    def __init__(self, counters: MeshCounters) -> None:
        self._counters = counters

    def collect(self) -> list[MetricFamily]:
        """Return the present values."""
        counters = self._counters
        services = gauge("edgemesh_services", "Services that the node knows.", counters.services)
        plane = GaugeFamily("edgemesh_data_plane", "What carries connections to Services; 1.", labels=["kind"])
        if counters.plane:
            plane.add_metric([counters.plane], 1)
        changes = CounterFamily("edgemesh_changes", "Changes of rules or listeners.", labels=["result"])
        changes.add_metric(["applied"], counters.applied)
        changes.add_metric(["refused"], counters.failed)
        restored = counter(
            "edgemesh_rules_restored", "Times that another program had deleted the rules.", counters.restored
        )
        unread = counter("edgemesh_unread_objects", "Objects of the cloud that could not be read.", counters.unread)
        answers = CounterFamily("edgemesh_dns_answers", "Answers of the name server.", labels=["code"])
        for code, number in sorted(counters.answers.items()):
            answers.add_metric([code], number)
        dropped = counter("edgemesh_dns_dropped", "Queries that were not answered.", counters.dropped)
        mismatches = counter(
            "edgemesh_dns_mismatches", "Answers of name servers that nobody asked for.", counters.mismatches
        )
        stale = counter(
            "edgemesh_dns_stale", "Answers whose time was over, as no name server answered.", counters.stale
        )
        return [services, plane, changes, restored, unread, answers, dropped, mismatches, stale]
