"""What must hold of pods that are gone: nothing runs of one when its node says so, nor later."""

from collections.abc import Iterable

import msgspec

from beehive.message import Message
from beehive.names import Operation
from edged.pods import labels
from modules.simulate.world import World
from protos.cri.v1 import api_pb2 as pb

_SOON = 120.0
"""Seconds after its deletion was taken in which a start that was under way may still come to its end."""


class _Preconditions(msgspec.Struct):
    uid: str = ""


class _Options(msgspec.Struct):
    preconditions: _Preconditions = msgspec.field(default_factory=_Preconditions)


class EndedWatch:
    """See the module's docstring.

    Args:
        world: takes violations.
        node: whose pods they are.
    """

    def __init__(self, world: World, node: str) -> None:
        self._world = world
        self._node = node
        self._gone: dict[str, float] = {}
        """By uid, when the node took the deletion."""

    def sent_up(self, message: Message, containers: Iterable[pb.ContainerStatus]) -> None:
        """A message leaves the node. That a pod is to be deleted for good says that nothing runs of it any more."""
        if message.route.operation != Operation.DELETE or "/pod/" not in message.route.resource:
            return
        uid = message.content_as(_Options).preconditions.uid
        for container in containers:
            if container.labels[labels.POD_UID] == uid and container.state == pb.CONTAINER_RUNNING:
                text = f"{message.route.resource} ({uid[:8]}) is said to be gone, and {container.metadata.name} runs"
                self._violated("nothing that the cloud believes gone is running", text)

    def deletion_taken(self, uid: str) -> None:
        """The node has acknowledged the cloud's deletion of a pod."""
        self._gone.setdefault(uid, self._world.now())

    def forget(self) -> None:
        """The cloud or the store have lost their memory: what was deleted may be wanted."""
        self._gone.clear()

    def starts(self, uid: str, what: str) -> None:
        """Something of a pod is about to run."""
        gone = self._gone.get(uid)
        if gone is not None and self._world.now() > gone + _SOON:
            self._violated("what was deleted does not come back", f"{what} of ({uid[:8]}), deleted at {gone:.0f} s")

    def _violated(self, invariant: str, text: str) -> None:
        self._world.violated(invariant, f"{self._node}: {text}")
