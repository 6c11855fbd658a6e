"""The module taskmanager: answers the jobs of KubeEdge's cloud, in the forms of its two APIs.

KubeEdge's cloud writes the answers into the job's status (its `pkg/nodetask` for v1alpha2,
`edge/pkg/taskmanager/v1alpha1`). A job without an answer stays without a status, or ends by its time-out.
"""

import logging
import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from beehive import Group, Message, Module, ModuleName, handles
from beehive.errors import BeehiveError
from beehive.names import Operation
from modules.apimachinery.types import Nanoseconds, format_time

REASON: Final = "this node takes no jobs: edgecore, its configuration and its images are managed on the node"
_NAME: Final = r"[A-Za-z0-9._-]{1,253}"
_JOB: Final = re.compile(
    rf"operations\.kubeedge\.io/v1alpha2/(?:nodeupgradejob|imageprepulljob|configupdatejob)/{_NAME}/node/(?P<node>{_NAME})"
)
_TASK: Final = re.compile(rf"(?:task|upgrade|prepull)/(?P<task>{_NAME})/node/(?P<node>{_NAME})")
_TASK_OPERATIONS: Final = ("upgrade", "prepull")
_ACTION: Final = re.compile(r"[A-Za-z]{1,32}")
_EVENTS: Final = {"Checking": "Check", "BackingUp": "Backup", "Upgrading": "Upgrade", "Pulling": "Pull"}
"""Of v1alpha1, the event that ends a state; another state's is `Init`."""


class JobAnswer(msgspec.Struct, frozen=True):
    """The answer to a job."""

    resource: str
    operation: str
    content: dict[str, Any]


def refusal_of(resource: str, operation: str, content: object, node: str, time: str) -> JobAnswer | None:
    """Return the answer to a message of KubeEdge's taskmanager; None if it is no job of this node.

    Args:
        resource: of the message.
        operation: of the message; in v1alpha2 the first action, `Check`.
        content: of the message; v1alpha1 has the task's state in it.
        node: name of this node.
        time: of the answer, as metav1.Time. KubeEdge's cloud lets no job time out whose answer has no time.
    """
    job = _JOB.fullmatch(resource)
    if job is not None and job["node"] == node and _ACTION.fullmatch(operation):
        status = {"action": operation, "succ": False, "finishTime": time, "reason": REASON, "extend": ""}
        return JobAnswer(resource, Operation.NODE_ACTION_STATUS, status)
    task = _TASK.fullmatch(resource)
    if task is None or task["node"] != node or operation not in _TASK_OPERATIONS:
        return None
    state = content.get("State") if isinstance(content, Mapping) else None
    event = _EVENTS.get(state, "Init") if isinstance(state, str) else "Init"
    answer = {
        "NodeName": node, "State": "", "Event": event, "Action": "Failure", "Reason": REASON, "Time": time,
        "ExternalMessage": "",
    }  # fmt: skip
    return JobAnswer(f"task/{task['task']}/node/{node}", operation, answer)


_log = logging.getLogger(__name__)


class TaskManager(Module):
    """Refuses jobs of KubeEdge's cloud, so that their statuses say why this node does not carry them out.

    It belongs to no group: edgehub sends it jobs by its name, and it needs no events of the connection.

    Args:
        node: name of this node; jobs of others are ignored.
    """

    name = ModuleName.TASKMANAGER

    def __init__(self, node: str) -> None:
        super().__init__()
        self._node = node

    @handles(None, source=ModuleName.TASKMANAGER)
    def on_job(self, message: Message) -> None:
        """Answer a job with a failure."""
        try:
            content: Any = message.content_as(Any)
        except BeehiveError:
            content = None
        route, now = message.route, format_time(Nanoseconds(self.clock.now_ns()))
        refusal = refusal_of(route.resource, route.operation, content, self._node, now)
        if refusal is None:
            _log.debug("not a job of this node: %s %s", route.operation[:50], route.resource[:200])
            return
        _log.info("job refused: %s", route.resource)
        answer = self.message(
            refusal.resource, refusal.operation, refusal.content, source=ModuleName.EDGEHUB, group=Group.HUB
        )
        self.send(ModuleName.EDGEHUB, answer)

    @handles()
    def ignore(self, message: Message) -> None:
        """Ignore other messages."""
        _log.debug("not a job: %s %s", message.route.operation[:50], message.route.resource[:200])
