"""The state of a node as an object of the cluster: a NodeState, a custom resource of cloudcore."""

import base64
import binascii
import zlib
from typing import Final

import msgspec

from beehive.decoding import convert, decode_json
from modules.apimachinery.kinds import JsonObject, ObjectKey, kind_named
from modules.cloud.edgecontroller.state.object_syncs import is_storable
from modules.cloud.storage.object_sync import Holder, NodeState, ObjectSync, milliseconds, moment

API_VERSION: Final = "edgecore.io/v1alpha1"
PLURAL: Final = "nodestates"
KIND: Final = "NodeState"
MAX_BYTES: Final = 900_000
"""Largest size of the packed objects; etcd takes objects of up to 1.5 MB, and the API server's own limit is near."""
_MAX_UNPACKED: Final = 16 * 1024 * 1024
_TOO_LARGE: Final = 1 << 63
_MOST_EPOCHS: Final = 1 << 31
"""An epoch is a restore of etcd; the number of a later one is taken over, and counted on."""
_Row = tuple[str, str, str, str, int]
_POD: Final = kind_named("Pod").key_name


class NodeStateCounters:
    """Written by edgecontroller, read by any thread. It outlives restarts of the module."""

    def __init__(self) -> None:
        self.writes = 0
        """Writes that the API server has answered with success."""
        self.failures = 0
        """Writes that failed otherwise than by a conflict, which is how cloudcores notice each other."""
        self.left_out: dict[str, int] = {}
        """By node, the objects that do not fit into its NodeState; only of nodes that have such."""


class Spec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The spec of a NodeState."""

    cloudcore: str = ""
    """The cloudcore of the node's last connection."""
    connected_at: int = 0
    """When it did, in seconds since 1970 by that cloudcore's clock; 0 from a cloudcore that did not say it yet."""
    connected_at_milliseconds: int = 0
    """The same in milliseconds; 0 from a cloudcore of an earlier version, and if the definition is one's."""
    node_uid: str = msgspec.field(default="", name="nodeUID")
    epoch: int = 0
    objects: str = ""
    """Packed: deflated JSON in base64; kind, namespace, name, uid and acknowledged version of each object."""


class StoredState(msgspec.Struct, frozen=True):
    """The content of a NodeState."""

    holder: Holder
    state: NodeState
    syncs: dict[str, ObjectSync]
    """By uid."""


def object_of(node: str, namespace: str, state: NodeState, objects: str, holder: Holder) -> JsonObject:
    """Return the NodeState of a node with packed objects. It is owned by the Node object, and garbage is collected with
    it.
    """
    metadata: JsonObject = {"name": node, "namespace": namespace}
    if state.uid:
        owner = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": state.uid}
        metadata["ownerReferences"] = [owner]
    spec = Spec(
        cloudcore=holder.cloudcore,
        connected_at=int(holder.connected_at),
        connected_at_milliseconds=milliseconds(holder.connected_at),
        node_uid=state.uid,
        epoch=state.epoch,
        objects=objects,
    )
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": msgspec.to_builtins(spec)}


def read(obj: JsonObject) -> StoredState | None:
    """Return the content of a NodeState; None if it cannot be read, which does no harm: it is only a record of sent
    objects.
    """
    try:
        spec = convert(obj.get("spec"), Spec)
        if abs(spec.epoch) >= _MOST_EPOCHS:
            return None
        holder = Holder(spec.cloudcore, moment(spec.connected_at, spec.connected_at_milliseconds))
        return StoredState(holder, NodeState(spec.node_uid, spec.epoch), _unpacked(spec.objects))
    except (msgspec.MsgspecError, ValueError, TypeError, zlib.error):
        return None


def newest_pod_version(syncs: dict[str, ObjectSync]) -> int:
    """Return the newest version of a pod that a node has acknowledged."""
    return max((sync.version for sync in syncs.values() if sync.key.kind == _POD), default=0)


def packed(syncs: dict[str, ObjectSync]) -> tuple[str, int]:
    """Return the packed objects of a node, and the number of the others, left out for want of room, pods last: the
    node is sent them again.
    """
    rows = [(*sync.key, uid, sync.number) for uid, sync in syncs.items()]
    rows.sort(key=lambda row: (row[0] != _POD, row))
    while True:
        text = base64.b64encode(zlib.compress(msgspec.json.encode(rows))).decode()
        if len(text) <= MAX_BYTES:
            return text, len(syncs) - len(rows)
        del rows[len(rows) * MAX_BYTES * 9 // (len(text) * 10) :]


def _unpacked(text: str) -> dict[str, ObjectSync]:
    if not text:
        return {}
    try:
        packed = base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from error
    plain = zlib.decompressobj().decompress(packed, _MAX_UNPACKED)
    rows = decode_json(plain, list[_Row])
    found = ((row[3], ObjectSync.from_number(ObjectKey(*row[:3]), row[4])) for row in rows)
    return {
        uid: sync
        for uid, sync in found
        if is_storable(uid, sync.key) and max(sync.existed_at, sync.deleted) < _TOO_LARGE
    }
