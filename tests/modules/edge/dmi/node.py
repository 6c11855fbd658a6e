"""A node without a cloud: metamanager, devicetwin and dmi on threads, with a real socket; and its objects."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from beehive import Hive, Message, Threads
from metamanager.module import MetaManager, MetaSettings
from modules.edge.devicetwin import topics
from modules.edge.devicetwin.module import DeviceTwin, TwinSettings
from modules.edge.devicetwin.owner import OwnerAnswer
from modules.edge.devicetwin.state import Device, decode
from modules.edge.dmi.counters import DmiCounters
from modules.edge.dmi.module import Dmi
from modules.edge.dmi.settings import DmiSettings
from tests.end_to_end.processes import wait_until
from tests.modules.edge.nodes import RestartedNode
from tests.support.patience import PATIENCE

Json = dict[str, Any]


class DmiNode(RestartedNode):
    """A node that can be started again on its files.

    Args:
        directory: of its files.
        settings: of dmi.
    """

    def __init__(self, directory: Path, **settings: Any) -> None:
        self._directory = directory
        self.socket = directory / "dmi.sock"
        self._settings = DmiSettings(self.socket, look_period=0.05, **settings)
        self._version = 0
        self.counters = DmiCounters()

    def start(self) -> "DmiNode":
        """Start the modules, and wait for the socket."""
        self.hive = Hive(Threads())
        self.hive.add(MetaManager, MetaSettings(str(self._directory / "edgecore.db")))
        self.hive.add(DeviceTwin, TwinSettings("n1", mappers=True))
        self.hive.add(Dmi, self._settings, self.counters)
        self.hive.start()
        wait_until(self.socket.exists, "the socket of mappers")
        return self

    def restarts(self) -> int:
        """Number of dmi's restarts."""
        return self.running._slots["dmi"].restarts

    def put(self, obj: Json, operation: str = "update") -> None:
        """Let the cloud send, or delete, a Device or DeviceModel."""
        self._version += 1
        metadata = {"namespace": "ns", "uid": obj["metadata"]["name"], "resourceVersion": str(self._version)}
        sent = {**obj, "metadata": {**metadata, **obj["metadata"]}}
        kind = "devicemodel" if obj["kind"] == "DeviceModel" else "device"
        message = Message.new(
            self.running.clock,
            source="devicecontroller",
            group="resource",
            resource=f"ns/{kind}/{obj['metadata']['name']}",
            operation=operation,
            content=sent,
        )
        self.running.send("metamanager", message)

    def has(self, *objects: Json) -> None:
        """Let the cloud send objects, and wait until the Devices among them are stored."""
        for each in objects:
            self.put(each)
        devices = [each["metadata"]["name"] for each in objects if each["kind"] == "Device"]
        wait_until(lambda: all(self.device(each).has_object for each in devices), "the devices are stored")

    def desire(self, device: str, values: dict[str, str | None]) -> OwnerAnswer:
        """Let the owner set, or give back, desired values."""
        asked = Message.new(
            self.running.clock,
            source=topics.OWNER_SOURCE,
            resource=topics.owner_resource(device),
            operation="update",
            content=values,
        )
        found: OwnerAnswer = self.running.request("twin", asked, PATIENCE).get().content_as(OwnerAnswer)
        return found

    def twins(self, device: str) -> dict[str, str | None]:
        """Return the reported values in the node's database; it may be open."""
        return {name: one.actual.value for name, one in self.device(device).twins.items() if one.actual is not None}

    def device(self, name: str) -> Device:
        """Return a device of the database."""
        with closing(sqlite3.connect(f"file:{self._directory / 'edgecore.db'}?mode=ro", uri=True)) as database:
            query = "SELECT value FROM meta WHERE type = 'devicetwin' AND name = ?"
            rows = database.execute(query, [name]).fetchall()
        return decode(rows[0][0].encode()) if rows else Device(name)


def model(name: str = "tm", **extra: Any) -> Json:
    """A DeviceModel of two properties."""
    properties = [
        {"name": "temperature", "type": "INT", "accessMode": "ReadOnly", "minimum": "-40", "maximum": "125"},
        {"name": "switch", "type": "BOOLEAN", "accessMode": "ReadWrite"},
    ]
    spec = {"protocol": "demo", "properties": properties, **extra}
    return {"kind": "DeviceModel", "metadata": {"name": name}, "spec": spec}


def device(name: str = "thermo", desired: str = "", protocol: str = "demo", of: str = "tm") -> Json:
    """A Device."""
    properties: list[Json] = [
        {"name": "temperature", "visitors": {"configData": {"register": 7}}, "collectCycle": 1000,
         "reportToCloud": True},
        {"name": "switch", "reportToCloud": True, "desired": {"value": desired}},
    ]  # fmt: skip
    spec = {"deviceModelRef": {"name": of}, "nodeName": "n1", "properties": properties}
    return {"kind": "Device", "metadata": {"name": name}, "spec": {**spec, "protocol": {"protocolName": protocol}}}
