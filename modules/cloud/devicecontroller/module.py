"""The module devicecontroller."""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from http import HTTPStatus
from typing import ClassVar, Final

from beehive.delivery import OverflowPolicy
from beehive.errors import BeehiveError
from beehive.handlers import handles
from beehive.message import Message
from beehive.module import Module
from beehive.names import Group, ModuleName, Operation
from beehive.resource import Side
from modules.apimachinery.kinds import JsonObject, Kind, ObjectKey, key_of
from modules.apimachinery.times import format_rfc3339
from modules.cloud import api_messages
from modules.cloud.api_messages import Verb
from modules.cloud.connected_nodes import ConnectedNodes
from modules.cloud.coordination.known_cloudcores import Duty, KnownCloudcores
from modules.cloud.device_values import LONGEST_VALUE, REPORTED, VALUES_RESOURCE, DeviceValue
from modules.cloud.devicecontroller import wire
from modules.cloud.devicecontroller.devices_by_key import DeviceChange, DevicesByKey, device_key
from modules.cloud.devicecontroller.later_values import Times
from modules.cloud.devicecontroller.reports import Report, ReportError, read_state, read_twins
from modules.cloud.devicecontroller.status_review import StatusReview
from modules.cloud.devicecontroller.status_sizes import StatusSizes
from modules.cloud.devicecontroller.status_writer import StatusWriter
from modules.cloud.devicecontroller.statuses import accepted_values, with_report
from modules.cloud.devicecontroller.validity import conditions_of
from modules.cloud.devices import API_VERSION, DEVICE, DEVICE_MODEL
from modules.cloud.messages import HANDLED, HANDLED_RESOURCE, ConnectEvent, origin_of
from modules.cloud.object_writes import JOURNAL
from modules.cloud.refusals import Refusals
from modules.cloud.storage.object_storage import EventType
from modules.cloud.storage.watch_history import ObjectChanged, ObjectChanges, WatchQuery, WatchStart

_LOOK = 30.0
"""Seconds between two looks for cloudcores that have come or gone; they are known without asking."""
_WATCH_SECONDS: Final = 30.0
"""Timeout of edgecontroller's answer to the beginning of a watch."""
_AGAIN: Final = 5.0
"""Seconds until it is tried again. It asks edgecontroller; the API server is asked by edgecontroller's reflectors."""
_SOON: Final = 0.1
"""The same when edgecontroller's lists are not complete yet."""
_MOST_WAITING = 1000
"""Messages of nodes that wait until the Devices are known; the answer to another one is that it comes again later."""
_DEVICES = "devices"
"""The kind of refused messages in their counter."""
_TWINS, _STATE = "twin/edge_updated", "state/update"
_READERS: dict[str, Callable[[Message], Report]] = {_TWINS: read_twins, _STATE: read_state}

_log = logging.getLogger(__name__)


