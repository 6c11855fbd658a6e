"""Invariants of the stored devices of a node."""

import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

from metamanager.rows import Row
from modules.apimachinery.device_objects import read_model
from modules.apimachinery.device_properties import ModelProperty, desired_fault
from modules.edge.devicetwin.state import Device, Side, Twin, decode
from modules.lab.simulate.broker import SimulatedBroker
from modules.lab.simulate.world import World
from protos.dmi.v1beta1 import api_pb2 as dmi

TEMPERATURE = "temperature"
"""The property whose values a device counts up, so that each value identifies its report."""

_KIND = "/devicetwin/"
_OBJECT = "/device/"
_MODEL = "/devicemodel/"
_ON_ITS_WAY = 2.0
"""Seconds during which a stored model reaches dmi."""


class DeviceWatch:
    """The checks that versions never fall, that a report is stored before it is answered, and that a crash loses none.

    It outlives the node's processes, as the store does.

    Args:
        world: collects violations.
        node: node of the store.
        broker: has the reports that come again.
    """

    def __init__(self, world: World, node: str, broker: SimulatedBroker) -> None:
        self._world = world
        self._node = node
        self._broker = broker
        self._durable: dict[str, Device] = {}
        self._newest: dict[str, int] = {}
        """Number of the newest report that was ever stored, by device; older ones may have been stored with it."""
        self._answered: dict[str, int] = {}
        """Number of the newest answered report, by device."""
        self._changes: dict[str, Device | None] = {}
        self._removed: set[str] = set()
        """Devices whose rows the next commit removes; one may be there again in the same commit."""
        self._models: list[tuple[float, str, dict[str, ModelProperty]]] = []
        """The stored models: the time of the commit, `namespace/name`, and the properties."""
        self._models_now: list[tuple[str, dict[str, ModelProperty]]] = []
        self._ended: set[str] = set()
        """Devices that were deleted in the cloud, or lost there: reported values of the old one are dropped without
        having been stored."""
        self._uids: dict[str, str] = {}
        """The uid of the stored Device object, by device."""
        self._uids_now: dict[str, str] = {}
        self._made_again: Counter[str] = Counter()
        """How often the object of a device was deleted or became another one since the device has begun again. The new
        device begins with new versions, and takes the place of the old one in a single commit if it comes immediately.
        """

    def begin(self) -> None:
        """Drop uncommitted changes."""
        self._changes, self._models_now, self._uids_now, self._removed = {}, [], {}, set()

    def put(self, row: Row) -> None:
        """Note a row that is about to be committed."""
        if _KIND in row.key:
            self._changes[row.key.replace(_KIND, "/")] = decode(row.value.encode())
        elif _OBJECT in row.key:
            self._uids_now[row.key.replace(_OBJECT, "/")] = row.uid
        elif _MODEL in row.key:
            self._models_now.append((row.key.replace(_MODEL, "/"), read_model(row.value.encode()).properties))

    def deleted(self, key: str) -> None:
        """Note the removal of a row that is about to be committed."""
        if _KIND in key:
            self._changes[key.replace(_KIND, "/")] = None
            self._removed.add(key.replace(_KIND, "/"))
        elif _OBJECT in key:
            self._made_again[key.replace(_OBJECT, "/")] += 1
            self._uids.pop(key.replace(_OBJECT, "/"), None)

    def committed(self) -> None:
        """Check the committed changes."""
        self._models += [(self._world.now(), name, properties) for name, properties in self._models_now]
        self._models_now = []
        self._made_again.update(name for name, uid in self._uids_now.items() if self._uids.get(name, uid) != uid)
        self._uids |= self._uids_now
        self._uids_now = {}
        removed, self._removed = self._removed, set()
        for device_id in removed:
            self._durable.pop(device_id, None)
            self._begins_again(device_id)
        changes, self._changes = self._changes, {}
        for device_id, device in changes.items():
            if device is None:
                continue
            before = self._durable.get(device_id)
            fallen = _fallen(before, device)
            if self._made_again[device_id] and (fallen or _lost_twins(before, device)):
                self._begins_again(device_id)
            elif fallen:
                self._violated("versions of a device never fall", f"{device.id} {fallen}")
            self._durable[device_id] = device
            self._newest[device_id] = max(number_of(device), self._newest.get(device_id, 0))

    def _begins_again(self, device_id: str) -> None:
        self._answered.pop(device_id, None)
        if self._made_again[device_id]:
            self._made_again[device_id] -= 1

    def answered(self, device_id: str, number: int) -> None:
        """Take the answer to a report that the device has got."""
        if number > self._newest.get(device_id, 0) and device_id not in self._ended:
            self._violated("a report is stored before it is answered", f"{device_id}: report {number}")
        device = self._durable.get(device_id)
        if device is not None and number_of(device) >= number:
            self._answered[device_id] = max(number, self._answered.get(device_id, 0))

    def check_mapper(self, device: dmi.Device) -> None:
        """Check a device that a mapper receives: the node's model allows its desired values, as it is stored now or was
        a moment ago.
        """
        name = f"{device.namespace}/{device.spec.deviceModelReference}"
        known = [(at, properties) for at, each, properties in self._models if each == name]
        now = self._world.now()
        before = [properties for at, properties in known if at <= now - _ON_ITS_WAY][-1:]
        in_force = before + [properties for at, properties in known if at > now - _ON_ITS_WAY]
        for one in device.spec.properties:
            if known and all(desired_fault(rules.get(one.name), one.name, one.desired.value) for rules in in_force):
                text = f"{device.namespace}/{device.name} {one.name}: {one.desired.value}"
                self._violated("no mapper is told what the model forbids", text)

    def ended(self, device_id: str) -> None:
        """Note that a device is deleted in the cloud, or lost there."""
        self._ended.add(device_id)

    def lost(self) -> None:
        """Forget everything: the store no longer exists."""
        self._durable.clear()
        self._answered.clear()
        self._uids.clear()
        self._made_again.clear()
        self.begin()

    def check(self, database: Path) -> None:
        """Check the database that the next process finds."""
        self.begin()
        there = devices_in(database)
        for device_id, number in sorted(self._answered.items()):
            found = number_of(there[device_id]) if device_id in there else 0
            if found < number and not self._broker.holds(f'"event_id":"t{number}"'):
                self._violated("no answered report is lost", f"{device_id}: report {number}, there is {found}")

    def _violated(self, invariant: str, text: str) -> None:
        self._world.violated(invariant, f"{self._node}: {text}")


