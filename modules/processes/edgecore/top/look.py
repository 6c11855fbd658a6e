"""The result of one look at the node: answers of its owner's socket, read leniently. Pure."""

from typing import NamedTuple

from beehive.decoding import decode_json
from edged.stats.model import PodStats, Summary
from modules.apimachinery.printing.fields import JsonObject, objects_at
from modules.processes.edgecore.top.state import AgentState


class RootDisk(NamedTuple):
    """The file system of the node's root directory, in bytes."""

    used: int
    total: int


class NodeSnapshot(NamedTuple):
    """The answers of one moment."""

    state: AgentState
    pods: tuple[JsonObject, ...]
    usage: Summary | None = None
    """None when the node has no statistics (yet)."""
    disk: RootDisk | None = None

    def usage_by_uid(self) -> dict[str, PodStats]:
        """Return the usage of the pods, by uid."""
        return {} if self.usage is None else {pod.pod_ref.uid: pod for pod in self.usage.pods}


class Unreachable(NamedTuple):
    """The node did not answer."""

    why: str
    """One line: the problem, with advice if there is any."""


def pods_in(answer: bytes) -> tuple[JsonObject, ...]:
    """Return the pods of a list.

    Raises:
        msgspec.DecodeError: it is no JSON object.
    """
    return tuple(objects_at(decode_json(answer, dict), "items"))
