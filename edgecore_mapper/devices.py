"""The devices and models of a mapper, and their threads."""

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

from beehive.clock import Clock
from edgecore_mapper.device_thread import DeviceThread, Reports, Wish
from edgecore_mapper.driver import DeviceDriver, DriverSpec, spec_of
from edgecore_mapper.method_calls import MethodRefused
from protos.dmi.v1beta1 import api_pb2 as dmi

_log = logging.getLogger(__name__)

MAX_DEVICES: Final = 500
"""Largest number of devices of one mapper; each has a thread."""

STOP_SECONDS: Final = 5.0

Drivers = Mapping[str, Callable[[DriverSpec], DeviceDriver]]
"""The function that makes a driver (usually its class), by the name of the device's model; `*` stands for all other
models.
"""


class DeviceRefused(Exception):  # noqa: N818 - an answer to edgecore
    """A device that this mapper cannot accept; the text gives the reason."""


class MappedDevices:
    """The devices that edgecore has sent. Called on the threads of the mapper's server.

    Args:
        drivers: of the models.
        reports: sends the reports of all devices.
        clock: of all devices.
    """

    def __init__(self, drivers: Drivers, reports: Reports, clock: Clock) -> None:
        self._drivers = drivers
        self._reports = reports
        self._clock = clock
        self._lock = threading.RLock()
        self._models: dict[str, dmi.DeviceModel] = {}
        self._devices: dict[str, tuple[dmi.Device, dmi.DeviceModel, DeviceThread]] = {}
        self._ending: dict[str, DeviceThread] = {}
        """The threads of removed devices that may not have ended: a device of the same name waits for them."""
        self._refusals: dict[str, str] = {}
        """The devices that were refused last, each with the reason: it is in the log once."""
        self._is_stopped = False
        self._registering = False
        self._changed_models: set[str] = set()
        self._changed_devices: set[str] = set()

    def record_changes(self) -> None:
        """Note what edgecore changes until `replace`: the answer to a registration may be older."""
        with self._lock:
            self._registering = True
            self._changed_models.clear()
            self._changed_devices.clear()

    def put_model(self, model: dmi.DeviceModel) -> None:
        """Store a model, and update its devices."""
        with self._lock:
            self._record(self._changed_models, _id(model))
            self._models[_id(model)] = model
            for device in [one for one, old, _ in self._devices.values() if _id(old) == _id(model)]:
                self._put(device)

    def remove_model(self, key: str) -> None:
        """Remove a model."""
        with self._lock:
            self._record(self._changed_models, key)
            self._models.pop(key, None)

    def put(self, device: dmi.Device) -> None:
        """Start or update a device; an unchanged one is left alone. Raises DeviceRefused."""
        with self._lock:
            self._take(device)
            self._record(self._changed_devices, _id(device))

    def _take(self, device: dmi.Device) -> None:
        key = _id(device)
        try:
            self._put(device)
        except DeviceRefused as refused:
            if self._refusals.get(key) != str(refused):
                self._refusals[key] = str(refused)
                _log.warning("%s is refused: %s", key, refused)
            raise
        self._refusals.pop(key, None)

    def _put(self, device: dmi.Device) -> None:
        """Start or update a device that edgecore has sent now or, if its model has changed, before."""
        if self._is_stopped:
            raise DeviceRefused("this mapper has stopped")
        key = _id(device)
        model = self._models.get(f"{device.namespace}/{device.spec.deviceModelReference}")
        if model is None:
            raise DeviceRefused(f"the model {device.spec.deviceModelReference} of {key} is not known here")
        driver = self._drivers.get(model.name) or self._drivers.get("*")
        if driver is None:
            raise DeviceRefused(f"this mapper has no driver for the model {model.name}")
        old = self._devices.get(key)
        if old is None and len(self._devices) >= MAX_DEVICES:
            raise DeviceRefused(f"this mapper has {MAX_DEVICES} devices already")
        spec = spec_of(device, model)
        if old is not None and spec_of(old[0], old[1]).wants_only_others(spec):
            self._devices[key] = (device, model, old[2])
            old[2].desire(spec)
            return
        previous, written = self._ending.pop(key, None), dict[str, Wish]()
        if old is not None:
            previous, written = old[2], old[2].written
            previous.stop()
        thread = DeviceThread(spec, driver, self._reports, self._clock, previous, written)
        self._devices[key] = (device, model, thread)
        thread.start()

    def remove(self, key: str) -> None:
        """Stop a device."""
        with self._lock:
            self._record(self._changed_devices, key)
            self._refusals.pop(key, None)
            found = self._devices.pop(key, None)
            if found is not None:
                found[2].stop()
                self._ending = {name: thread for name, thread in self._ending.items() if thread.is_alive()}
                self._ending[key] = found[2]

    def replace(
        self, models: list[dmi.DeviceModel], devices: list[dmi.Device], *, tells_all: bool = False
    ) -> dict[str, str]:
        """Start the models and devices in the answer to a registration, and stop all others, except for those that
        edgecore has changed since `record_changes`; return the refused devices, each with the reason.

        Args:
            models: in the answer.
            devices: in the answer.
            tells_all: whether edgecore may lack what was reported to it before.
        """
        refusals = {}
        with self._lock:
            newer_models, newer = self._changed_models, self._changed_devices
            self._registering = False
            for model in models:
                if _id(model) not in newer_models:
                    self.put_model(model)
            for key in self._devices.keys() - newer - {_id(one) for one in devices}:
                self.remove(key)
            for _, _, thread in self._devices.values() if tells_all else ():
                thread.report_all()
            for device in devices:
                try:
                    if _id(device) not in newer:
                        self.put(device)
                except DeviceRefused as refused:
                    refusals[_id(device)] = str(refused)
        return refusals

    def _record(self, changed: set[str], key: str) -> None:
        if self._registering:
            changed.add(key)

    def get(self, key: str) -> dmi.Device | None:
        """Return a device with its last values."""
        with self._lock:
            found = self._devices.get(key)
        if found is None:
            return None
        answer = dmi.Device()
        answer.CopyFrom(found[0])
        del answer.status.twins[:]
        for name, value in sorted(found[2].values.items()):
            answer.status.twins.append(dmi.Twin(propertyName=name, reported=dmi.TwinProperty(value=value)))
        return answer

    def methods(self, key: str) -> list[dict[str, Any]]:
        """Return the methods of a device, as mapper-framework tells them. Raises MethodRefused."""
        device, model, _ = self._found(key)
        kinds = {one.name: one.type for one in model.spec.properties}
        path = f"/api/v1/devicemethod/{key}"
        return [
            {
                "Name": method.name,
                "Path": f"{path}/{method.name}/{{propertyName}}/{{data}}",
                "Parameters": [{"PropertyName": one, "ValueType": kinds.get(one, "")} for one in method.propertyNames],
            }
            for method in device.spec.methods
        ]

    def call(self, key: str, method: str, prop: str, text: str) -> None:
        """Call a method of a device with a value for one of its properties. Raises MethodRefused."""
        device, _, thread = self._found(key)
        methods = {one.name: list(one.propertyNames) for one in device.spec.methods}
        if method not in methods:
            raise MethodRefused(f"{key} has the methods: {', '.join(sorted(methods)) or 'none'}")
        if prop not in methods[method]:
            raise MethodRefused(f"{method} of {key} has the properties: {', '.join(methods[method]) or 'none'}")
        thread.call(method, prop, text)

    def value(self, key: str, prop: str) -> tuple[str, str]:
        """Return the value of a property that was read last, and its type. Raises MethodRefused."""
        _, model, thread = self._found(key)
        value = thread.values.get(prop)
        if value is None:
            raise MethodRefused(f"{prop} of {key} has not been read")
        return value, next((one.type for one in model.spec.properties if one.name == prop), "")

    def _found(self, key: str) -> tuple[dmi.Device, dmi.DeviceModel, DeviceThread]:
        with self._lock:
            found = self._devices.get(key)
        if found is None:
            raise MethodRefused(f"this mapper has no device {key}")
        return found

    def stop(self) -> None:
        """Stop all devices, take no others, and wait a few seconds for the devices to close."""
        with self._lock:
            self._is_stopped = True
            threads = [*(thread for _, _, thread in self._devices.values()), *self._ending.values()]
            self._devices.clear()
        for thread in threads:
            thread.stop()
        until = self._clock.monotonic() + STOP_SECONDS
        for thread in threads:
            thread.join(max(0.0, until - self._clock.monotonic()))


def _id(one: dmi.Device | dmi.DeviceModel) -> str:
    return f"{one.namespace}/{one.name}"
