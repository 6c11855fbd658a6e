"""The node's record of a device: immutable values, stored as JSON in a row of metamanager's store."""

from collections.abc import Mapping
from typing import Final

import msgspec

from beehive.decoding import decode_json

DELETED: Final = "deleted"
"""Type of a deleted property, which keeps its versions (KubeEdge's tombstone)."""

CLOUD: Final = "cloud"
APPLICATION: Final = "application"
OWNER: Final = "devices set"
"""Writers of expected values: the Device object; an application or a mapper; `edgecore devices set`."""


Times = Mapping[str, Mapping[str, int]]
"""Milliseconds since the Unix epoch by property, and by side of the twin, `actual` or `expected`."""


class Side(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One side of a twin: the expected value, or the actual one."""

    value: str | None = None
    """None in a tombstone."""
    timestamp: int = 0
    """Time of the last change, in milliseconds since the Unix epoch."""
    cloud: int = 0
    """The cloud's version."""
    edge: int = 0
    """The edge's version."""
    due: int = 0
    """Number of the last change that the cloud has not confirmed; 0 if it has confirmed all. See `Device.number`."""
    told: bool = False
    """Whether the cloud has confirmed this side before. A KubeEdge cloud confirms the first report of a property but
    loses it (issue 7014), so the first report is sent twice."""
    seen: bool = False
    """Whether the device has confirmed an expected value of the cloud; then the cloud learns it (`observedDesired`)."""
    by: str = ""
    """The writer of an expected value on this node (`APPLICATION`, `OWNER`); empty for the cloud."""


class Twin(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A property of a device, with its expected and its actual value."""

    expected: Side | None = None
    actual: Side | None = None
    optional: bool = True
    """Whether applications may delete it."""
    type: str = "string"
    desired: str | None = None
    """The last desired value taken from the Device object. While the object repeats it, a value that was set on the
    node stays in force."""

    past: str = ""
    """The last reported values (`modules.edge.devicetwin.past`)."""

    past_expected: str = ""
    """The last expected values and their writers."""

    @property
    def is_live(self) -> bool:
        """Whether the property exists and is not a tombstone."""
        return self.type != DELETED

    @property
    def expected_by(self) -> str:
        """The writer of the expected value; empty without one. Rows of earlier versions do not name an
        application.
        """
        side = self.expected
        if side is None or not side.value:
            return ""
        from_cloud = side.value == self.desired or (self.desired is None and side.cloud > 0)
        return side.by or (CLOUD if from_cloud else APPLICATION)


class Attribute(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """An attribute of a device, which only the cloud writes (clouds of 2019)."""

    value: str = ""
    optional: bool = True
    type: str = "string"


class Device(msgspec.Struct, frozen=True, omit_defaults=True):
    """A device, its state and its properties."""

    id: str
    """`namespace/name`; a single word from a KubeEdge cloud of 2019."""
    name: str = ""
    description: str = ""
    state: str = ""
    last_online: str = ""
    """Time when the device was last online, RFC 3339 in UTC; kept while it is offline (KubeEdge erases it)."""
    attributes: dict[str, Attribute] = {}
    twins: dict[str, Twin] = {}
    number: int = 0
    """Number of the last change; `Side.due` and `state_due` refer to these numbers."""
    state_due: int = 0
    """Number of the last state change that the cloud has not confirmed; 0 if it has confirmed all."""
    has_object: bool = False
    """Whether the cloud has sent a Device object for it; the device is then removed with that object."""
    uid: str = ""
    """That object's; empty in rows of earlier versions."""
    refusal: str = ""
    """Why its mapper does not take it; empty if it does, or has none."""

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name under which it is stored."""
        namespace, _, name = self.id.rpartition("/")
        return namespace, name

    @property
    def desired_by_owner(self) -> dict[str, str]:
        """The expected values that the node's owner has set; mappers receive them instead of the cloud's."""
        sides = {name: one.expected for name, one in self.twins.items() if one.is_live}
        return {name: one.value for name, one in sides.items() if one is not None and one.by == OWNER and one.value}

    @property
    def twins_are_due(self) -> bool:
        """Whether some value is not confirmed by the cloud."""
        return any(side is not None and side.due for one in self.twins.values() for side in (one.expected, one.actual))

    @property
    def size(self) -> int:
        """Characters of its values and names."""
        return sum(
            len(name) + sum(len(side.value or "") for side in (one.expected, one.actual) if side is not None)
            for name, one in self.twins.items()
        )


def encode(device: Device) -> bytes:
    """Return the row of a device."""
    return msgspec.json.encode(device)


def decode(row: bytes) -> Device:
    """Return the device of a row. Raises msgspec.DecodeError."""
    return decode_json(row, Device)


def confirmed(device: Device, number: int) -> Device:
    """Return the device after the cloud has confirmed its values up to a change.

    A value that was sent for the first time stays due (`Side.told`).
    """
    twins = {name: _confirmed_twin(one, number) for name, one in device.twins.items()}
    return msgspec.structs.replace(device, twins=twins)


def settled(device: Device, number: int) -> Device:
    """Return the device after the cloud has finally refused its values up to a change: they are not sent again."""
    return confirmed(confirmed(device, number), number)


def moved_after(device: Device, times: Times) -> Device:
    """Return the device with its values, where the cloud has ones with later times, after these.

    The node's clock is behind, and the database that knew how late those times were is lost.
    """
    named = ((name, device.twins.get(name), later) for name, later in times.items())
    twins = {name: _moved_twin(one, later) for name, one, later in named if one is not None}
    return msgspec.structs.replace(device, twins={**device.twins, **twins})


def state_confirmed(device: Device, number: int) -> Device:
    """Return the device after the cloud has confirmed its state up to a change."""
    return msgspec.structs.replace(device, state_due=0) if device.state_due <= number else device


def _confirmed_twin(twin: Twin, number: int) -> Twin:
    sides = [_confirmed_side(side, number) for side in (twin.expected, twin.actual)]
    if sides[0] is twin.expected and sides[1] is twin.actual:
        return twin
    return msgspec.structs.replace(twin, expected=sides[0], actual=sides[1])


def _moved_twin(twin: Twin, later: Mapping[str, int]) -> Twin:
    expected = _moved_side(twin.expected, later.get("expected", 0))
    return msgspec.structs.replace(twin, expected=expected, actual=_moved_side(twin.actual, later.get("actual", 0)))


def _moved_side(side: Side | None, later: int) -> Side | None:
    if side is None or not later or side.timestamp > later:
        return side
    return msgspec.structs.replace(side, timestamp=later + 1)


def _confirmed_side(side: Side | None, number: int) -> Side | None:
    if side is None or not 0 < side.due <= number:
        return side
    if not side.told:
        return msgspec.structs.replace(side, told=True)
    return msgspec.structs.replace(side, due=0)
