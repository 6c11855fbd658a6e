"""Devices and DeviceModels for the nodes of the devices (docs/devices-in-the-cloud.md)."""

from collections.abc import Callable, Iterable

from beehive.names import Operation
from modules.apimachinery.kinds import JsonObject, ObjectKey, uid_of
from modules.apimachinery.lister import Lister
from modules.cloud.device_forms import converted_device, converted_model
from modules.cloud.devices import DEVICE, is_sent_to_nodes
from modules.cloud.edgecontroller.devices.placements import DevicePlacements
from modules.cloud.edgecontroller.downstream_messages import DownstreamMessage, deletion_of_unknown, object_message
from modules.cloud.edgecontroller.state.object_syncs import ObjectSyncs, number_of
from modules.cloud.storage.object_storage import EventType, ObjectEvent
from modules.cloud.storage.object_sync import ObjectSync


class DeviceObjects:
    """The sender of a node's Devices and their DeviceModels: a model before its first device, and the deletion of a
    device before the deletion of its model. An object that was sent before is sent as an update, because KubeEdge's
    mappers ignore an insert of a device that they know.

    Args:
        lister: the objects.
        object_syncs: the objects that connected nodes were sent.
        send: sends a message to a connected node, and records the object.
        is_behind: returns whether an object that is missing may only not have been told yet.
    """

    def __init__(
        self,
        lister: Lister,
        object_syncs: ObjectSyncs,
        send: Callable[[DownstreamMessage], None],
        is_behind: Callable[[ObjectSync], bool],
    ) -> None:
        self._lister = lister
        self._object_syncs = object_syncs
        self._send = send
        self._is_behind = is_behind
        self._placements = DevicePlacements()

    def handle_event(self, event: ObjectEvent) -> None:
        """Send a change of a Device or a DeviceModel to the nodes that it concerns."""
        if event.key.kind == DEVICE.key_name:
            self._device_changed(event)
        elif event.type is EventType.DELETED:
            self._delete(event.key, event.new)
        else:
            for node in self._placements.nodes_of_model(event.key):
                self._send_needed(node, (event.key,))

    def roll_back(self, event: ObjectEvent) -> None:
        """Undo the record of a change that was rolled back."""
        if event.key.kind == DEVICE.key_name:
            self._placements.put(event.key, event.old)

    def reconcile(self, node: str) -> None:
        """Send a connected node the Devices and models that it has not acknowledged, and deletions of objects that it
        no longer needs.
        """
        self.delete_unneeded(node)
        self.send_needed(node)

    def send_needed(self, node: str) -> None:
        """Send a connected node the Devices and models that it has not acknowledged."""
        self._send_needed(node, self._placements.on_node(node))

    def delete_unneeded(self, node: str) -> None:
        """Send a connected node the deletions of Devices and models that it no longer needs; all objects must be
        known.
        """
        found = self._object_syncs.of(node).items()
        told = ((uid, sync) for uid, sync in found if is_sent_to_nodes(sync.key) and not self._is_behind(sync))
        had = sorted((sync.key, uid) for uid, sync in told)
        for key, uid in had:  # in this order, devices come before models
            if not self._placements.is_needed(node, key):
                self._delete_there(node, key, uid)
            elif not self._is_live(key, uid):
                self._let_go(node, key, uid)

    def _device_changed(self, event: ObjectEvent) -> None:
        before = self._placements.of(event.key)
        is_gone = event.type is EventType.DELETED
        self._placements.put(event.key, None if is_gone else event.new)
        now = self._placements.of(event.key)
        self._delete(event.key, event.new, but=now.node)
        if now.node:
            self._send_needed(now.node, (now.model, event.key) if now.model else (event.key,))
        if before.model is not None and before != now:
            self._forget_model(before.node, before.model)

    def _delete(self, key: ObjectKey, obj: JsonObject, but: str = "") -> None:
        """Delete an object on the nodes that have it. If one of them needs it again, it is in another version then, and
        so not the acknowledged one.
        """
        for node in self._object_syncs.holders(uid_of(obj)):
            if node != but:
                self._send(object_message(node, Operation.DELETE, key, obj))

    def _forget_model(self, node: str, model: ObjectKey) -> None:
        """Delete a model on a node when none of its Devices is left on the node."""
        live = self._lister.revision_of(model)
        if live and live.uid in self._object_syncs.of(node) and not self._placements.is_needed(node, model):
            self._delete_there(node, model, live.uid)

    def _delete_there(self, node: str, key: ObjectKey, uid: str) -> None:
        """Delete an object on a node, which may need it again before it has acknowledged that."""
        self._send(deletion_of_unknown(node, key, uid))

    def _let_go(self, node: str, key: ObjectKey, uid: str) -> None:
        """Delete an object that no longer exists, unless another one has its name: nodes delete by name."""
        if self._lister.revision_of(key) is None:
            self._send(deletion_of_unknown(node, key, uid))
        else:
            self._object_syncs.deleted(node, uid)

    def _is_live(self, key: ObjectKey, uid: str) -> bool:
        live = self._lister.revision_of(key)
        return live is not None and live.uid == uid

    def _send_needed(self, node: str, keys: Iterable[ObjectKey]) -> None:
        """Send a node the objects whose present version it has not acknowledged."""
        for key in keys if self._object_syncs.is_connected(node) else ():
            live = self._lister.revision_of(key)
            if live is None or not self._object_syncs.is_needed(node, live.uid, number_of(live.version)):
                continue
            found = self._lister.find(key)
            if found is not None:
                obj = (converted_device if key.kind == DEVICE.key_name else converted_model)(found).object
                operation = Operation.UPDATE if live.uid in self._object_syncs.of(node) else Operation.INSERT
                self._send(object_message(node, operation, key, obj))
