"""A request for the Node object before a pod is rejected because of it."""

from edged.admission.admit import refusal_by_node
from edged.admission.admitter import PodAdmitter
from edged.api import Pod
from edged.node.reporter import NodeReporter
from edged.pods.labels import ref_of
from edged.pods.manager import PodManager
from edged.pods.model import PodUid
from edged.pods.static import is_static
from edged.sync_channel import PodReleased, SyncChannel


class NodeRecheck:
    """Holds a pod that the known labels or taints of the node keep out until the cloud has sent the Node object.

    KubeEdge's cloud sends nodes and pods from two loops: a label that was just set, and for which the scheduler placed
    a pod here, may arrive after that pod, and a pod that is rejected is rejected for good. Lives on the edged module's
    thread.

    Args:
        pods: keeps the pods that are held.
        admitter: checks a pod against the node's labels and taints.
        node_reporter: requests the Node object.
        channel: takes a pod when the cloud has answered, or does not.
    """

    def __init__(
        self, pods: PodManager, admitter: PodAdmitter, node_reporter: NodeReporter, channel: SyncChannel
    ) -> None:
        self._pods = pods
        self._admitter = admitter
        self._node_reporter = node_reporter
        self._channel = channel
        self._requested: dict[PodUid, bool] = {}
        """Pods for which the Node object is requested, and whether the cloud has answered."""

    def holds_back(self, pod: Pod) -> bool:
        """Return whether a new pod has to wait. It is released later in its newest form, unless it is deleted."""
        uid = ref_of(pod).uid
        if uid not in self._requested:
            doubtful = not is_static(pod) and refusal_by_node(pod, self._admitter.node_info()) is not None
            if not doubtful or not self._node_reporter.request_node(lambda: self._answered(uid)):
                return False
            self._requested[uid] = False
        if self._requested[uid]:
            return False
        self._pods.hold(pod)
        return True

    def _answered(self, uid: PodUid) -> None:
        pod = self._pods.release(uid)
        self._requested[uid] = True
        if pod is not None:
            self._channel.send(PodReleased(pod))
        del self._requested[uid]
