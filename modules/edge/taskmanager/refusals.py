"""The answers to tasks of KubeEdge's older API (v1alpha1), which this node does not carry out.

KubeEdge's cloud writes them into the job's status (its `edge/pkg/taskmanager/v1alpha1`). A task without an answer stays
without a status, or ends by its time-out.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from beehive.patterns import pattern

REASON: Final = "this node takes no jobs of v1alpha1: use v1alpha2 (KubeEdge's feature gate disableNodeTaskV1alpha2)"
_NAME: Final = r"[A-Za-z0-9._-]{1,253}"
_TASK: Final = pattern(rf"(?:task|upgrade|prepull)/(?P<task>{_NAME})/node/(?P<node>{_NAME})")
_OPERATIONS: Final = ("upgrade", "prepull")
_EVENTS: Final = {"Checking": "Check", "BackingUp": "Backup", "Upgrading": "Upgrade", "Pulling": "Pull"}
"""The event that ends a state; another state's is `Init`."""


class TaskRefusal(msgspec.Struct, frozen=True):
    """The answer to a task; its operation is the task's."""

    resource: str
    content: dict[str, Any]


def refusal_of(resource: str, operation: str, content: object, node: str, time: str) -> TaskRefusal | None:
    """Return the answer to a message of v1alpha1; None if it is no task of this node.

    Args:
        resource: of the message.
        operation: of the message.
        content: of the message; it has the task's state.
        node: name of this node.
        time: of the answer, as metav1.Time. KubeEdge's cloud lets no job time out whose answer has no time.
    """
    task = _TASK.fullmatch(resource)
    if task is None or task["node"] != node or operation not in _OPERATIONS:
        return None
    state = content.get("State") if isinstance(content, Mapping) else None
    event = _EVENTS.get(state, "Init") if isinstance(state, str) else "Init"
    answer = {
        "NodeName": node, "State": "", "Event": event, "Action": "Failure", "Reason": REASON, "Time": time,
        "ExternalMessage": "",
    }  # fmt: skip
    return TaskRefusal(f"task/{task['task']}/node/{node}", answer)
