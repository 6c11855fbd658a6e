"""What is repeated of the cloud's messages about devices that the store has refused."""

from contextlib import nullcontext
from typing import Any, cast

import pytest

from modules.edge.devicetwin import membership, requests
from modules.edge.devicetwin.answers import MessageStamp
from modules.edge.devicetwin.changes import Rules
from modules.edge.devicetwin.errors import TwinRefused
from modules.edge.devicetwin.membership import Members
from modules.edge.devicetwin.requests import DeviceRequest, MembershipRequest
from modules.edge.devicetwin.slots import Done
from modules.edge.devicetwin.state import Device
from modules.edge.devicetwin.topics import LONGEST_TOPIC, is_device_id

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

    saved = get

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


def test_so_many_refused_messages_are_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership, "MAX_DEVICES", 1)
    store = FullStore()
    members = Members(cast("Any", store), "n1", Rules(), lambda: None)
    store.is_full = True
    members.handle(MembershipRequest("e", added=tuple(DeviceRequest(f"ns/{each}", each) for each in "ab")), _STAMP)
    assert list(members._unstored) == ["ns/a"]


def test_a_node_has_so_many_devices_and_a_message_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """And ids are no longer than topics."""
    monkeypatch.setattr(membership, "MAX_DEVICES", 2)
    store = FullStore()
    members = Members(cast("Any", store), "n1", Rules(), lambda: None)
    wanted = [DeviceRequest(f"ns/{name}", name) for name in ("a", "b", "c")]
    (note,) = members.handle(MembershipRequest("e", added=tuple(wanted)), _STAMP)
    assert (list(store.devices), "ns/c is not taken" in note) == (["ns/a", "ns/b"], True)
    monkeypatch.setattr(requests, "MAX_DEVICES_IN_MESSAGE", 2)
    names = [{"id": f"ns/{name}"} for name in "abc"]
    assert len(requests.read_membership({"added_devices": names[:2]}).added) == 2
    with pytest.raises(TwinRefused, match="at most 2"):
        requests.read_membership({"added_devices": names})
    assert is_device_id("x" * LONGEST_TOPIC)
    assert not is_device_id("x" * (LONGEST_TOPIC + 1))


@pytest.mark.parametrize(("text", "is_taken"), [("x" * 1024, True), ("x" * 1025, False), (7, False)])
def test_texts_of_devices_are_bounded(text: object, *, is_taken: bool) -> None:
    request = {"added_devices": [{"id": "ns/a", "description": text}]}
    with nullcontext() if is_taken else pytest.raises(TwinRefused, match="at most 1024 characters"):
        requests.read_membership(request)
