"""A node with a store, devicetwin, eventbus and edgehub's outbox."""

import json
from pathlib import Path
from typing import Any

from beehive import Hive, Message, Threads
from edgehub import EdgeHubSettings, install
from edgehub.outbox.sqlite import SqliteOutbox, open_outbox
from metamanager.module import MetaManager, MetaSettings
from modules.edge.devicetwin.module import DeviceTwin, TwinSettings
from modules.edge.eventbus.counters import EventBusCounters
from modules.edge.eventbus.module import EventBus, EventBusSettings
from modules.edge.eventbus.session import BrokerSettings
from tests.modules.edge.nodes import RestartedNode
from tests.support.patience import PATIENCE


def external(port: int, **broker: Any) -> EventBusSettings:
    """Return the settings of a node with a broker outside."""
    return EventBusSettings("n1", BrokerSettings("127.0.0.1", port, "edgecore-n1", **broker))


class Node(RestartedNode):
    """A node without a cloud, which can be started again on its files."""

    def __init__(self, directory: Path, settings: EventBusSettings) -> None:
        self._directory = directory
        self._settings = settings
        self.counters = EventBusCounters()

    def start(self) -> "Node":
        """Start the modules."""
        self.hive = Hive(Threads())
        self.hive.add(MetaManager, MetaSettings(str(self._directory / "edgecore.db")))
        self.hive.add(DeviceTwin, TwinSettings("n1", mqtt=True))
        self.hive.add(EventBus, self._settings, self.counters)
        url = "ws://127.0.0.1:1/p/n1/events"
        outbox = self._directory / "outbox.db"
        install(self.hive, EdgeHubSettings(url=url, node="n1"), open_outbox=lambda: open_outbox(outbox, 0.0))
        self.hive.start()
        return self

    def send(self, module: str, resource: str, operation: str, content: Any, **route: str) -> None:
        """Send a message as the cloud or another module does."""
        fields = {"source": "test", **route}
        message = Message.new(self.running.clock, resource=resource, operation=operation, content=content, **fields)
        self.running.send(module, message)

    def ask(self, resource: str, content: Any) -> Message:
        """Let another module publish a message, and return its answer."""
        fields = {"source": "test", "resource": resource, "operation": "publish"}
        asked = Message.new(self.running.clock, content=content, **fields)
        answer: Message = self.running.request("eventbus", asked, PATIENCE).get()
        return answer

    def uploads(self) -> list[tuple[str, str]]:
        """Return topic and content of what waits for the cloud on the disk, after a stop."""
        outbox = SqliteOutbox(self._directory / "outbox.db")
        frames = [json.loads(one.frame) for one in outbox.load()]
        outbox.close()
        return [(one["route"]["resource"], one["content"]) for one in frames if one["route"]["operation"] == "upload"]
