"""Answers `/edgecore/state` on the owner's socket."""

import msgspec

from beehive import Hive, ModuleName
from beehive.http.request import Request
from beehive.http.responses import Response, json
from beehive.http.router import HttpRoute
from edged.pods.model import WorkFigures
from edged.server.snapshots import Snapshots
from edgehub import LinkCounters
from modules.processes.common.version import VERSION
from modules.processes.edgecore.top.state import (
    MOST_ASKED,
    PATH,
    AgentState,
    HeldMessages,
    LinkReport,
    ModuleReport,
    WorkReport,
)


class AgentStateHandler:
    """The handler that makes the state at each request, from snapshots and lengths of queues; keeps nothing.

    Args:
        node: name of the node.
        server: address of the cloud.
        hive: the hive; its modules, inboxes and open requests.
        snapshots: the states that edged has published.
    """

    counters: LinkCounters | None = None
    """Counters of the link; None where edgehub does not run."""

    def __init__(self, node: str, server: str, hive: Hive, snapshots: Snapshots) -> None:
        self._node = node
        self._server = server
        self._hive = hive
        self._clock = hive.clock
        self._snapshots = snapshots
        self._started_at = hive.clock.now()

    @property
    def route(self) -> HttpRoute:
        """The route of this handler."""
        return HttpRoute(PATH, self)

    def __call__(self, _request: Request) -> Response:
        """Answer with the state in JSON."""
        return json(msgspec.json.encode(self.state()))

    def state(self) -> AgentState:
        """Return the state as it is now; any thread."""
        status = self._snapshots.node_status
        counters, reports = self.counters, self._snapshots.reports
        now = self._clock.monotonic()
        return AgentState(
            now=self._clock.now(),
            node=self._node,
            version=VERSION,
            started_at=self._started_at,
            runtime="" if status is None else status.node_info.container_runtime_version,
            capacity={} if status is None else {name: str(amount) for name, amount in status.capacity.items()},
            conditions=() if status is None else status.conditions,
            modules=self._modules(),
            link=LinkReport() if counters is None else _link(counters, self._server, now),
            held={} if counters is None else {kind: HeldMessages(*used) for kind, used in counters.waiting().items()},
            work=None if reports is None else _work(reports.work(), now),
            asked=self._asked(),
        )

    def _modules(self) -> dict[str, ModuleReport]:
        depths, restarts = self._hive.depths(), self._hive.restarts()
        return {
            name: ModuleReport(str(ready.state.value), ready.reason, depths.get(name, 0), restarts.get(name, 0))
            for name, ready in self._hive.readiness().items()
        }

    def _asked(self) -> tuple[str, ...]:
        requests = self._hive.pending_requests
        asked = [requests.resource(key) for key in requests.ids() if requests.requester(key) == ModuleName.METAMANAGER]
        return tuple(sorted({resource for resource in asked if resource})[:MOST_ASKED])


def _link(counters: LinkCounters, server: str, now: float) -> LinkReport:
    link = counters.link
    return LinkReport(
        enabled=True,
        server=server,
        connected_at=link.connected_at if counters.connected else None,
        lost_at=link.lost_at,
        failures=link.failures,
        why=link.why,
        replaced_at=link.replaced_at,
        certificate_ends=counters.certificate_expires,
        next_try=None if link.next_try is None else max(0.0, link.next_try - now),
    )


def _work(figures: WorkFigures, now: float) -> WorkReport:
    due = {str(uid): max(0.0, at - now) for uid, at in figures.due.items()}
    return WorkReport(figures.waiting, figures.working, due, tuple(sorted(map(str, figures.failed))))
