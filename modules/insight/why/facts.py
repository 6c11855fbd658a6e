"""The facts about a pod that an answer is made of, and how they are read. Nothing of a node or a pod is believed."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Final

import msgspec

from edged.chains.model import ChainStep
from modules.apimachinery.printing.fields import JsonObject, objects_at, text_at
from modules.insight.fleet.rows import NodeRow
from modules.insight.why.references import Missing

NEVER_BEGAN: Final = ("StartError", "ContainerCannotRun")
"""Reasons of an end without a log: the program was never run."""


class NodeChain(msgspec.Struct, frozen=True):
    """The steps of a pod that its node has kept; keys that are not here are ignored. Text of a node is cut and escaped
    before it is shown.
    """

    uid: str
    steps: Annotated[list[ChainStep], msgspec.Meta(max_length=256)] = []
    left_out: int = 0


class StoredCount(msgspec.Struct, frozen=True):
    """Number of nodes that are to have an object, and of those that have stored it; -1 if that is not known."""

    holders: int = 0
    acknowledged: int = 0


class StoredCounts(msgspec.Struct, frozen=True):
    """The changes of an object in cloudcore's journal, the newest first."""

    writes: list[StoredCount] = []


class LastLines(msgspec.Struct, frozen=True):
    """The last lines that a container has written before it ended."""

    container: str
    lines: list[str]


class PodFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The known facts about a pod."""

    pod: JsonObject
    now: float
    """Seconds since the epoch."""
    program: str
    """The command that the remedies name: `cloudcore` or `edgecore`."""
    node: JsonObject | None = None
    """The Node of the pod; None if it does not exist, or was not looked up."""
    is_node_missing: bool = False
    """Whether the pod is bound to a Node that does not exist."""
    link: NodeRow | None = None
    """The row of the node, with its link; None if what cloudcore knows of links cannot be read."""
    heard: str = ""
    """When the Lease of a node that is away was renewed last (RFC 3339), without `link`."""
    remarks: Sequence[str] = ()
    """Notes about the answer as a whole."""
    is_stored: bool | None = None
    """Whether its node has confirmed that it has the pod; None if that is not known."""
    port_holders: Sequence[str] = ()
    """The pods, with their nodes, that have a port which a pod without a node waits for."""
    missing: Sequence[Missing] = ()
    """Objects that the pod needs and that do not exist."""
    unread: Sequence[str] = ()
    """Objects that could not be looked up, with the reason: nothing is known of them."""
    events: Sequence[JsonObject] = ()
    """The Events about the pod, the newest last."""
    chain: NodeChain | None = None
    """The steps that the pod's node has kept; None if they are not known."""
    last_lines: LastLines | None = None
    """The end of the log of the container that ended badly last."""


def statuses(pod: JsonObject) -> list[JsonObject]:
    """Return the statuses of init containers and containers."""
    return [*objects_at(pod, "status.initContainerStatuses"), *objects_at(pod, "status.containerStatuses")]


def condition(obj: JsonObject, kind: str) -> JsonObject:
    """Return a condition of an object; an empty one without it."""
    return next((each for each in objects_at(obj, "status.conditions") if each.get("type") == kind), {})


def rfc3339(seconds: float) -> str:
    """Return a time in seconds since 1970 as a time of the API; empty if there is no such time."""
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return ""


NO_PORTS: Final = "free ports"
"""In the scheduler's reason where other pods have the ports of a pod."""


def host_ports(pod: JsonObject) -> list[tuple[str, str]]:
    """Return numbers and protocols of the ports of its node that a pod asks for."""
    return [
        (text_at(port, "hostPort"), text_at(port, "protocol") or "TCP")
        for kind in ("initContainers", "containers")
        for each in objects_at(pod, f"spec.{kind}")
        for port in objects_at(each, "ports")
        if port.get("hostPort")
    ]


def port_holders(pod: JsonObject, others: Sequence[JsonObject]) -> list[str]:
    """Return the pods on nodes that have one of the ports which a pod asks for, each with its node."""
    wanted = {*host_ports(pod)}
    return [
        f"{text_at(each, 'metadata.namespace')}/{text_at(each, 'metadata.name')} on {text_at(each, 'spec.nodeName')}"
        for each in others
        if text_at(each, "spec.nodeName")
        and text_at(each, "status.phase") not in ("Succeeded", "Failed")
        and not wanted.isdisjoint(host_ports(each))
    ]
