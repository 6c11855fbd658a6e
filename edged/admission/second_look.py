"""Asks the cloud how the Node object is before a pod is refused because of it.

KubeEdge's cloud sends nodes and pods from two loops: a label that somebody has just set, and for which the scheduler
has placed a pod here, may come behind that pod, and a pod that is refused is refused for good. So a pod that the known
labels or taints keep out is held until the cloud has said how they are now, or does not.

Lives on the edged module's thread.
"""

from collections.abc import Callable

from edged.admission.admit import Place, refusal_by_node
from edged.api import Pod
from edged.pods.labels import ref_of
from edged.pods.manager import PodManager
from edged.pods.model import PodUid
from edged.static_pods.manifest import is_static

Ask = Callable[[Callable[[], None]], bool]
"""Asks the cloud for the Node object, and calls back when it has answered or does not; False: it cannot be asked."""


class SecondLook:
    """See the module's docstring.

    Args:
        pods: hold what waits.
        place: what a new pod finds on this node.
        ask: see there.
        take: takes a pod when the cloud has been asked.
    """

    def __init__(self, pods: PodManager, place: Callable[[], Place], ask: Ask, take: Callable[[Pod], None]) -> None:
        self._pods = pods
        self._place = place
        self._ask = ask
        self._take = take
        self._asked: dict[PodUid, bool] = {}
        """Pods for which the cloud is asked, and whether it has answered."""

    def holds(self, pod: Pod) -> bool:
        """Whether a new pod has to wait: it is taken later, in its newest state, unless it is deleted before."""
        uid = ref_of(pod).uid
        if uid not in self._asked:
            doubtful = not is_static(pod) and refusal_by_node(pod, self._place()) is not None
            if not doubtful or not self._ask(lambda: self._answered(uid)):
                return False
            self._asked[uid] = False
        if self._asked[uid]:
            return False
        self._pods.hold(pod)
        return True

    def _answered(self, uid: PodUid) -> None:
        pod = self._pods.release(uid)
        self._asked[uid] = True
        if pod is not None:
            self._take(pod)
        del self._asked[uid]
