"""KubeEdge's downstream controller and sync controller."""

from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from beehive.names import Operation
from modules.apimachinery.kinds import (
    JsonObject,
    Kind,
    ObjectKey,
    key_of,
    kind_named,
    uid_of,
    version_of,
)
from modules.apimachinery.lister import Lister, Revision
from modules.apimachinery.pod_references import references_of
from modules.apimachinery.pods.objects import node_of
from modules.cloud.client.calls import ApiCall
from modules.cloud.devices import DEVICE, is_sent_to_nodes
from modules.cloud.devices import KEY_NAMES as DEVICES
from modules.cloud.edgecontroller.devices.objects import DeviceObjects
from modules.cloud.edgecontroller.downstream.edge_mesh import EdgeMeshServices, MirroredObjects
from modules.cloud.edgecontroller.downstream.location_cache import LocationCache
from modules.cloud.edgecontroller.downstream.node_groups import (
    FILTERED,
    NodeGroupFilter,
    group_of,
    service_of,
    topology_of,
)
from modules.cloud.edgecontroller.downstream.node_watches import NodeWatch, NodeWatches
from modules.cloud.edgecontroller.downstream.sent_versions import SentVersions
from modules.cloud.edgecontroller.downstream.stale_cache import StaleCache
from modules.cloud.edgecontroller.downstream.unconfirmed_deletions import UnconfirmedDeletions
from modules.cloud.edgecontroller.downstream_messages import (
    DownstreamMessage,
    deletion_of_unknown,
    is_other,
    messages_for_event,
    object_message,
    present_message,
)
from modules.cloud.edgecontroller.state.newest_versions import NewestVersions
from modules.cloud.edgecontroller.state.object_syncs import ObjectSyncs, number_of
from modules.cloud.storage.object_storage import EventType, ObjectEvent
from modules.cloud.storage.object_sync import ObjectSync

_HELD = {
    kind_named(kind).singular: kind_named(kind)
    for kind in ("ConfigMap", "Secret", "PersistentVolumeClaim", "PersistentVolume", "VolumeAttachment")
}
_POD, _NODE, _DRIVER = kind_named("Pod"), kind_named("Node"), kind_named("CSIDriver")
_SERVICE = kind_named("Service")
MAX_HELD_OBJECTS = 2000
"""Objects held by a node above which its queries for missing objects are not recorded."""

MAX_UNKNOWN_OBJECTS = 1000
"""Unacknowledged deletions of objects that only a node has named, above which it is sent no other: it may name any."""


class _ServiceOfEndpoints(NamedTuple):
    """The Service of an EndpointSlice or Endpoints."""

    is_ranged: bool
    """Whether it keeps to node groups."""
    live: Revision | None
    """None: there is no such Service."""


