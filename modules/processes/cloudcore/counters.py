"""The counters of cloudcore's modules, for metrics."""

from collections import Counter

from beehive.clock import Clock
from modules.cloud.audit.log_file import AuditLog
from modules.cloud.client.counters import ApiCounters
from modules.cloud.cloudhub.counters import CloudHubCounters
from modules.cloud.controllers.work_meter import WorkMeter
from modules.cloud.coordination.known_cloudcores import KnownCloudcores
from modules.cloud.edgecontroller.state.node_states import NodeStateCounters
from modules.cloud.fleet_counts import FleetCounts
from modules.cloud.refusals import Refusals
from modules.cloud.storage.database.meter import TransactionMeter


class Counters:
    """Made by the process: they outlive restarts of the modules, which write them. Any thread may read them.

    Args:
        refusals: of nodes' requests.
        known: the cloudcores that are alive.
        audit: the audit log, which counts its events; None: there is none.
        cloud: name of the cloud; "" without one.
    """

    def __init__(
        self, refusals: Refusals, known: KnownCloudcores, audit: AuditLog | None = None, cloud: str = ""
    ) -> None:
        self.cloud = cloud
        self.audit = audit
        self.refusals = refusals
        self.known = known
        self.cloudhub = CloudHubCounters()
        self.api = ApiCounters()
        self.node_states = NodeStateCounters()
        self.work = WorkMeter()
        self.fleet: FleetCounts | None = None
        """Of the embedded API server; None without one."""
        self.reconcilers: Counter[str] = Counter()
        """Failures of the embedded API server's reconcilers, by name."""
        self.meters: dict[str, TransactionMeter] = {}
        """By the module whose transactions they measure."""

    def meter(self, module: str, clock: Clock) -> TransactionMeter:
        """Return the meter of a module's transactions."""
        return self.meters.setdefault(module, TransactionMeter(clock))
