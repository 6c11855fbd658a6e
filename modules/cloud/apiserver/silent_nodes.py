"""How long pods stay on a node that does not answer.

Such a node has Kubernetes' taints. It may be working behind a broken link, so that pods stay, and may be bound to it,
unless the pod or the node says otherwise. The 300 seconds that an API server gives every pod say nothing: nobody has
chosen them, and manifests that were read from a cluster have them too.
"""

import math
from collections.abc import Iterable
from typing import Final

from modules.apimachinery.go_durations import UNIT_NANOSECONDS, read_duration
from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.pods.tolerations import NO_EXECUTE, tolerates
from modules.apimachinery.types import Taint
from modules.apimachinery.types.pods import Toleration
from modules.cloud.authorization.node_metadata import EVICT_AFTER

UNREACHABLE: Final = "node.kubernetes.io/unreachable"
"""The key of the taints of a node that does not answer; their effects are NoSchedule and NoExecute."""
TOLERATION_SECONDS: Final = 300
"""kube-apiserver's `--default-not-ready-toleration-seconds` and `--default-unreachable-toleration-seconds`."""
_TAINT: Final = Taint(key=UNREACHABLE, effect=NO_EXECUTE)


def pod_stays_for(tolerations: Iterable[Toleration]) -> float | None:
    """Return the seconds of silence that a pod with these tolerations has chosen; infinity for ever, None if it leaves
    the choice to its node.
    """
    used = next((one for one in tolerations if tolerates(_TAINT, (one,))), None)
    if used is None or used.toleration_seconds == TOLERATION_SECONDS:
        return None
    return math.inf if used.toleration_seconds is None else float(max(0, used.toleration_seconds))


def pods_stay_for(node: JsonObject) -> float:
    """Return the seconds of silence that a Node's annotation allows; infinity without one."""
    given = node["metadata"].get("annotations") or {}
    try:
        silence = read_duration(str(next((given[name] for name in EVICT_AFTER if name in given), "")))
    except ValueError:
        return math.inf
    return math.inf if silence < 0 else silence / UNIT_NANOSECONDS["s"]
