"""Rows of nodes and pods in the tables of a fleet."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from modules.apimachinery.printing.fields import JsonObject, map_at, objects_at, text_at, value_at
from modules.apimachinery.printing.pods import pod_status, pod_summary
from modules.insight.ends import end_of
from modules.insight.fleet.states import CHANGING, UNLINKED, NodeLinkState

ZONE: Final = "topology.kubernetes.io/zone"
_EVERYWHERE: Final = {
    "kubernetes.io/arch", "kubernetes.io/hostname", "kubernetes.io/os", "beta.kubernetes.io/arch",
    "beta.kubernetes.io/os", ZONE,
}  # fmt: skip
"""Labels that a node sets by itself, or that have a field of their own."""
_MOST_LABELS: Final = 32
_DAY: Final = 86_400.0
_RUNS: Final = ("Running", "Completed", "Succeeded")
LONGEST: Final = 500
"""Characters of a text of a node or a pod: a table of all needs no more, and a hostile one sends megabytes."""
_LAST_END: Final = "lastState.terminated"
_CLOCK: Final = 60
"""A clock that is wrong by so many seconds is called so: a message takes its time."""
_LONGEST_WHY: Final = 200
"""Characters of why a pod does not run, in a table."""
_MOST_GAPS: Final = 60
"""Gaps of a row's strip; a link that flickers more often is drawn from its longest ones."""


class FleetPodRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """A pod in a table."""

    namespace: str
    name: str
    node: str
    status: str
    """The status as kubectl prints it: `Running`, `CrashLoopBackOff`, …; of a pod that has failed its reason."""
    ready: str
    """Ready and all containers: `1/2`."""
    restarts: int = 0
    owner: str = ""
    """Kind and name of its controller, of a Deployment rather than its ReplicaSet."""
    created: str = ""
    image: str = ""
    """Of its first container."""
    is_troubled: bool = False
    """Whether it does not run, or not all of its containers are ready."""
    why: str = ""
    """What its status has about that."""

    @property
    def key(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}/{self.name}"


class NodeRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """A node in a table. Times are seconds since 1970."""

    name: str
    state: str
    since: float = 0.0
    reason: str = ""
    zone: str = ""
    ready: int = 0
    """Pods that run, as the node has reported last."""
    pods: int = 0
    waiting: int = 0
    """Messages that the node has not acknowledged, and the messages that wait behind them."""
    oldest: float = 0.0
    """When the oldest unacknowledged message was sent."""
    version: str = ""
    architecture: str = ""
    certificate_ends: float = 0.0
    """0 without TLS."""
    address: str = ""
    cloudcore: str = ""
    """The cloudcore that has, or had, its newest connection."""
    last_word: str = ""
    """Its last error, or why its last connection ended."""
    is_cordoned: bool = False
    labels: tuple[str, ...] = ()
    """KEY=VALUE, without those that every node has."""
    marks: tuple[str, ...] = ()
    """Pressures, and what else stands beside the state."""
    gaps: tuple[tuple[float, float], ...] = ()
    """When it had no connection in the last 24 hours: beginning and end, 0 for a connection that lasts."""
    clock_ahead: int = 0
    """Seconds that its clock is ahead of cloudcore's, negative if it is behind; 0 if that is less than a minute."""
    first_seen: float = 0.0
    """The beginning of its oldest connection in the last 24 hours, or of the Node; before that nothing is known."""

    @property
    def is_changing(self) -> bool:
        """Whether a job of the cloud may be starting it again now."""
        return self.reason.startswith(CHANGING)


class PodCount(NamedTuple):
    """The number of pods that are bound to a node, and how many of these run."""

    bound: int = 0
    ready: int = 0


class LinkRow(msgspec.Struct, frozen=True):
    """The part of a row about a node's connection, or its last one. Times are seconds since 1970."""

    waiting: int = 0
    oldest: float = 0.0
    certificate_ends: float = 0.0
    address: str = ""
    cloudcore: str = ""
    last_word: str = ""
    clock_ahead: int = 0
    sessions: Sequence[tuple[float, float]] = ()
    """Beginning and end of each connection of the last 24 hours, 0 for a connection that lasts."""


def linked_names(rows: Iterable[NodeRow]) -> set[str]:
    """Return the names of the nodes that have a connection."""
    return {each.name for each in rows if each.state not in UNLINKED}


def pod_row(pod: JsonObject) -> FleetPodRow:
    """Return the row of a pod."""
    summary, status, phase = pod_summary(pod), pod_status(pod), text_at(pod, "status.phase")
    if phase == "Failed":  # kubectl names the state of a container that was asked to end, or was never made
        status = text_at(pod, "status.reason") or (phase if status in _RUNS else status)
    is_troubled = phase != "Succeeded" and (status not in _RUNS or summary.ready < summary.containers)
    containers = objects_at(pod, "spec.containers")
    return FleetPodRow(
        namespace=text_at(pod, "metadata.namespace"),
        name=text_at(pod, "metadata.name"),
        node=text_at(pod, "spec.nodeName"),
        status=status[:LONGEST],
        ready=f"{summary.ready}/{summary.containers}",
        restarts=summary.restarts,
        owner=owner_of(pod),
        created=text_at(pod, "metadata.creationTimestamp"),
        image=text_at(containers[0], "image")[:LONGEST] if containers else "",
        is_troubled=is_troubled,
        why=_why(pod) if is_troubled else "",
    )