class Loading:
    """The watches of DeviceModels, then Devices, through edgecontroller, until it is known which there are. It begins
    again with the first kind until both have succeeded. Later changes come to the module as messages.

    Args:
        module: devicecontroller.
        take: takes over an object that there is.
        done: called when all objects are known.
        failed: called when they are not, and it is tried again later.
    """

    def __init__(
        self,
        module: Module,
        *,
        take: Callable[[ObjectChanged], None],
        done: Callable[[], None],
        failed: Callable[[], None],
    ) -> None:
        self._module = module
        self._take = take
        self._done = done
        self._failed = failed
        self._told = ""
        """The last trouble in the log."""
        self._number = 0
        """Number of the last beginning; an earlier one under way is given up."""
        self.kinds: set[str] = set()
        """The kinds whose objects are all known."""
        self.seen: set[ObjectKey] = set()
        """The objects that there are, and have been, since it has begun."""
        self.are_absent = False
        """Whether the API server has no such kinds: that may last."""

    def start(self) -> None:
        """Begin, perhaps again: a restart of edgecontroller ends its watches."""
        self._number += 1
        self.seen.clear()
        self._watch((DEVICE_MODEL, DEVICE), self._number)

    def _start_again(self, number: int) -> None:
        if number == self._number:
            self.start()

    def _watch(self, rest: Sequence[Kind], number: int) -> None:
        if not rest:
            self._done()
            return

        def answered(answer: Message | BeehiveError) -> None:
            if number != self._number:
                return
            start = answer.content_as(WatchStart) if isinstance(answer, Message) else None
            if start is None or start.refusal is not None:
                refusal = (start.refusal if start else None) or {"message": str(answer)}
                self._try_again(str(refusal.get("message")), int(refusal.get("code") or 0))
                return
            for changed in start.changes:
                self.seen.add(key_of(changed.object))
                self._take(changed)
            self.kinds.add(rest[0].key_name)
            self._watch(rest[1:], number)

        request = self._module.message(api_messages.RESOURCE, Verb.WATCH, WatchQuery(rest[0].key_name))
        self._module.request(ModuleName.EDGECONTROLLER, request, _WATCH_SECONDS, answered)

    def _try_again(self, why: str, code: int) -> None:
        self.are_absent = code == HTTPStatus.NOT_FOUND
        is_incomplete = code == HTTPStatus.SERVICE_UNAVAILABLE  # edgecontroller's lists, at its start
        is_new, self._told = why != self._told, why
        level = logging.DEBUG if is_incomplete or not is_new else logging.INFO if code else logging.WARNING
        _log.log(level, "devices are not served yet: %s", why)
        self._module.after(_SOON if is_incomplete else _AGAIN, partial(self._start_again, self._number))
        self._failed()


