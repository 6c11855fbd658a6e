"""The module alone on a hive, in virtual time, with a cloud in memory."""

from typing import Any

from beehive import Message, Module, ModuleName, handles
from beehive.testing import Harness
from edgehub import EdgeHub, LinkCounters, Outgoing
from edgehub.network.guard import WatchNetwork
from edgehub.outbox.store import OpenOutbox
from modules.lab.doubles.memory_cloud import MemoryCloud
from tests.edgehub.links import settings


class Fragile(EdgeHub):
    """Fails at the first message of a type."""

    attempts = 1

    @handles("poison")
    def fail(self, _message: Message) -> None:
        """Fail."""
        raise RuntimeError("on purpose")


class Bed:
    """edgehub, a cloud, and modules that record what they get."""

    def __init__(
        self,
        *,
        seed: int = 0,
        refusing: bool = False,
        hub: type[EdgeHub] = EdgeHub,
        open_outbox: OpenOutbox | None = None,
        watch_network: WatchNetwork | None = None,
        **changes: Any,
    ) -> None:
        self.bee = Harness(seed)
        self.cloud = MemoryCloud(self.bee.simulation, limit=changes.get("max_frame_bytes", 1 << 24))
        self.cloud.refusing = refusing
        self.counters = LinkCounters()
        made = settings(**changes)
        outgoing = Outgoing(made.limits, made.heartbeat)
        self.bee.add(hub, made, self.cloud.make_link, outgoing, self.counters, None, open_outbox, watch_network)
        self.got: dict[str, list[Message]] = {}

    def recorder(self, module_name: str, group_name: str) -> None:
        """Add a module that records."""
        got = self.got.setdefault(module_name, [])

        class Recorder(Module):
            name = module_name
            group = group_name

            @handles()
            def record(self, message: Message) -> None:
                got.append(message)

        self.bee.add(Recorder)

    def sent(self) -> list[Message]:
        """What the cloud got, keepalives apart."""
        return [one for one in self.cloud.messages() if one.route.operation != "keepalive"]

    def keepalives(self) -> list[Message]:
        """The keepalives the cloud got."""
        return [one for one in self.cloud.messages() if one.route.operation == "keepalive"]

    def deliver(self, sent: Message | bytes) -> None:
        """The cloud sends."""
        self.cloud.send(sent)
        self.bee.settle()

    def cut(self, wait: float = 0.0) -> None:
        """The cloud ends the link, and `wait` seconds pass."""
        self.cloud.cut()
        self.bee.settle()
        self.bee.run_for(wait)

    def hub(self, sent: Message) -> Message:
        """A module sends to edgehub."""
        self.bee.send(ModuleName.EDGEHUB, sent)
        return sent


def started(**changes: Any) -> Bed:
    """A bed without recorders."""
    made = Bed(**changes)
    made.bee.start()
    return made


def contents(messages: list[Message]) -> list[Any]:
    """Decoded contents."""
    return [one.content_as(object) for one in messages]