def _why(pod: JsonObject) -> str:
    """Return the reason in a pod's status why it does not run, on one line; empty without one."""
    found = [text_at(pod, "status.message")]
    for each in (*objects_at(pod, "status.initContainerStatuses"), *objects_at(pod, "status.containerStatuses")):
        said = text_at(each, "state.waiting.message")
        if text_at(each, "state.waiting.reason") == "CrashLoopBackOff" and text_at(each, f"{_LAST_END}.exitCode"):
            said = f"container {text_at(each, 'name')} {end_of(each, _LAST_END)}"
        found.append(said.partition(": ErrImagePull: ")[2] or said)
    found += [text_at(each, "message") for each in objects_at(pod, "status.conditions") if _is_unscheduled(each)]
    text = " ".join(next((each for each in found if each), "").split())
    return text if len(text) <= _LONGEST_WHY else f"{text[: _LONGEST_WHY - 1]}…"


def _is_unscheduled(condition: JsonObject) -> bool:
    return condition.get("type") == "PodScheduled" and condition.get("status") == "False"


def clock_error(ahead: float) -> int:
    """Return by how many seconds a clock is ahead, in whole minutes, negative if it is behind; 0 if it is right."""
    return round(ahead / _CLOCK) * _CLOCK if abs(ahead) >= _CLOCK else 0


def owner_of(pod: JsonObject) -> str:
    """Return kind and name of a pod's controller; a ReplicaSet's Deployment, which its name begins with."""
    for owner in objects_at(pod, "metadata.ownerReferences"):
        if owner.get("controller") is True:
            kind, name = text_at(owner, "kind"), text_at(owner, "name")
            hashed = text_at(pod, "metadata.labels.pod-template-hash")
            if kind == "ReplicaSet" and hashed and name.endswith(f"-{hashed}"):
                return f"Deployment {name.removesuffix(f'-{hashed}')}"
            return f"{kind} {name}"
    return ""


def marks_of(node: JsonObject) -> tuple[str, ...]:
    """Return the text beside a node's state: its pressures."""
    pressed = [
        str(each["type"])[:LONGEST]
        for each in objects_at(node, "status.conditions")
        if str(each.get("type", "")).endswith(("Pressure", "Unavailable")) and each.get("status") == "True"
    ]
    return tuple(pressed[:8])


def gaps_of(
    sessions: Sequence[tuple[float, float]], now: float, seconds: float = _DAY
) -> tuple[tuple[float, float], ...]:
    """Return when there was no connection in the last 24 hours, from the first one on; a gap may have begun before.

    Args:
        sessions: beginning and end of each connection, 0 for a connection that lasts; in any order.
        now: seconds since 1970.
        seconds: another time than 24 hours.
    """
    gaps: list[tuple[float, float]] = []
    covered = 0.0
    for began, ended in sorted(sessions):
        if covered and began > covered and began > now - seconds:
            gaps.append((covered, began))
        covered = max(covered, ended or now)
    if covered and covered < now:
        gaps.append((covered, 0.0))
    if len(gaps) > _MOST_GAPS:
        longest = sorted(gaps, key=lambda gap: (gap[1] or now) - gap[0], reverse=True)[:_MOST_GAPS]
        gaps = sorted(longest)
    return tuple(gaps)


def own_labels(labels: Mapping[str, Any]) -> dict[str, str]:
    """Return the labels of a node that tell it apart, `_MOST_LABELS` at most."""
    own = sorted((key, str(value)[:LONGEST]) for key, value in labels.items() if key not in _EVERYWHERE)
    return dict(own[:_MOST_LABELS])


def node_row(
    name: str, node: JsonObject | None, state: NodeLinkState, pods: PodCount, link: LinkRow, now: float
) -> NodeRow:
    """Return the row of a node.

    Args:
        name: its name.
        node: the Node; None if it has not registered.
        state: of its link.
        pods: the pods bound to it.
        link: its connection, or the known facts of the last one.
        now: seconds since 1970.
    """
    found = node or {}
    return NodeRow(
        name=name,
        state=state.word,
        since=round(state.since, 3),
        reason=state.reason[:LONGEST],
        zone=str(map_at(found, "metadata.labels").get(ZONE) or ""),
        ready=pods.ready,
        pods=pods.bound,
        version=text_at(found, "status.nodeInfo.kubeletVersion")[:LONGEST],
        architecture=text_at(found, "status.nodeInfo.architecture")[:LONGEST],
        is_cordoned=value_at(found, "spec.unschedulable") is True,
        labels=tuple(f"{key}={value}" for key, value in own_labels(map_at(found, "metadata.labels")).items()),
        marks=marks_of(found),
        waiting=link.waiting,
        oldest=link.oldest,
        certificate_ends=link.certificate_ends,
        address=link.address,
        cloudcore=link.cloudcore,
        last_word=link.last_word[:LONGEST],
        clock_ahead=link.clock_ahead,
        gaps=gaps_of(link.sessions, now),
        first_seen=min((began for began, _ in link.sessions), default=0.0),
    )
