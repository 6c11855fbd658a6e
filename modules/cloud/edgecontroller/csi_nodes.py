"""Keeps the CSINodes of nodes in step with the storage drivers that their Nodes name.

A kubelet writes the CSINode of its node itself (nodeinfomanager). KubeEdge's wire has no message for it, and its edges
write none, but their Nodes have the annotation with the drivers' ids of the node. edgecore's nodes add an annotation
with what else a CSINode has.
"""

import logging
from collections.abc import Callable
from typing import Final

import msgspec

from beehive.decoding import decode_json
from beehive.message import Message
from modules.apimachinery.api_errors import ApiError
from modules.apimachinery.csi_drivers import DRIVERS_ANNOTATION, NODE_ID_ANNOTATION, DriverNote
from modules.apimachinery.kinds import JsonObject, key_for, kind_named, uid_of
from modules.cloud.client.calls import Answered, ApiCall
from modules.cloud.edgecontroller.mirror.mirrored_bodies import MirroredBodies
from modules.cloud.edgecontroller.upstream import api_requests
from modules.cloud.edgecontroller.upstream.controller import Procedure
from modules.cloud.edgecontroller.upstream.requests import Steps

_log = logging.getLogger(__name__)

_NODE: Final = kind_named("Node")
_CSI_NODE: Final = kind_named("CSINode")
_MARKS: Final = (NODE_ID_ANNOTATION.encode(), DRIVERS_ANNOTATION.encode())
_MOST_DRIVERS: Final = 100
"""Drivers of a node; with more, its CSINode is left as it is."""


class CsiNodes:
    """The writer of CSINodes, each after its node has registered or changed its drivers. A node's own name is the only
    one that it can have written, and the garbage collector deletes the CSINode with the Node, its owner.

    Args:
        bodies: the mirrored Nodes.
        perform: makes an API call of this cloudcore itself.
        later: does work in a turn of its own, in a transaction.
    """

    def __init__(
        self,
        bodies: MirroredBodies,
        perform: Callable[[ApiCall, Answered], None],
        later: Callable[[Callable[[], None]], None],
    ) -> None:
        self._bodies = bodies
        self._perform = perform
        self._later = later

    def registered(self, node: str) -> None:
        """Look after the CSINode of a node that has registered, if its Node names drivers."""
        known = self._bodies.find_whole(key_for(_NODE, "", node))
        if known is not None and NODE_ID_ANNOTATION in (known["metadata"].get("annotations") or {}):
            self._keep(node)

    def patched(self, message: Message) -> None:
        """Look after the CSINode of a node that may have changed the annotations of its drivers."""
        content = message.content
        raw = bytes(content) if isinstance(content, msgspec.Raw) else b""
        if any(mark in raw for mark in _MARKS):
            self._keep(message.subject_on_cloud.node)

    def _keep(self, node: str) -> None:
        procedure = Procedure(_kept(node), self._perform, lambda _: None, self._later)
        self._later(procedure.run)


def _kept(node: str) -> Steps[None]:
    try:
        yield from api_requests.retried(lambda _: _write(node))
    except ApiError as error:
        _log.warning("the CSINode of node %s lacks its drivers: %.300s", node, error)


def _write(node: str) -> Steps[None]:
    owner = yield from api_requests.find(key_for(_NODE, "", node))
    drivers = None if owner is None else drivers_of(owner)
    if owner is None or drivers is None:
        return
    live = yield from api_requests.find(key_for(_CSI_NODE, "", node))
    if live is None:
        if drivers:
            yield api_requests.create(_with({"metadata": {"name": node}}, owner, drivers))
        return
    before = [_plain(each) for each in (live.get("spec") or {}).get("drivers") or ()]
    unchanged = [each for each in drivers if each in before]
    if len(unchanged) < len(before):  # an update may not change a driver
        live = yield api_requests.update(_with(live, owner, unchanged))
    if len(unchanged) < len(drivers) or live["metadata"].get("ownerReferences") != _owners(owner):
        yield api_requests.update(_with(live, owner, drivers))


def _with(live: JsonObject, owner: JsonObject, drivers: list[JsonObject]) -> JsonObject:
    """Return a CSINode with these drivers and owner."""
    metadata = {**live["metadata"], "ownerReferences": _owners(owner)}
    kind, api_version = _CSI_NODE.name, _CSI_NODE.api_version
    return {**live, "kind": kind, "apiVersion": api_version, "metadata": metadata, "spec": {"drivers": drivers}}


def _owners(node: JsonObject) -> list[JsonObject]:
    name = node["metadata"]["name"]
    return [{"apiVersion": _NODE.api_version, "kind": _NODE.name, "name": name, "uid": uid_of(node)}]


def drivers_of(node: JsonObject) -> list[JsonObject] | None:
    """Return the drivers of a CSINode as the annotations of a Node have them; None if these cannot be read."""
    annotations = node["metadata"].get("annotations") or {}
    try:
        ids = decode_json(str(annotations.get(NODE_ID_ANNOTATION) or "{}"), dict[str, str])
        notes = decode_json(str(annotations.get(DRIVERS_ANNOTATION) or "{}"), dict[str, DriverNote])
    except (msgspec.MsgspecError, UnicodeError):
        return None
    if len(ids) > _MOST_DRIVERS:
        return None
    drivers = []
    for name in sorted(filter(ids.get, ids)):
        note = notes.get(name) or DriverNote()
        limit = {"count": note.count} if note.count else {}
        driver = {"name": name, "nodeID": ids[name], "topologyKeys": list(note.topology_keys), "allocatable": limit}
        drivers.append(_plain(driver))
    return drivers


def _plain(driver: JsonObject) -> JsonObject:
    """Return a driver without empty members: an API server answers null for none."""
    return {name: value for name, value in driver.items() if value}