class DownstreamController:
    """The controller that sends connected nodes the objects that they need: each change as it happens, and, when a node
    connects, the objects that it has not acknowledged.

    Args:
        lister: the objects.
        object_syncs: the ObjectSyncs of the connected nodes.
        send: sends a message to a node.
        may_read: whether a node may read an object; otherwise it receives only the deletion.
        mirrored: tells which kinds the lister has, and which objects in part only.
        watches: of nodes.
        confirm: calls a function if the API server does not have a pod, which the lister lacks (`Restores`).
        check: reads an object that a node has in a version which was not told for long (`Restores`).
        may_lose_records: whether a kill may lose the records of the last seconds, as those in the cluster.
    """

    def __init__(
        self,
        lister: Lister,
        object_syncs: ObjectSyncs,
        send: Callable[[DownstreamMessage], None],
        may_read: Callable[[str, ObjectKey], bool],
        mirrored: MirroredObjects,
        watches: NodeWatches,
        *,
        confirm: Callable[[ObjectKey, str, Callable[[], None]], None],
        check: Callable[[ObjectKey, str], None],
        may_lose_records: bool = False,
    ) -> None:
        self._may_lose_records = may_lose_records
        self._check = check
        self._lister = lister
        self._may_read = may_read
        self._object_syncs = object_syncs
        self._send = send
        self._mirrored = mirrored
        self._watches = watches
        self._groups = NodeGroupFilter(lister)
        self._knows_services = False
        """Whether all Services were here once: nodes get no endpoints before."""
        self.locations = LocationCache()
        """The pods and objects of each node."""
        self.newest = NewestVersions()
        """The versions that watches have reported."""
        self._devices = DeviceObjects(lister, object_syncs, self.send, self.newest.is_behind)
        self.edge_mesh = EdgeMeshServices(lister, object_syncs, self.locations, send, mirrored)
        self._sent = SentVersions()
        self._unacknowledged: dict[str, set[str]] = {}
        """By node, the uids that were unacknowledged at the last resending."""
        self.stale = StaleCache(object_syncs, self.newest, self._live)
        """What nodes may have, and the cache lacks."""
        self.unconfirmed = UnconfirmedDeletions(confirm, self._send_next)
        """The deletions of pods that wait."""

    def record_query(self, node: str, resource_type: str, key_of_kind: Callable[[Kind], ObjectKey]) -> None:
        """Record a query for an object that nodes store: the node is sent its changes. The object may be missing yet;
        the number of such records is limited.
        """
        kind = _HELD.get(resource_type)
        if kind is None:
            return
        key = key_of_kind(kind)
        if self._lister.revision_of(key) is not None or self.locations.count(node) < MAX_HELD_OBJECTS:
            self.locations.add(key, node)

    def watch(self, call: ApiCall, kind: Kind | None = None) -> None:
        """Make a node a holder of the objects that its watch selects, now and later. An object that the watch no
        longer selects is still sent: the metaserver tells its client. `kind` as for `NodeWatches.add`.

        Raises:
            UnknownKindError: there is no such kind.
            BadRequestError: a selector cannot be read.
            TooManyRequestsError: the node has too many watches.
        """
        watch = self._watches.add(call, kind)
        if watch is not None:
            self._mirrored.mirrors(watch.kind)
            self._send_objects(call.node, self._hold_selected(call.node, watch))

    def resume_watches(self) -> None:
        """Mirror the kinds that nodes watch again: their watches have outlived a restart of the module."""
        for kind in self._watches.kinds():
            self._mirrored.mirror(kind)

    def unwatch(self, node: str) -> None:
        """End a node's watches: they bring no more objects, but changes of its own."""
        self._watches.forget(node)

    def node_restarted(self, node: str) -> None:
        """Reset the acknowledged versions of a node whose process has started, unless they were sent over the present
        connection, and so to this process.
        """
        self._object_syncs.node_restarted(node, self._sent.of(node))

    def connection_began(self, node: str) -> None:
        """Note that nothing has been sent over a node's connection, or to its new Node, yet."""
        self._sent.forget(node)

    def node_disconnected(self, node: str) -> None:
        """Forget the objects that a disconnected node has queried, except what its pods need."""
        self._sent.forget(node)
        self.edge_mesh.forget(node)
        self._unacknowledged.pop(node, None)
        self.stale.forget(node)
        self.unconfirmed.forget(node)
        self.locations.forget_queries(node)

    def deletion_acknowledged(self, node: str, uid: str) -> None:
        """Forget an object that a node has deleted, unless it was sent again since: a model is deleted with the last of
        its devices, and comes back with the next one.
        """
        sync = self._object_syncs.of(node).get(uid)
        if sync is not None and not self._sent.is_sent_since_deletion(node, uid):
            self._object_syncs.deleted(node, uid, self._sent.deletion_of(node, uid) or sync.sent)

    def is_deleting(self, node: str, uid: str) -> bool:
        """Return whether a node was sent the deletion of an object, and not the object since."""
        return self._sent.has(node, uid, None)

    def record_answer(self, node: str, obj: JsonObject) -> None:
        """Record an object that a node was answered, and holds: it is sent the deletion, even if the object is deleted
        before a watch tells of it. What the watch tells after the answer decides, and not its version alone: that may
        be lower than an earlier one where the API server was restored.
        """
        uid = uid_of(obj)
        sync = self._object_syncs.of(node).get(uid)
        version = number_of(version_of(obj)) if sync is None or not sync.existed_at else 0
        if not version:  # one that is no number says nothing about a late watch
            return
        key = key_of(obj)
        if self._live(key, uid) is None:
            version = max(version, number_of(self.newest.of(key.kind)) + 1)
            self._object_syncs.sending(node, uid, key, version)
            self.stale.answered(node, key, uid)
        else:
            self._object_syncs.sending(node, uid, key, version)

    def delete_unknown(self, node: str, key: ObjectKey, uid: str) -> None:
        """Send a node the deletion of an object that is not here, unless that was sent, and is not acknowledged. Of a
        pod it is sent once over a connection: later the node may have the next pod of the name. A name alone may be
        that of many.
        """
        is_repeated = uid != "" and self._sent.has(node, uid, None)
        if not (is_repeated and (key.kind == _POD.name or uid in self._object_syncs.of(node))):
            self.send(deletion_of_unknown(node, key, uid))

    def send_to_holders(self, key: ObjectKey) -> None:
        """Send an object that is whole now to the nodes that need it."""
        obj = self._lister.find(key)
        if obj is not None:
            for node in [node_of(obj)] if key.kind == _POD.name else self.locations.nodes_of(key):
                self._send_objects(node, [key])

    def handle_event(self, event: ObjectEvent) -> None:
        """Send a change of an object to the connected nodes that need it."""
        if event.is_of_status:
            self._handle_status(event)
        elif event.key.kind in DEVICES:
            self._devices.handle_event(event)
        elif event.key.kind == _POD.name:
            self._handle_pod(event)
        else:
            self._handle_other(event)

    def _handle_pod(self, event: ObjectEvent) -> None:
        """Send a change of a pod to its node, and what the pod refers to."""
        key, new, node = event.key, event.new, node_of(event.new)
        down = messages_for_event(event, ())
        if event.type is EventType.ADDED and event.old is not None:  # only a part of it was here
            down = [self._message_for(one.node, key, new) for one in down]
        if event.type is EventType.DELETED:
            self.locations.remove_pod(key, node)
        elif not (event.keeps_spec and self.locations.has_pod(key, node)):
            references = self.locations.add_or_update_pod(key, new)
            refers_anew = event.old is None or references != references_of(event.old)
            for one in down:
                if one.operation is Operation.INSERT or refers_anew:  # the node's copy may be older than its last pod
                    self._send_objects(one.node, references)
        for one in down:
            if event.type is not EventType.ADDED or self._must_have(one.node, new, None):
                self.send(one)
        if event.type is EventType.DELETED:
            self.locations.forget(key)

    def _handle_status(self, event: ObjectEvent) -> None:
        """Send a pod whose status alone has changed to its node, if that has it."""
        node = node_of(event.new)
        if self.locations.has_pod(event.key, node):
            self.send(object_message(node, Operation.UPDATE, event.key, event.new))
        else:
            self._handle_pod(event)

    def _handle_other(self, event: ObjectEvent) -> None:
        for node in self._watches.nodes_that_watch(event.key.kind, event.new):
            self.locations.add(event.key, node)
        self.edge_mesh.hold(event)
        down = messages_for_event(event, self._holders(event))
        if event.type is EventType.ADDED and event.old is not None:  # only a part of it was here
            down = [self._message_for(one.node, event.key, event.new) for one in down]
        is_new, outdated = event.type is EventType.ADDED, self._with_older(event)
        service = self._service_of(event.key, event.new) if is_new else None
        self._regroup(event, outdated)  # a node that has acknowledged the change of a Service has its endpoints
        for one in down:
            if not is_new or self._must_have(one.node, event.new, service):
                self.send(one)
        self.edge_mesh.send_pods(event)
        if event.type is EventType.DELETED:
            self.locations.forget(event.key)

    def roll_back(self, event: ObjectEvent) -> None:
        """Undo the records of a change that was rolled back."""
        if is_sent_to_nodes(event.key):
            self._devices.roll_back(event)
        elif event.key.kind == _POD.name:
            self.locations.remove_pod(event.key, node_of(event.new))
            if event.old is not None:
                self.locations.add_or_update_pod(event.key, event.old)

    def node_connected(self, node: str) -> None:
        """Send a connected node the objects that it needs and has not acknowledged, unless they were sent over its
        present connection: their acknowledgements are on the way.
        """
        self._unacknowledged.pop(node, None)
        for sync in self._object_syncs.of(node).values():
            is_here = _is_held(sync.key) and self._lister.revision_of(sync.key) is not None
            if is_here and self._may_have(node, sync.key):
                self.locations.add(sync.key, node)
        for watch in self._watches.of(node):
            self._hold_selected(node, watch)
        drivers = [key_of(driver) for driver in self._lister.list(_DRIVER)]
        wanted = [*drivers, *self.locations.on_node(node), *self.locations.pods_of(node)]
        unacknowledged = {
            uid: sync
            for uid, sync in self._unacknowledged_of(node).items()
            if not self._sent.has(node, uid, self._live(sync.key, uid))
        }
        present = ((key, self._lister.revision_of(key)) for key in wanted)
        unsent = [key for key, live in present if live is not None and not self._sent.has(node, live.uid, live)]
        if self._may_lose_records:
            self._delete_unrecorded(node)
        self._send_all(node, unacknowledged, unsent)
        self._reconcile_devices(node)

    def _delete_unrecorded(self, node: str) -> None:
        """Send a node the deletions of what its pods name and nobody has, by name: a cloudcore that was killed may have
        sent it. Without a pod that names it, a node lets an object go by itself.
        """
        recorded = {sync.key for sync in self._object_syncs.of(node).values()}
        for key in self.locations.references_on(node):
            if key not in recorded and self._lister.revision_of(key) is None and self._mirrored.mirrors(key.kind):
                self.send(deletion_of_unknown(node, key))

    def send_deletions(self, kind: str) -> None:
        """Send connected nodes the deletions of objects that they have and the first list of their kind lacked;
        deletions of devices after each list.
        """
        if kind == DEVICE.key_name:
            for node in self._object_syncs.nodes():
                self._devices.delete_unneeded(node)
            return
        self.edge_mesh.send_lists()
        for node in self._object_syncs.nodes():
            if kind == _SERVICE.key_name:
                self._send_objects(node, [key for key in self.locations.on_node(node) if key.kind in FILTERED])
            for uid, sync in self._unacknowledged_of(node).items():
                if sync.key.kind == kind and self._live(sync.key, uid) is None:
                    self._send_deletion(node, uid, sync)

    def resend_unacknowledged(self, node: str) -> int:
        """Send a node again the objects that were unacknowledged at the last call already, and return the number of
        its objects.

        Newer ones, or their acknowledgements, are still on the way: cloudhub could not detect that a repeated deletion
        was acknowledged.
        """
        held = self.stale.release(node)
        if held:
            self._send_held_back(node, held)
        unacknowledged, before = self._unacknowledged_of(node), self._unacknowledged.pop(node, set())
        late = {uid: sync for uid, sync in unacknowledged.items() if uid in before and sync.key not in held}
        if late:
            self._send_all(node, late)
            if any(is_sent_to_nodes(sync.key) for sync in late.values()):
                self._reconcile_devices(node)
        if unacknowledged:
            self._unacknowledged[node] = set(unacknowledged)
        for key, uid in self.stale.untold(node):
            self._check(key, uid)
        return len(self._object_syncs.of(node))

    def send(self, down: DownstreamMessage) -> None:
        """Send a message to a node, if it is connected here and the version is a number (`number_of`), and records the
        object in an ObjectSync. Of endpoints it gets its part, and none before all Services are here. An object whose
        successor of the same name the node has already is not sent, and not deleted, as an edge deletes by name, except
        for pods. An object that the node may have deleted already waits until the watch has told that.
        """
        is_deletion = down.operation is Operation.DELETE
        version = 0 if is_deletion else down.number
        if not (is_deletion or version) or not self._object_syncs.is_connected(down.node):
            return
        uid = down.uid
        is_by_name = not is_deletion or down.key.kind != _POD.name
        if down.node in self.stale.ahead and is_by_name and self._is_succeeded(down.node, down.key, uid):
            if not is_deletion:
                self.stale.hold(down.node, down.key)
            return
        if is_deletion and self._owes_too_many(down.node, uid):
            return
        sync = self._object_syncs.of(down.node).get(uid)
        if version and self.stale.may_be_deleted(down.node, down.key, version, sync):
            self.stale.hold(down.node, down.key)
            return
        if version and down.node in self.unconfirmed.by_node and not self._may_follow(down.node, down.key, version):
            self.stale.hold(down.node, down.key)
            return
        self._object_syncs.sending(down.node, uid, down.key, version)
        if is_deletion:
            has_existed = sync is not None and sync.existed_at > 0  # it is gone in the newest version at the latest
            version = down.number or (number_of(self.newest.of(down.key.kind)) if has_existed else 0)
            if not self._sent.has(down.node, uid, None):
                self._object_syncs.deleting(down.node, uid, version)
            self._sent.record_deletion(down.node, uid, version)
        else:
            if down.key.kind in FILTERED and isinstance(down.content, dict):
                self._knows_services |= self._mirrored.mirrors(_SERVICE.key_name)
                if not self._knows_services:
                    return
                down = object_message(down.node, down.operation, down.key, self._groups.shown(down.node, down.content))
            self._sent.record(down.node, uid, version)
        self._send(down if down.key.kind == _POD.name else self.edge_mesh.in_our_name(down))

    def _with_older(self, event: ObjectEvent) -> set[str]:
        """Return the nodes that have an older version of a Service, perhaps with another topology, if it is new here:
        it may have changed before the first list of Services.
        """
        if event.type is not EventType.ADDED or event.key.kind != _SERVICE.key_name:
            return set()
        uid = uid_of(event.new)
        syncs = ((node, self._object_syncs.of(node)[uid]) for node in self._object_syncs.holders(uid))
        return {node for node, sync in syncs if sync.version > 0 and self._is_needed(node, event.new)}

    def _regroup(self, event: ObjectEvent, outdated: AbstractSet[str]) -> None:
        """Send endpoints again, in their present version, to the nodes that get other ones since a Service keeps to
        node groups or no longer does, as when it is deleted, or since a node is in another group.

        Args:
            event: of any object.
            outdated: the nodes that a Service may have had another topology for.
        """
        is_deleted = event.type is EventType.DELETED
        if event.key.kind == _SERVICE.key_name:
            last = event.new if is_deleted else event.old
            before, after = "" if last is None else topology_of(last), "" if is_deleted else topology_of(event.new)
            is_other = before != after
            for key in self._groups.of_services({event.key}) if is_other or outdated else ():
                nodes = self.locations.nodes_of(key)
                self._send_again(key, [node for node in nodes if is_other or node in outdated])
        elif event.key.kind == _NODE.key_name:
            node, old = (
                event.key.name,
                None if event.old is None or event.type is EventType.ADDED else group_of(event.old),
            )
            new = None if is_deleted else group_of(event.new)
            if old != new and self._knows_services:
                held = [key for key in self.locations.on_node(node) if key.kind in FILTERED]
                for key in held:
                    if self._is_ranged(key):
                        self._send_again(key, [node])
                for key in self._groups.on_node(node):
                    others = [each for each in self.locations.nodes_of(key) if each != node]
                    self._send_again(key, self._groups.are_in({old, new} - {None}, others))

    def _send_again(self, key: ObjectKey, nodes: Iterable[str]) -> None:
        obj = self._lister.find(key)
        if obj is not None:
            for node in nodes:
                self.send(self._message_for(node, key, obj))

    def _is_ranged(self, key: ObjectKey) -> bool:
        obj = self._lister.find(key)
        return obj is not None and self._groups.is_ranged(obj)

    def _service_of(self, key: ObjectKey, obj: JsonObject | None) -> _ServiceOfEndpoints | None:
        """Return the Service of endpoints; None for another object, and without one."""
        service = service_of(obj) if obj is not None and key.kind in FILTERED else None
        if obj is None or service is None:
            return None
        return _ServiceOfEndpoints(self._groups.is_ranged(obj), self._lister.revision_of(service))

    def _is_stale(self, node: str, live: Revision, service: _ServiceOfEndpoints | None) -> bool:
        """Return whether a node may have another part of endpoints than it should: groups, or the topology of their
        Service, may have changed while the node was away or this module did not run, as with another Service of that
        name, or none. Endpoints that were sent over its present connection are right.
        """
        if service is None or self._sent.has(node, live.uid, live):
            return False
        found = service.live
        sync = None if found is None else self._object_syncs.of(node).get(found.uid)
        is_other = found is None or sync is None or not sync.version or self._sent.has(node, found.uid, found)
        return service.is_ranged or is_other

    def _reconcile_devices(self, node: str) -> None:
        if self._mirrored.mirrors(DEVICE.key_name):
            self._devices.reconcile(node)
        else:
            self._devices.send_needed(node)

    def _hold_selected(self, node: str, watch: NodeWatch) -> list[ObjectKey]:
        keys = [key_of(obj) for obj in self._lister.list(watch.of) if watch.selects(obj)]
        for key in keys:
            self.locations.add(key, node)
        return keys

    def _unacknowledged_of(self, node: str) -> dict[str, ObjectSync]:
        """Return the unacknowledged ObjectSyncs of a node, by uid: also of deleted objects, not of unreadable ones."""
        return {
            uid: sync for uid, sync in self._object_syncs.of(node).items() if self._is_unacknowledged(node, uid, sync)
        }

    def _is_unacknowledged(self, node: str, uid: str, sync: ObjectSync) -> bool:
        live = self._live(sync.key, uid)
        if live is not None and live.version == str(sync.version):
            return False  # as most are, so it is looked at first
        if not self._mirrored.mirrors(sync.key.kind):
            return False
        if live is None:
            return not self.newest.is_behind(sync)
        is_needed = self._object_syncs.is_needed(node, uid, number_of(live.version))
        return is_needed and (not _is_held(sync.key) or self._may_have(node, sync.key))

    def _send_all(self, node: str, unacknowledged: dict[str, ObjectSync], wanted: Iterable[ObjectKey] = ()) -> None:
        """Send unacknowledged and wanted objects to a node, pods last, so that the node need not query the objects of
        its pods.
        """
        unacknowledged = {uid: sync for uid, sync in unacknowledged.items() if not is_sent_to_nodes(sync.key)}
        for uid, sync in unacknowledged.items():
            if self._live(sync.key, uid) is None:
                self._send_deletion(node, uid, sync)
        keys = dict.fromkeys([*(sync.key for sync in unacknowledged.values()), *wanted])
        self._send_objects(node, sorted(keys, key=lambda key: (key.kind == _POD.name, key)))

    def _is_needed(self, node: str, obj: JsonObject) -> bool:
        return self._object_syncs.is_needed(node, uid_of(obj), number_of(version_of(obj)))

    def _must_have(self, node: str, obj: JsonObject, service: _ServiceOfEndpoints | None) -> bool:
        """Return whether a node lacks an object that is new here: its kind may be listed for the first time after the
        node had its objects.
        """
        return self._is_needed(node, obj) or self._is_stale(node, Revision(uid_of(obj), version_of(obj)), service)

    def _live(self, key: ObjectKey, uid: str) -> Revision | None:
        """Return the revision of the object of this uid, or None; another object of that name does not count."""
        live = self._lister.revision_of(key)
        return live if live is not None and live.uid == uid else None

    def _is_succeeded(self, node: str, key: ObjectKey, uid: str) -> bool:
        """Return whether a node has a newer object of the name, which no watch has told of yet."""
        ahead = self.stale.ahead[node]
        successor = ahead.get(key, uid)
        if successor == uid:
            return False
        sync = self._object_syncs.of(node).get(successor)
        if sync is not None and self.newest.is_behind(sync):
            return True
        del ahead[key]
        if sync is not None and key.kind == _POD.name and not self._sent.has(node, successor, None):
            self._send_deletion(node, successor, sync)  # its name is another pod's: it is deleted before that one comes
        return False

    def _owes_too_many(self, node: str, uid: str) -> bool:
        """Return whether a node has named too many objects that the cloud does not know, and their deletions are not
        acknowledged.
        """
        syncs = self._object_syncs.of(node)
        if uid in syncs or len(syncs) < MAX_UNKNOWN_OBJECTS:
            return False
        return sum(not sync.existed_at for sync in syncs.values()) >= MAX_UNKNOWN_OBJECTS

    def _send_held_back(self, node: str, held: AbstractSet[ObjectKey]) -> None:
        self._send_objects(node, sorted(key for key in held if not is_sent_to_nodes(key)))
        if any(map(is_sent_to_nodes, held)):
            self._reconcile_devices(node)

    def _send_deletion(self, node: str, uid: str, sync: ObjectSync) -> None:
        """Send the deletion of an object, unless a new one has its name: an edge deletes by name, except for pods. The
        record stays until the node has acknowledged the new one, which may be deleted before. The deletion of a pod is
        confirmed first, by the API server or by the pod's successor.
        """
        live = self._lister.revision_of(sync.key) if sync.key.kind != _POD.name else None
        if sync.key.kind == _NODE.name or live is not None:
            new = None if live is None else self._object_syncs.of(node).get(live.uid)
            is_on_its_way = (new is None or not new.version) and self._may_have(node, sync.key)
            if sync.key.kind == _NODE.name or not is_on_its_way:
                self._object_syncs.deleted(node, uid)
        elif sync.key.kind == _POD.name and not self._sent.has(node, uid, None):
            self.unconfirmed.begin(node, sync.key, uid)
        else:
            self.send(deletion_of_unknown(node, sync.key, uid))

    def _may_follow(self, node: str, key: ObjectKey, version: int) -> bool:
        """Send the unconfirmed deletions of the pods of a name ahead of a later version of the next pod. Return whether
        none is left, of a pod that may be newer: then the next one waits until that deletion is confirmed.
        """
        uids = self.unconfirmed.by_node[node].get(key, set())
        for uid in sorted(uids):
            sync = self._object_syncs.of(node).get(uid)
            if sync is None or sync.existed_at <= version:
                self.unconfirmed.end(node, key, uid)
                self._delete_missing(node, key, uid)
        return not uids

    def _send_next(self, node: str, key: ObjectKey, uid: str) -> None:
        """Send the confirmed deletion of a pod, and the next pod of the name if that waits."""
        self._delete_missing(node, key, uid)
        if self.stale.release_one(node, key):
            self._send_objects(node, [key])

    def _delete_missing(self, node: str, key: ObjectKey, uid: str) -> None:
        """Send the deletion of a pod that the API server does not have, if the node still needs that."""
        if uid in self._object_syncs.of(node) and self._live(key, uid) is None:
            self.delete_unknown(node, key, uid)

    def _send_objects(self, node: str, keys: Iterable[ObjectKey]) -> None:
        """Send a connected node the objects whose present version it has not acknowledged."""
        if not self._object_syncs.is_connected(node):
            return
        changed: set[ObjectKey] = set()
        for key in keys:
            live = self._lister.revision_of(key)
            if live is None:
                continue
            is_needed = self._object_syncs.is_needed(node, live.uid, number_of(live.version))
            is_right = key.kind not in FILTERED or self._sent.has(node, live.uid, live)
            if not is_needed and (
                is_right or not self._is_stale(node, live, self._service_of(key, self._lister.find(key)))
            ):
                continue
            is_sent = self._may_have(node, key) and not self._mirrored.is_missing(key)
            obj = self._lister.find(key) if is_sent else None
            if obj is not None:
                message = self._message_for(node, key, obj)
                self.send(message)
                if key.kind == _SERVICE.key_name and message.operation is Operation.UPDATE:
                    changed.add(key)
        for key in self._groups.of_services(changed):  # their topology may be another one
            if node in self.locations.nodes_of(key):
                self._send_again(key, [node])

    def _message_for(self, node: str, key: ObjectKey, obj: JsonObject) -> DownstreamMessage:
        sync = self._object_syncs.of(node).get(uid_of(obj))
        return present_message(node, key, obj, has_older=sync is not None and sync.version > 0)

    def _holders(self, event: ObjectEvent) -> list[str]:
        """Return the nodes that get a change. All nodes receive CSIDrivers: KubeEdge's cloud does not answer
        queries for them.
        """
        if event.key.kind == _DRIVER.name:
            return [node["metadata"]["name"] for node in self._lister.list(_NODE)]
        holders = dict.fromkeys(self.locations.nodes_of(event.key))
        if event.type is EventType.DELETED:
            return [*(holders | dict.fromkeys(self._object_syncs.holders(uid_of(event.new))))]
        return [node for node in holders if self._may_have(node, event.key)]

    def _may_have(self, node: str, key: ObjectKey) -> bool:
        return self._watches.may_have(node, key) if is_other(key.kind) else self._may_read(node, key)


def _is_held(key: ObjectKey) -> bool:
    """Return whether nodes hold an object because others refer to it, or they have asked for it."""
    return key.kind not in (_POD.name, _NODE.name) and not is_sent_to_nodes(key)
