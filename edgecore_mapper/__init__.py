"""A library for mappers in Python: programs that speak a device protocol, next to this edgecore or KubeEdge's.

A mapper consists of one class for each device model, and one call:

    class Thermometer(DeviceDriver):
        def read(self, prop: DriverProperty) -> Value:
            return 21.5

    serve("thermometers", "demo", {"thermometer": Thermometer})

docs/mappers.md is the guide, and `examples/thermometer_mapper.py` a complete mapper.
"""

from edgecore_mapper.driver import DeviceDriver, DriverProperty, Value
from edgecore_mapper.mapper import Mapper, serve

__all__ = ["DeviceDriver", "DriverProperty", "Mapper", "Value", "serve"]
