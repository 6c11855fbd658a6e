"""A simulated device: an application at the node's broker that reports values, and takes desired values."""

import json
from functools import partial
from typing import Any, Final

from beehive.nesting import read_json
from modules.edge.devicetwin import topics
from modules.lab.simulate.broker import SimulatedBroker
from modules.lab.simulate.device_watch import TEMPERATURE, DeviceWatch
from modules.lab.simulate.plan import DeviceAction, DeviceStep
from modules.lab.simulate.world import World

THRESHOLD: Final = "threshold"
"""The property with a desired value."""

_OBEYS_WITHIN: Final = 2.0
_REFUSED_AGAIN: Final = 5.0
"""Seconds until a device repeats a refused report."""


class SimulatedDevice:
    """One device; it outlives the node's processes.

    Args:
        world: the world of the run.
        broker: of its node.
        watch: receives the answers to its reports.
        name: of its Device, in the namespace `default`.
    """

    def __init__(self, world: World, broker: SimulatedBroker, watch: DeviceWatch, name: str) -> None:
        self.id = f"default/{name}"
        self.name = name
        self.temperature = 0
        """Number of the last report."""
        self.threshold = ""
        """The desired value that it received last."""
        self.state = ""
        self.is_wanted = False
        """Whether the cloud wants it."""
        self.must_repeat = False
        """Whether only the device still has its reported values; see `forget`."""
        self._world = world
        self._broker = broker
        self._watch = watch
        self._repeats = False
        broker.subscribers.append(self._hear)

    def forget(self) -> None:
        """Note that the node or the cloud has lost the reports, or that the Device is deleted."""
        self.must_repeat = True
        self._watch.ended(self.id)

    def act(self, step: DeviceStep) -> None:
        """Make the report of a step."""
        match step.action:
            case DeviceAction.REPORTED:
                self.temperature += 1
                self._report(TEMPERATURE)
            case DeviceAction.ONLINE | DeviceAction.OFFLINE:
                self.state = step.action.name.lower()
                self._report_state()
            case _:
                pass

    def repeat(self) -> None:
        """Report everything again; the temperature with another number, for an equal value may be no change."""
        self._repeats = False
        if not self.is_wanted:
            return
        if self.temperature:
            self.temperature += 1
            self._report(TEMPERATURE)
        if self.threshold:
            self._report(THRESHOLD)
        if self.state:
            self._report_state()

    def _report(self, name: str) -> None:
        value = str(self.temperature) if name == TEMPERATURE else self.threshold
        event = f"t{self.temperature}" if name == TEMPERATURE else "h"
        twin = {name: {"actual": {"value": value}, "metadata": {"type": "int"}}}
        self._publish("/twin/update", {"event_id": event, "timestamp": 0, "twin": twin})

    def _report_state(self) -> None:
        self._publish("/state/update", {"event_id": "s", "timestamp": 0, "state": self.state})

    def _publish(self, end: str, payload: dict[str, Any]) -> None:
        self._broker.publish(topics.device_topic(self.id, end), json.dumps(payload, separators=(",", ":")))

    def _hear(self, topic: str, payload: str) -> None:
        said = read_json(payload)
        if topic.endswith(topics.MEMBERSHIP_UPDATED):
            self._membership(said)
            return
        end = topic.removeprefix(topics.device_topic(self.id, ""))
        if end == topic:
            return
        if end == topics.TWIN_DELTA and THRESHOLD in said["delta"]:
            self.threshold = said["delta"][THRESHOLD]
            at = self._world.now() + self._world.random.uniform(0.0, _OBEYS_WITHIN)
            self._world.at(at, partial(self._report, THRESHOLD))
        elif end in (topics.TWIN_RESULT, topics.STATE_RESULT) and "code" in said:
            self._refused()
        elif end == topics.TWIN_RESULT and said["event_id"][:1] == "t":
            self._watch.answered(self.id, int(said["event_id"][1:]))

    def _membership(self, said: dict[str, Any]) -> None:
        """Report again to a node that has removed the device, and its reported values with it: the cloud may learn long
        after the deletion that the Device was deleted and made again.
        """
        removed = said["removed_devices"] or ()
        if self.must_repeat and any(one["id"] == self.id for one in removed):
            self._world.at(self._world.now() + _REFUSED_AGAIN, self.repeat)

    def _refused(self) -> None:
        if not self._repeats:
            self._repeats = True
            self._world.at(self._world.now() + _REFUSED_AGAIN, self.repeat)
