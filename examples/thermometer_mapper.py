"""A mapper of two simulated devices: a thermometer, and a heater's switch as on a GPIO pin. docs/mappers.md runs it.

The thermometer of a room gets warmer while the switch of its room is on, and colder otherwise.
"""

import math
import random

from edgecore_mapper import DeviceDriver, DriverProperty, Value, serve

heaters: dict[str, bool] = {}
"""Rooms, and whether their heater is on; a GPIO chip would have pins."""


class Thermometer(DeviceDriver):
    """Its Device names the room: `protocol: {configData: {room: hall}}`."""

    def open(self) -> None:
        self.room = str(self.config["room"])
        self.degrees = 18.0

    def read(self, prop: DriverProperty) -> Value:
        goal = 24.0 if heaters.get(self.room) else 16.0
        self.degrees += (goal - self.degrees) / 20 + random.uniform(-0.1, 0.1)
        return round(self.degrees, 1) if prop.type == "FLOAT" else math.floor(self.degrees)


class Switch(DeviceDriver):
    """A switch of a room, which is off until the cloud wants it on."""

    def open(self) -> None:
        self.room = str(self.config["room"])
        heaters.setdefault(self.room, False)

    def read(self, prop: DriverProperty) -> Value:
        return heaters[self.room]

    def write(self, prop: DriverProperty, value: Value) -> None:
        heaters[self.room] = bool(value)


if __name__ == "__main__":
    serve("examples", "example", {"thermometer": Thermometer, "switch": Switch})
