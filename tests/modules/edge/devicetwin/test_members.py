"""What is repeated of the cloud's messages about devices that the store has refused."""

from typing import Any, cast

import pytest

from modules.edge.devicetwin import membership
from modules.edge.devicetwin.answers import MessageStamp
from modules.edge.devicetwin.changes import Rules
from modules.edge.devicetwin.membership import Members
from modules.edge.devicetwin.requests import DeviceRequest, MembershipRequest
from modules.edge.devicetwin.slots import Done
from modules.edge.devicetwin.state import Device

_STAMP = MessageStamp(1, lambda: "id")


class FullStore:
    """Devices of a store that refuses all changes while it is full."""

    def __init__(self) -> None:
        self.devices: dict[str, Device] = {}
        self.is_full = False

    def __len__(self) -> int:
        return len(self.devices)

    def get(self, device_id: str) -> Device | None:
        """Return a device."""
        return self.devices.get(device_id)

    def change(self, device: Device, _said: object, _failed: object, done: Done) -> None:
        """Store a device, or refuse to."""
        if not self.is_full:
            self.devices[device.id] = device
        done(not self.is_full)


def test_the_newest_refused_message_counts_also_beyond_the_bound_of_their_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(membership, "MAX_DEVICES", 1)
    store = FullStore()
    members = Members(cast("Any", store), "n1", Rules(), lambda: None)
    store.is_full = True
    for description in ("older", "newer"):
        members.handle(MembershipRequest("e", added=(DeviceRequest("ns/a", "a", description),)), _STAMP)
    store.is_full = False
    members.repeat(_STAMP)
    assert [each.description for each in store.devices.values()] == ["newer"]
    store.devices.clear()
    members.repeat(_STAMP)
    assert not store.devices, "it is stored once"
