"""From what is known of a pod to the status that is reported of it; on the edged module's thread.

Every time something is learnt of a pod (facts, probes, a worker's outcome, a new wish) its status is computed anew, and
handed on when it is another one than before.
"""

from collections.abc import Callable

from beehive import Clock
from edged.api import Nanoseconds, Pod, PodStatus
from edged.deadlines import Deadlines
from edged.lifecycle.visible import settled_facts
from edged.pods.manager import PodManager, PodRecord
from edged.pods.model import HookFacts, PodFacts, PodUid
from edged.pods.phase import FINAL
from edged.pods.status import NodeView, pod_status
from edged.probes.manager import ProbeManager
from edged.report.pods import PodReporter


class Statuses:
    """See the module's docstring.

    Args:
        pods: all of the node.
        working: whether a worker is at the pod with this uid.
        hooks: what is known of its postStart hooks.
        deadlines: waited for as soon as it is known when a pod began.
        publish: takes the pods whenever one changed, for the local HTTP server.
    """

    def __init__(
        self,
        clock: Clock,
        pods: PodManager,
        probes: ProbeManager,
        reporter: PodReporter,
        *,
        working: Callable[[PodUid], bool],
        hooks: Callable[[PodUid], HookFacts],
        deadlines: Deadlines,
        publish: Callable[[tuple[Pod, ...]], None],
    ) -> None:
        self._clock = clock
        self._pods = pods
        self._probes = probes
        self._reporter = reporter
        self._working = working
        self._hooks = hooks
        self._deadlines = deadlines
        self._publish = publish
        self._node = NodeView((), "")

    @property
    def node(self) -> NodeView:
        """What statuses take from the node."""
        return self._node

    def node_changed(self, view: NodeView) -> None:
        """The node has other addresses, or its runtime another name."""
        if view != self._node:
            self._node = view
            for record in self._pods:
                self.recompute(record)

    def recompute(self, record: PodRecord, facts: PodFacts | None = None) -> None:
        """`facts` are those that count; while a worker is at the pod some may not do so yet."""
        uid = record.ref.uid
        working = facts is None and self._working(uid)
        facts = settled_facts(record.pod, facts or record.facts, self._hooks(uid), working=working)
        self._probes.follow(record.pod, facts, going=record.ending)
        if self._can_judge(record):
            status = self._status_of(record, facts)
            if not (working and _concludes(record, status)):
                self._take(record, status)
            self._deadlines.follow(record.pod)
        self.publish()

    def _take(self, record: PodRecord, status: PodStatus) -> None:
        """The reporter hears of each change, and once of a status that was right already when edged began."""
        if self._pods.set_status(record, status) or not self._reporter.has_heard(record.ref.uid):
            self._reporter.report(record.ref.uid, status)

    def publish(self) -> None:
        """Say which pods there are."""
        self._publish(tuple(record.pod for record in self._pods))

    def _can_judge(self, record: PodRecord) -> bool:
        """Whether enough is known for a status, and somebody waits for it.

        Containers that were reported would otherwise count as lost only because nobody has asked the runtime yet (a
        kubelet waits for its PLEG), and have ids without its name. Of a pod that the cloud has deleted nothing is said.
        """
        if record.removed:
            return False
        if record.looked_at:
            return bool(self._node.runtime) or not record.facts.containers
        status = record.pod.status
        return not status.container_statuses and not status.init_container_statuses

    def _status_of(self, record: PodRecord, facts: PodFacts) -> PodStatus:
        return pod_status(
            record.pod,
            facts,
            self._node,
            Nanoseconds(self._clock.now_ns()),
            probes=self._probes.facts(record.ref.uid),
            troubles=record.troubles,
            ended=record.killed,
            verdict=record.verdict,
        )


def _concludes(record: PodRecord, status: PodStatus) -> bool:
    """Whether a status would say that a pod has ended which is not meant to.

    While a worker is at it, that is not to be known: between the end of a container and the start of its successor the
    pod looks as if all of it had ended. (A kubelet computes a status only between two turns of its pod worker.)
    """
    return not record.ending and status.phase in FINAL and record.pod.status.phase not in FINAL
