"""The figures of edgemesh."""

from beehive.exposition import MetricFamily, counter, counters_by, gauge, gauges_by


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


def mesh_metrics(counters: MeshCounters) -> list[MetricFamily]:
    """Return the present counters for Prometheus."""
    changes = {"applied": counters.applied, "refused": counters.failed}
    answers = dict(sorted(counters.answers.items()))
    plane = {counters.plane: 1} if counters.plane else {}
    return [
        gauge("edgemesh_services", "Services that the node knows.", counters.services),
        gauges_by("kind", "edgemesh_data_plane", "What carries connections to Services; 1.", plane),
        counters_by("result", "edgemesh_changes", "Changes of rules or listeners.", changes),
        counter("edgemesh_rules_restored", "Times that another program had deleted the rules.", counters.restored),
        counter("edgemesh_unread_objects", "Objects of the cloud that could not be read.", counters.unread),
        counters_by("code", "edgemesh_dns_answers", "Answers of the name server.", answers),
        counter("edgemesh_dns_dropped", "Queries that were not answered.", counters.dropped),
        counter("edgemesh_dns_mismatches", "Answers of name servers that nobody asked for.", counters.mismatches),
        counter("edgemesh_dns_stale", "Answers whose time was over, as no name server answered.", counters.stale),
    ]
