"""Manifests of devices, and the checks of devices at the end."""

from collections.abc import Iterator
from typing import Final

from modules.apimachinery.kinds import uid_of
from modules.cloud.devices import API_VERSION, DEVICE, DEVICE_MODEL, DEVICE_STATUS
from modules.edge.devicetwin.state import Device, Side, Twin
from modules.lab.simulate.cloud import SimulatedCloud
from modules.lab.simulate.device import THRESHOLD, SimulatedDevice
from modules.lab.simulate.device_watch import TEMPERATURE, devices_in
from modules.lab.simulate.disk import DATABASE
from modules.lab.simulate.documents import JsonObject
from modules.lab.simulate.mapper import PROTOCOL
from modules.lab.simulate.node import SimulatedNode
from modules.lab.simulate.plan import DeviceAction, DeviceStep
from modules.lab.simulate.wire_watch import rows_in

MODEL: Final = "model"
"""The name of the model of all devices."""


def model_document(*, is_writable: bool) -> JsonObject:
    """Return the manifest of the model."""
    access = "ReadWrite" if is_writable else "ReadOnly"
    properties = [
        {"name": TEMPERATURE, "type": "INT", "accessMode": "ReadOnly"},
        {"name": THRESHOLD, "type": "INT", "accessMode": access, "minimum": "0", "maximum": "100"},
    ]
    meta = {"name": MODEL, "namespace": "default"}
    spec = {"protocol": PROTOCOL, "properties": properties}
    return {"apiVersion": API_VERSION, "kind": "DeviceModel", "metadata": meta, "spec": spec}


def device_document(step: DeviceStep) -> JsonObject | None:
    """Return the manifest of a step; None if the Device is deleted."""
    if step.action is DeviceAction.DELETED:
        return None
    properties = [{"name": TEMPERATURE}, {"name": THRESHOLD, "desired": {"value": str(step.value)}}]
    spec = {"deviceModelRef": {"name": MODEL}, "nodeName": f"node-{step.node}", "properties": properties}
    meta = {"name": step.name, "namespace": "default"}
    return {"apiVersion": API_VERSION, "kind": "Device", "metadata": meta, "spec": spec}


def device_disagreements(node: SimulatedNode, cloud: SimulatedCloud) -> Iterator[str]:
    """Yield each disagreement about a node's devices as a line."""
    if not node.devices:
        return
    if not node.broker.is_empty:
        yield "the broker has messages that the node has not acknowledged"
    stored = devices_in(node.state / DATABASE)
    yield from _left_over_objects(node, cloud)
    for device in node.devices.values():
        yield from _of_device(device, stored.get(device.id), cloud)
        yield from _of_status(device, cloud)


def _left_over_objects(node: SimulatedNode, cloud: SimulatedCloud) -> Iterator[str]:
    """Yield the Devices and DeviceModels of a node's store that the cloud does not have."""
    kinds = {kind.singular: kind.key_name for kind in (DEVICE, DEVICE_MODEL)}
    for key, (uid, _) in rows_in(node.state).items():
        kind, _, name = key.partition("/")[2].partition("/")
        if kind not in kinds:
            continue
        live = cloud.find(kinds[kind], "default", name)
        if live is None or uid_of(live) != uid:
            yield f"row {key} ({uid[:8]}) is left over"


def _of_device(device: SimulatedDevice, stored: Device | None, cloud: SimulatedCloud) -> Iterator[str]:
    wanted = cloud.find(DEVICE.key_name, "default", device.name)
    if wanted is None:
        if stored is not None:
            yield f"{device.id} is left over on the node"
        return
    if stored is None:
        yield f"the node does not have {device.id}"
        return
    desired = next(one["desired"]["value"] for one in wanted["spec"]["properties"] if one["name"] == THRESHOLD)
    expected = (stored.twins.get(THRESHOLD, Twin()).expected or Side()).value
    model = cloud.find(DEVICE_MODEL.key_name, "default", MODEL) or model_document(is_writable=True)
    if any(one["name"] == THRESHOLD and one["accessMode"] == "ReadOnly" for one in model["spec"]["properties"]):
        if expected:
            yield f"the model of {device.id} forbids a desired value, expected is {expected}"
        return
    if not desired == expected == device.threshold:
        yield f"of {device.id} {desired} is desired, expected is {expected}, and the device was told {device.threshold}"


def _of_status(device: SimulatedDevice, cloud: SimulatedCloud) -> Iterator[str]:
    """Check the reported values in the cloud."""
    status = cloud.find(DEVICE_STATUS.key_name, "default", device.name)
    if cloud.find(DEVICE.key_name, "default", device.name) is None:
        return
    told = (status or {}).get("status") or {}
    reported = {one["propertyName"]: one.get("reported", {}).get("value") for one in told.get("twins") or []}
    is_now = {THRESHOLD: device.threshold, TEMPERATURE: str(device.temperature or "")}
    for name, value in is_now.items():
        if value and reported.get(name) != value:
            yield f"{device.id} has reported {name} {value}, its DeviceStatus has {reported.get(name)}"
    if device.state and told.get("state") != device.state:
        yield f"{device.id} has reported the state {device.state}, its DeviceStatus has {told.get('state')}"
