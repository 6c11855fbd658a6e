"""Checks of the messages that the cloud sends a node: none is repeated, and a pod's deletion is not too late."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from beehive import decode
from beehive.names import Operation
from modules.lab.simulate.world import World

_CHANGES: Final = (Operation.INSERT, Operation.UPDATE, Operation.DELETE)
_OF_GROUPS: Final = ("/endpointslice/", "/endpoints/")
"""Kinds that a node is sent again in their present version: which endpoints it has depends on its group, and when that
changes, cloudcore does not know which it had.
"""
_PODS: Final = "/pod/"
_REMEMBERED: Final = 2000


class _Metadata(msgspec.Struct, rename="camel"):
    uid: str = ""
    resource_version: str = ""


class _Head(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


class _Sent(NamedTuple):
    """A state of an object, or its deletion."""

    resource: str
    uid: str
    version: str
    is_delete: bool


class RepetitionWatch:
    """The check that the newest state of an object is not sent again over a connection on which the node has
    acknowledged it. An older one may come again: an object that the node needs no more is deleted there, and sent when
    it needs it.

    Over another connection it may be sent again: the cloud may have ended before the acknowledgement was durable.

    And the check that the deletion of a pod comes before the next pod of its name, unless the cloud has lost records.

    Args:
        world: collects violations.
        node: at the other end of the connection.
        has_lost: returns whether the cloud has ever lost its records of the node.
    """

    def __init__(self, world: World, node: str, has_lost: Callable[[], bool]) -> None:
        self._world = world
        self._node = node
        self._has_lost = has_lost
        self._open: OrderedDict[str, _Sent] = OrderedDict()
        """What may still be acknowledged, by message id."""
        self._last: dict[str, _Sent] = {}
        """What was sent last of each object."""
        self._deleted = set[str]()
        """The uids of the pods whose deletion was sent; it may be repeated."""
        self._acknowledged: dict[str, tuple[_Sent, float]] = {}
        """What the node has acknowledged of it, and when the cloud got that."""

    def sent(self, frame: bytes) -> None:
        """Note a frame of the cloud."""
        message = decode(frame)
        operation, resource = message.route.operation, message.route.resource
        if operation not in _CHANGES or any(kind in resource for kind in _OF_GROUPS):
            return
        metadata = message.content_as(_Head).metadata
        state = _Sent(resource, metadata.uid, metadata.resource_version, operation == Operation.DELETE)
        acknowledged, at = self._acknowledged.get(resource, (None, 0.0))
        is_known = at < self._world.now()  # else the acknowledgement may wait for cloudhub
        if not state.is_delete and is_known and state == self._last.get(resource) == acknowledged:
            text = f"{self._node}: version {state.version} of {resource}"
            self._world.violated("what is acknowledged is not sent again", text)
        if state.is_delete and _PODS in resource:
            self._check_order(state, self._last.get(resource))
        self._last[resource] = self._open[message.id] = state
        if len(self._open) > _REMEMBERED:
            self._open.popitem(last=False)

    def _check_order(self, deletion: _Sent, last: _Sent | None) -> None:
        is_repeated, is_next = deletion.uid in self._deleted, last is not None and last.uid != deletion.uid
        self._deleted.add(deletion.uid)
        if is_next and last is not None and not (last.is_delete or is_repeated or self._has_lost()):
            what = f"deletion of {last.resource} ({deletion.uid[:8]}) after version {last.version} of the next"
            self._world.violated("a pod is deleted before the next of its name comes", f"{self._node}: {what}")

    def handled(self, frame: bytes) -> None:
        """Note a frame of the node that has reached cloudhub."""
        message = decode(frame)
        state = self._open.get(message.parent_id) if message.route.operation == Operation.RESPONSE else None
        if state is not None:
            self._acknowledged[state.resource] = state, self._world.now()
