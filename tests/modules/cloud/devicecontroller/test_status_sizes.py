"""How much of a node's room the status of a device takes."""

from typing import Any

from modules.apimachinery.kinds import JsonObject, ObjectKey
from modules.cloud.devicecontroller.devices_by_key import DevicesByKey, device_key
from modules.cloud.devicecontroller.status_sizes import BYTES, StatusSizes, size_of
from modules.cloud.storage.watch_history import ObjectChanged


def put_device(known: DevicesByKey, name: str, node: str, properties: int = 0) -> ObjectKey:
    """A Device with so many properties, which is on this node from now on."""
    key = device_key("default", name)
    metadata = {"name": name, "namespace": "default", "uid": name}
    spec = {"nodeName": node, "properties": [{"name": f"p{each}"} for each in range(properties)]}
    known.put_device(key, ObjectChanged("MODIFIED", {"metadata": metadata, "spec": spec}))
    return key


def status(part: float) -> JsonObject:
    """A status that takes about this part of a node's room."""
    whole = {"status": {"twins": [_twin(BYTES)]}}
    return {"status": {"twins": [_twin(int(part * BYTES * BYTES / size_of(whole)))]}}


def _twin(size: int) -> dict[str, Any]:
    return {"propertyName": "t", "reported": {"value": "x" * size}}


def test_a_device_that_has_moved_takes_no_room_of_its_new_node_with_it() -> None:
    """Its status, which is written again now, counts there like a new one."""
    known = DevicesByKey()
    sizes = StatusSizes(known)
    moved, other = put_device(known, "moved", "n1"), put_device(known, "other", "n2")
    sizes.put(moved, status(0.4))
    sizes.put(other, status(0.4))
    put_device(known, "moved", "n2")
    assert "n2" in sizes.refusal(moved, status(0.7))
    assert sizes.refusal(moved, status(0.5)) == ""


def test_each_property_has_room() -> None:
    """People have made them."""
    known = DevicesByKey()
    put_device(known, "other", "n1", 500)
    key = put_device(known, "d", "n1", 500)
    assert StatusSizes(known).refusal(key, status(1.0 + 1000 * 2048 / BYTES - 0.01)) == ""
    assert StatusSizes(known).refusal(key, status(1.0 + 1000 * 2048 / BYTES + 0.01))


def test_a_status_that_becomes_no_larger_is_written_although_its_node_has_too_much() -> None:
    known = DevicesByKey()
    sizes = StatusSizes(known)
    key = put_device(known, "d", "n1")
    sizes.put(key, status(2.0))
    assert sizes.refusal(key, status(1.5)) == sizes.refusal(key, status(2.0)) == ""
    assert sizes.refusal(key, status(2.5))


def test_a_device_that_changes_stays_on_its_node() -> None:
    known = DevicesByKey()
    put_device(known, "d", "n1")
    key = put_device(known, "d", "n1", 1)
    assert known.on_node("n1") == [key]