def _fallen(before: Device | None, after: Device) -> str:
    """Return the first version of a device that is lower than before, or ""."""
    for name, twin in after.twins.items() if before is not None else ():
        old = before.twins.get(name, Twin()) if before is not None else Twin()
        for was, now in ((old.expected, twin.expected), (old.actual, twin.actual)):
            versions = [((side or Side()).cloud, (side or Side()).edge) for side in (was, now)]
            if versions[1][0] < versions[0][0] or versions[1][1] < versions[0][1]:
                return f"{name}: {versions[0]} became {versions[1]}"
    return ""


def _lost_twins(before: Device | None, after: Device) -> bool:
    """Return whether a device has no longer all its twins, as one that begins again."""
    return before is not None and not before.twins.keys() <= after.twins.keys()


def number_of(device: Device) -> int:
    """Return the number of the report that a device's temperature is of, or 0."""
    actual = device.twins.get(TEMPERATURE, Twin()).actual
    return int(actual.value) if actual is not None and actual.value else 0


def devices_in(path: Path) -> dict[str, Device]:
    """Return the devices in a node's database, by id."""
    if not path.exists():
        return {}
    with closing(sqlite3.connect(path)) as database:
        rows = database.execute("SELECT value FROM meta WHERE type = 'devicetwin'").fetchall()
    return {device.id: device for device in (decode(value.encode()) for (value,) in rows)}
