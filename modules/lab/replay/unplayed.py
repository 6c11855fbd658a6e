"""Steps of a captured edge that no replay can reproduce, with reasons.

An edge acts on the cloud's messages, but also on requests of applications and people at the node, and through modules
of KubeEdge that edgecore does not have.
"""

import re
from collections import Counter
from typing import Final

from beehive.names import Group, ModuleName, Operation, ResourceType
from beehive.resource import Side, type_of
from modules.lab.replay.capture import CapturedMessage, Step

_OF_2019: Final = frozenset({"nodestatus", "podstatus"})
"""Types of resources under which an edge of 2019 reported statuses; since then they are patches."""
_LEASES: Final = "kube-node-lease/"
_RENEWED: Final = 15.0
"""Seconds within which each node has renewed its lease once."""
_NEEDS: Final = re.compile(rb'"(configMap|secret)(?:Ref|KeyRef)?"\s*:\s*\{[^{}]*"(?:name|secretName)"\s*:\s*"([^"]+)"')
"""Configmaps and secrets in the text of a pod. In a projected volume the items may precede the name."""
_OF_A_POD: Final = ("pod", "podpatch")
_GIVES: Final = (Operation.INSERT, Operation.UPDATE)

DEVICES: Final = "devices: what applications at the node reported is in no capture of the link"
RULES: Final = "rules: what callers and applications did is in no capture of the link"
JOBS: Final = "jobs: there is no task manager"
APPLICATIONS: Final = "metaserver: an application at the node asked, which a capture of the link cannot make it do"
STATIC: Final = "static pods: their manifests lie on the node's disk"
EARLIER: Final = "what was under way when the capture began"
STATUSES: Final = "statuses in the form of 2019"


def unplayed(messages: list[CapturedMessage], *, whole: bool) -> dict[str, str]:
    """Return why messages of the captured edge are not expected of ours, by message id.

    Args:
        messages: messages of the capture.
        whole: whether the capture begins with the start of the agent.
    """
    node_pods = _NodePods(messages)
    reasons: dict[str, str] = {}
    answered: dict[str, str] = {}
    for one in messages:
        if one.to_edge:
            node_pods.observe(one)
            answered[one.message.id] = reasons.get(one.message.parent_id, "")
            continue
        reason = answered.get(one.message.parent_id, "") or _reason(one)
        if not reason and not one.message.parent_id:
            reason = node_pods.reason(one, whole=whole)
        if reason:
            reasons[one.message.id] = reason
    return reasons


class _NodePods:
    """The pods that a node has from the cloud, and its static pods."""

    def __init__(self, messages: list[CapturedMessage]) -> None:
        self._given: dict[str, bytes] = {}
        """Pods as the cloud sent them."""
        self._static: set[str] = set()
        self._sent = {one.message.resource for one in messages if one.to_edge}

    def observe(self, one: CapturedMessage) -> None:
        """Note a message from the cloud."""
        pod = _pod_of(one)
        if pod and one.message.operation in _GIVES and pod not in self._static:
            self._given[pod] = one.message.content

    def reason(self, one: CapturedMessage, *, whole: bool) -> str:
        """Return why a message of the edge's own is not expected; empty if it is."""
        pod, resource = _pod_of(one), one.message.resource
        if pod and one.message.operation == Operation.INSERT:
            self._static.add(pod)
        if pod in self._static:
            return STATIC
        if pod and (pod not in self._given or (not whole and not self._has_all(pod))):
            return EARLIER
        if not whole and self._is_under_way(one, resource):
            return EARLIER
        return ""

    def _is_under_way(self, one: CapturedMessage, resource: str) -> bool:
        """Return whether the message continues something from before the capture: the renewal of a lease, the token of
        an older pod.
        """
        namespace = resource.partition("/")[0]
        if type_of(resource, Side.EDGE) == ResourceType.SERVICE_ACCOUNT_TOKEN:
            return not any(pod.startswith(f"{namespace}/") for pod in self._given)
        return resource.startswith(_LEASES) and one.time < _RENEWED

    def _has_all(self, pod: str) -> bool:
        """Return whether the capture has all configmaps and secrets of a pod; otherwise the node had them before."""
        namespace = pod.partition("/")[0]
        needed = _NEEDS.findall(self._given[pod])
        return all(f"{namespace}/{kind.decode().lower()}/{name.decode()}" in self._sent for kind, name in needed)


def summary(messages: list[CapturedMessage], reasons: dict[str, str]) -> dict[str, int]:
    """Return the number of steps by reason."""
    seen: dict[tuple[Step, str], None] = {}
    for one in messages:
        reason = reasons.get(one.message.id) if not one.to_edge else None
        if reason:
            seen.setdefault((one.step, reason))
    return dict(Counter(reason for _, reason in seen))


def unhandled_by_cloud(one: CapturedMessage) -> str:
    """Return why our cloud does not handle a message; empty if it does."""
    if one.to_edge:
        return RULES if one.message.group == Group.USER else ""
    return _reason(one) if _reason(one) in (DEVICES, RULES, JOBS) else ""


def _reason(one: CapturedMessage) -> str:
    message = one.message
    if message.source == ModuleName.DEVICETWIN:
        return DEVICES
    if message.group == Group.USER:
        return RULES
    if message.operation == Operation.NODE_ACTION_STATUS:
        return JOBS
    if message.source == ModuleName.METASERVER:
        return APPLICATIONS
    if type_of(message.resource, Side.EDGE) in _OF_2019:
        return STATUSES
    return ""


def _pod_of(one: CapturedMessage) -> str:
    """Return namespace and name of the pod that a message is about; empty if it is about something else."""
    parts = one.message.resource.split("/")
    return f"{parts[0]}/{parts[2]}" if len(parts) == 3 and parts[1] in _OF_A_POD else ""