class DeviceController(Module):
    """The module that tells nodes which devices they have, and writes the nodes' reports into DeviceStatuses.

    It works by API calls and watches, which edgecontroller serves. edgecontroller also sends a node the Devices and
    DeviceModels, in this module's name, because it sends them again until they are acknowledged, and after a restart.

    Of several cloudcores, only the cloudcore with a node's connection writes the statuses of its devices. At the
    embedded API server one other cloudcore maintains the conditions, also for devices whose node is not connected. If
    both write, they write the same values. At a cluster nobody else does: the node may be that of another make of
    cloudcore, such as KubeEdge's, which writes there, too.

    Args:
        refusals: counts refused messages of nodes.
        known: the cloudcores that are alive.
        is_embedded: whether the API server is this cloud's own. A cluster deletes DeviceStatuses with their Devices
            itself, by the owner.
    """

    name: ClassVar[str] = ModuleName.DEVICECONTROLLER
    group: ClassVar[str] = Group.DEVICECONTROLLER
    side: ClassVar[Side] = Side.CLOUD

    def __init__(self, refusals: Refusals, known: KnownCloudcores | None = None, *, is_embedded: bool = True) -> None:
        super().__init__()
        self._refusals = refusals
        self._cloudcores = known or KnownCloudcores()
        self._is_embedded = is_embedded
        self._known = DevicesByKey()
        self._loading = Loading(self, take=self._handle_change, done=self._begin, failed=self._handle_waiting)
        self._is_loaded = False
        self._connected = ConnectedNodes()
        self._waiting: list[Message] = []
        """Reports that have come before the Devices were known."""
        sizes = StatusSizes(self._known)
        self._writer = StatusWriter(self, self._status, self._known, sizes, self._answer, self._keep)
        self._review = StatusReview(self, self._status, self._known, sizes, self._refresh)
        self._restarts = 0
        """Number of edgecontroller's restarts, at the last look."""
        self._reviewed: tuple[str, ...] = ()
        """The cloudcores that were alive at the last review."""

    def on_start(self) -> None:
        """Begin to watch the kinds of devices."""
        self._restarts = self.hive.restarts().get(ModuleName.EDGECONTROLLER, 0)
        self._loading.start()
        self.every(_LOOK, self._check_restarts)

    def give_up(self, message: Message) -> None:
        """Have a message come again later."""
        self._answer(message, HTTPStatus.TOO_MANY_REQUESTS, "devicecontroller has failed")

    @handles(None, Verb.CHANGED, source=ModuleName.EDGECONTROLLER)
    def on_changes(self, message: Message) -> None:
        """Follow changes of Devices and DeviceModels."""
        for changed in message.content_as(ObjectChanges).changes:
            key = key_of(changed.object)
            if key.kind in self._loading.kinds:
                self._loading.seen.add(key)
                self._handle_change(changed)

    @handles(None, Operation.CONNECTED, source=ModuleName.CLOUDHUB, overflow=OverflowPolicy.STATE)
    def on_connected(self, message: Message) -> None:
        """Tell a node which devices it has, at each connection: it may have missed a change."""
        node, _ = origin_of(message)
        if self._connected.begin(node, message.content_as(ConnectEvent).connection) and self._is_loaded:
            self._send_members(node)
            for key in () if self._is_embedded else self._known.on_node(node):
                self._refresh(key)

    @handles(None, Operation.DISCONNECTED, source=ModuleName.CLOUDHUB, overflow=OverflowPolicy.STATE)
    def on_disconnected(self, message: Message) -> None:
        """Take that a connection of a node has ended, perhaps an earlier one."""
        self._connected.end(message)

    @handles()
    def handle(self, message: Message) -> None:
        """Handle a message of a node's devicetwin."""
        self.owe(message)
        node, rest = origin_of(message)
        if not self._is_loaded and not self._loading.are_absent and len(self._waiting) < _MOST_WAITING:
            self._waiting.append(message)
            return
        if not self._is_loaded:  # also without the kinds: edgecontroller may find them sooner, and the node its devices
            reason = "the cloud has no devices, or does not know them yet"
            self._answer(message, HTTPStatus.TOO_MANY_REQUESTS, reason)
        elif rest == "membership/detail":
            self._answer(message, HTTPStatus.OK, "")
            devices = [wire.member(key, self._known.devices[key]) for key in self._known.on_node(node)]
            self._send_down(node, rest, wire.detail(self.clock.new_id(), self.clock.now_ms(), devices))
        else:
            self._handle_report(message, node, rest)
        self.send(ModuleName.CLOUDHUB, self.message(HANDLED_RESOURCE, HANDLED, {node: 1}))

    def _handle_report(self, message: Message, node: str, rest: str) -> None:
        kind, _, path = rest.partition("/")
        namespace, _, path = path.partition("/")
        name, _, what = path.partition("/")
        read = _READERS.get(what) if kind == "device" else None
        if read is None:
            self._refuse(message, node, HTTPStatus.BAD_REQUEST, "no message of a devicetwin")
            return
        key = device_key(namespace, name)
        device = self._known.devices.get(key)
        if device is None or device.node != node:
            self._refuse(message, node, HTTPStatus.NOT_FOUND, "the node has no such device")
            return
        try:
            report = read(message)
        except ReportError as error:
            self._refuse(message, node, error.code, error.reason)
            return
        self._writer.report(key, report.of(device.names), message)

    def _refuse(self, message: Message, node: str, code: int, reason: str) -> None:
        why = "not a device of the node" if code == HTTPStatus.NOT_FOUND else "not a report that can be taken"
        self._refusals.record(node, why, _DEVICES, f"{message.route.resource[:200]}: {reason}")
        self._answer(message, code, reason)

    def _answer(self, message: Message, code: int, reason: str, later: Times | None = None) -> None:
        """Answer a message of a node; KubeEdge's resource for it is the word `twin`."""
        node, _ = origin_of(message)
        reply = message.reply(self.clock, wire.answer(code, reason, later), source=self.name)
        self.send(ModuleName.CLOUDHUB, reply.with_route(group=Group.TWIN, resource=f"node/{node}/twin"))
        self.settle(message)

    def _send_down(self, node: str, resource: str, content: JsonObject) -> None:
        message = self.message(f"node/{node}/{resource}", Operation.UPDATE, content, group=Group.TWIN)
        self.send(ModuleName.CLOUDHUB, message)

    def _send_members(self, node: str) -> None:
        members = [wire.member(key, self._known.devices[key]) for key in self._known.on_node(node)]
        if members:
            self._send_membership(node, members, None)

    def _send_membership(self, node: str, added: list[JsonObject] | None, gone: list[JsonObject] | None) -> None:
        self._send_down(node, "membership", wire.membership(self.clock.new_id(), self.clock.now_ms(), added, gone))

    def _handle_change(self, changed: ObjectChanged) -> None:
        key = key_of(changed.object)
        if key.kind == DEVICE_MODEL.key_name:
            for user in self._known.put_model(key, changed):
                self._refresh(user)
        else:
            self._device_changed(self._known.put_device(key, changed))

    def _device_changed(self, change: DeviceChange) -> None:
        if change.old == change.new or not self._is_loaded:
            return  # the objects of the first list are reviewed later, and nodes get all their devices
        self._refresh(change.key)
        old, new = (each.node if each is not None else "" for each in (change.old, change.new))
        if old and old != new:
            self._send_membership(old, None, [wire.removed(change.key)])
        if new and old != new and change.new is not None:
            self._send_membership(new, [wire.member(change.key, change.new)], None)

    def _status(self, key: ObjectKey, live: JsonObject | None, report: Report) -> JsonObject | None:
        """Return the DeviceStatus of a Device; None if it is to be deleted, as the Device no longer exists."""
        device = self._known.devices.get(key)
        if device is None:
            return None if self._is_embedded else live
        conditions = conditions_of(device, self._known.model_of(key, device))
        at = format_rfc3339(self.clock.now())
        return with_report(live, key, device, report, conditions, now=self.clock.now_ms(), at=at)

    def _keep(self, key: ObjectKey, status: JsonObject, report: Report) -> None:
        """Pass the values of a report on to the device history."""
        device = self._known.devices.get(key)
        values = [
            DeviceValue(key.namespace, key.name, name, device.node, side.timestamp / 1000, side.value[:LONGEST_VALUE])
            for name, side in accepted_values(status, report)
            if device is not None
        ]
        if values:
            self.broadcast(JOURNAL, self.message(VALUES_RESOURCE, REPORTED, values))

    def _refresh(self, key: ObjectKey) -> None:
        """Have the DeviceStatus of a Device written if that is this cloudcore's duty."""
        device = self._known.devices.get(key)
        is_here = device is None or device.node in self._connected.nodes
        if self._is_loaded and (is_here or (self._is_embedded and self._cloudcores.owns(Duty.DEVICES, str(key)))):
            self._writer.refresh(key)

    def _check_restarts(self) -> None:
        """Start the watches again after a restart of edgecontroller, which does not know which changes it has not
        passed on. Reviews all DeviceStatuses when cloudcores have started or ended: a status may be without the
        cloudcore that had to write it.
        """
        restarts = self.hive.restarts().get(ModuleName.EDGECONTROLLER, 0)
        if self._is_loaded and restarts != self._restarts:
            self._restarts = restarts
            self._loading.start()
        elif self._is_loaded and self._reviewed != self._cloudcores.present:
            self._start_review()

    def _start_review(self) -> None:
        self._reviewed = self._cloudcores.present
        self._review.start()

    def _begin(self) -> None:
        self._is_loaded = True
        for key in self._known.others_than(self._loading.seen):
            self._handle_change(ObjectChanged(EventType.DELETED, _named(key)))
        for node in sorted(self._connected.nodes):
            self._send_members(node)
        self._start_review()
        self._handle_waiting()

    def _handle_waiting(self) -> None:
        """Handle the messages that wait; those for which it is too early go on waiting."""
        waiting, self._waiting = self._waiting, []
        for message in waiting:
            self.handle(message)


def _named(key: ObjectKey) -> JsonObject:
    """Return an object with only its kind and name."""
    kind, metadata = key.kind.partition(".")[0], {"name": key.name, "namespace": key.namespace}
    return {"kind": kind, "apiVersion": API_VERSION, "metadata": metadata}
