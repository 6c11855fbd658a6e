"""Invariants of deleted pods."""

from collections.abc import Iterable

import msgspec

from beehive.message import Message
from beehive.names import Operation
from edged.pods import labels
from modules.lab.simulate.world import World
from protos.cri.v1 import api_pb2 as pb

_SOON = 120.0
"""Seconds after a deletion within which a start that was under way may still complete."""


class _Preconditions(msgspec.Struct):
    uid: str = ""


class _Options(msgspec.Struct):
    preconditions: _Preconditions = msgspec.field(default_factory=_Preconditions)


class EndedWatch:
    """The check that nothing runs of a pod when its node reports the pod gone, nor later.

    Args:
        world: collects violations.
        node: node of the pods.
    """

    def __init__(self, world: World, node: str) -> None:
        self._world = world
        self._node = node
        self._gone: dict[str, float] = {}
        """Times of the node's acknowledgements of deletions, by uid."""

    def sent_up(self, message: Message, containers: Iterable[pb.ContainerStatus]) -> None:
        """Check a message of the node: if it deletes a pod for good, no container of the pod may run."""
        if message.route.operation != Operation.DELETE or "/pod/" not in message.route.resource:
            return
        uid = message.content_as(_Options).preconditions.uid
        for container in containers:
            if container.labels[labels.POD_UID] == uid and container.state == pb.CONTAINER_RUNNING:
                text = f"{message.route.resource} ({uid[:8]}) is said to be gone, and {container.metadata.name} runs"
                self._violated("nothing that the cloud believes gone is running", text)

    def deletion_acknowledged(self, uid: str) -> None:
        """Note that the node has acknowledged a pod's deletion."""
        self._gone.setdefault(uid, self._world.now())

    def forget(self) -> None:
        """Forget all deletions: cloud or store have lost their data, so deleted pods may come back."""
        self._gone.clear()

    def starts(self, uid: str, what: str) -> None:
        """Check the start of a pod's sandbox or container."""
        gone = self._gone.get(uid)
        if gone is not None and self._world.now() > gone + _SOON:
            self._violated("what was deleted does not come back", f"{what} of ({uid[:8]}), deleted at {gone:.0f} s")

    def _violated(self, invariant: str, text: str) -> None:
        self._world.violated(invariant, f"{self._node}: {text}")
