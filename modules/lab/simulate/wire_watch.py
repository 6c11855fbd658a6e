"""Invariants of the messages that a node acknowledges."""

import sqlite3
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from beehive import Message, decode
from beehive.names import Operation, ResourceType
from beehive.whole_numbers import whole_number
from metamanager.cloud_pods import is_gone
from metamanager.unreferenced import UNUSED
from modules.lab.simulate.disk import DATABASE
from modules.lab.simulate.ended_watch import EndedWatch
from modules.lab.simulate.world import World
from protos.cri.v1 import api_pb2 as pb

_OBJECTS = ("/pod/", "/configmap/", "/secret/")
_CHANGES = (Operation.INSERT, Operation.UPDATE, Operation.DELETE)
_LISTED = Operation.APPLICATION_RESPONSE
"""Operation of the answer to a node's list of all its pods to metamanager."""
_REMEMBERED = 2000


class _Metadata(msgspec.Struct, rename="camel"):
    uid: str = ""
    resource_version: str = "0"


class _Head(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


class ReceivedChange(msgspec.Struct, frozen=True):
    """A change of an object that reached the node."""

    number: int
    key: str
    uid: str
    version: int
    is_delete: bool

    def __str__(self) -> str:
        what = "deletion" if self.is_delete else f"version {self.version}"
        return f"{what} of {self.key} ({self.uid[:8]})"


class WireWatch:
    """The check that after any crash the store has every acknowledged change, or a newer one.

    A configmap or secret may be missing if the store's history shows that no pod used it (`metamanager.unreferenced`).

    Args:
        world: collects violations.
        node: node of the line.
        ended: receives deletions.
        containers: containers of the node, by id.
    """

    def __init__(
        self, world: World, node: str, ended: EndedWatch, containers: Mapping[Any, pb.ContainerStatus]
    ) -> None:
        self._world = world
        self._node = node
        self._ended = ended
        self._containers = containers
        self.lists_are_newer = False
        """Whether the answer to a node's list may be newer than the objects that the node is sent, as with a cluster: a
        pod that the list lacks is gone.
        """
        self.has_forgotten = False
        """Whether the cloud or the store has ever lost data."""
        self._numbers = 0
        self._open: OrderedDict[str, ReceivedChange] = OrderedDict()
        """Changes that may still be acknowledged, by message id."""
        self._acknowledged: dict[str, ReceivedChange] = {}
        """The latest acknowledged change of each key."""
        self._later: dict[str, list[ReceivedChange]] = {}
        """Changes received after it, by key."""
        self._uids: dict[str, str] = {}
        """The uid that came last, by key."""
        self._not_found: set[str] = set()
        """Uids of objects that the cloud did not have when the node asked for them or reported a pod's status: they are
        gone, also if a cloudcore that is behind sends one again.
        """
        self._deleted: set[str] = set()
        """Uids of objects whose deletions were acknowledged: a cloudcore that is behind may send one of them again, and
        the node acknowledges it without storing it.
        """

    def came_down(self, frame: bytes) -> None:
        """Note a frame that has reached the node."""
        message = decode(frame)
        route = message.route
        self._world.log_line(self._node, f"<- {route.operation} {route.resource} {message.id[:8]}")
        if self.lists_are_newer and route.operation == _LISTED:
            self._record_list()
        if route.operation == Operation.RESPONSE:
            self._record_answer(message)
        if route.operation not in _CHANGES or not any(kind in route.resource for kind in _OBJECTS):
            return
        metadata = message.content_as(_Head).metadata
        version = whole_number(metadata.resource_version) or 0
        self._numbers += 1
        came = ReceivedChange(self._numbers, route.resource, metadata.uid, version, route.operation == Operation.DELETE)
        self._open[message.id] = came
        self._uids[came.key] = came.uid
        self._later.setdefault(came.key, []).append(came)
        if len(self._open) > _REMEMBERED:
            self._open.popitem(last=False)

    def _record_answer(self, message: Message) -> None:
        """Note that the cloud has no such object, or which one it has."""
        key = message.route.resource.replace(ResourceType.PODPATCH, ResourceType.POD)
        if is_gone(message):
            self._not_found.add(self._uids.get(key, ""))
        elif key != message.route.resource or key not in self._later or message.content_bytes()[:1] != b"{":
            return
        elif uid := message.content_as(_Head).metadata.uid:
            self._numbers += 1
            self._later[key].append(ReceivedChange(self._numbers, key, uid, 0, is_delete=False))

    def _record_list(self) -> None:
        """Note that any pod may have gone by a list."""
        self._numbers += 1
        for key, changes in self._later.items():
            if "/pod/" in key:
                changes.append(ReceivedChange(self._numbers, key, "", 0, is_delete=True))

    def sent_up(self, frame: bytes) -> None:
        """Note a frame of the node."""
        message = decode(frame)
        self._world.log_line(
            self._node, f"-> {message.route.operation} {message.route.resource} {message.parent_id[:8]}"
        )
        self._ended.sent_up(message, self._containers.values())
        if message.route.operation != Operation.RESPONSE:
            return
        came = self._open.get(message.parent_id)
        if came is None or (came.uid in self._deleted and not came.is_delete):
            return
        if came.is_delete and came.uid:
            self._deleted.add(came.uid)
            self._ended.deletion_acknowledged(came.uid)
        before = self._acknowledged.get(came.key)
        if before is None or came.number > before.number:
            self._acknowledged[came.key] = came
            self._later[came.key] = [one for one in self._later.get(came.key, []) if one.number > came.number]

    def check(self, directory: Path) -> None:
        """Compare the acknowledged changes with a copy of the store after a crash."""
        rows, dropped = rows_in(directory), dropped_in(directory)
        for key, acknowledged in self._acknowledged.items():
            is_other = key not in rows or rows[key][0] != acknowledged.uid
            if (is_other and acknowledged.uid in self._not_found) or (key not in rows and key in dropped):
                continue
            problem = self._problem(acknowledged, rows.get(key), self._later.get(key, []))
            if problem:
                text = f"{self._node}: {acknowledged} was acknowledged, but after the crash {problem}"
                self._world.violated("what is acknowledged is stored", text)

    def forget(self) -> None:
        """Forget all changes: the cloud or the store has lost its data."""
        self.has_forgotten = True
        self._acknowledged.clear()
        self._later.clear()
        self._open.clear()
        self._deleted.clear()
        self._ended.forget()

    @staticmethod
    def _problem(acknowledged: ReceivedChange, row: tuple[str, int] | None, later: list[ReceivedChange]) -> str:
        if row is None:
            gone = acknowledged.is_delete or any(one.is_delete for one in later)
            return "" if gone else "there is no such row"
        uid, version = row
        if any(one.uid in (uid, "") for one in later):
            return ""
        if acknowledged.is_delete:
            return f"its row is there in version {version}" if uid == acknowledged.uid else ""
        if uid != acknowledged.uid:
            return f"the row is of another object ({uid[:8]})"
        return "" if version >= acknowledged.version else f"the row is of version {version}"


def rows_in(directory: Path) -> dict[str, tuple[str, int]]:
    """Return uid and version of the objects in a database, by key."""
    found = _read(directory, "SELECT key, uid, resource_version FROM meta")
    return {key: (uid or "", version or 0) for key, uid, version in found}


def dropped_in(directory: Path) -> set[str]:
    """Return the keys of objects that a database dropped because no pod used them."""
    last = "SELECT key, cause FROM edgecore_history WHERE id IN (SELECT max(id) FROM edgecore_history GROUP BY key)"
    return {key for key, cause in _read(directory, last) if cause == UNUSED}


def _read(directory: Path, query: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query; none if the database is missing or unreadable."""
    path = directory / DATABASE
    if not path.exists():
        return []
    with closing(sqlite3.connect(path)) as connection:
        try:
            return connection.execute(query).fetchall()
        except sqlite3.Error:
            return []
