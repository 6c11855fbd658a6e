"""taskmanager alone on the bus, with a test in the place of the store, the runtime and the cloud."""

import json
from collections.abc import Mapping
from typing import Any

import grpc
import msgspec

from beehive import Clock, Message, ModuleName
from beehive.names import OK, Operation
from beehive.testing import Harness
from edged.cri.errors import UnavailableError
from modules.apimachinery.node_jobs import API_VERSION
from modules.edge.taskmanager.checks import MachineReading
from modules.edge.taskmanager.module import TaskManager, TaskManagerSettings
from modules.edge.taskmanager.programs import ProgramEnd
from modules.edge.taskmanager.settings_updates import SettingsState
from modules.edge.taskmanager.upgrades import UpgradeState
from modules.lab.doubles.container_runtime.runtime import FakeRuntime
from protos.cri.v1 import api_pb2 as cri

Json = dict[str, Any]
NO_ROUTE = UnavailableError("PullImage", "an image", grpc.StatusCode.UNAVAILABLE, "no route")
ALL = ("ImagePrePullJob", "ConfigUpdateJob", "NodeUpgradeJob")
ROW = "null/nodetask/job"


class FakeMachine:
    """A machine with settable use, of one processor."""

    def __init__(self, clock: Clock) -> None:
        self.used = MachineReading(0.0, 0.0, 1, 0.1, {"/": 0.2})
        self.busy = 0.5
        self._clock = clock

    def read(self) -> MachineReading:
        """Return the present usage."""
        at = self._clock.monotonic()
        return msgspec.structs.replace(self.used, at=at, busy=at * self.busy)


class FakeUpgrades:
    """An installation whose program ends when a test says so (`UpgradeCommands`)."""

    def __init__(self) -> None:
        self.now: UpgradeState | None = UpgradeState("1.0.0", is_under_way=False)
        self.begun: list[tuple[str, bool]] = []
        """Each version, and whether it was only checked."""
        self.ends: dict[bool, ProgramEnd | None] = {True: ProgramEnd(0, ""), False: ProgramEnd(0, "")}
        """The end of a check, and of an upgrade; None while it runs."""
        self.cannot_start = False

    def state(self) -> UpgradeState | None:
        """Return its state."""
        return self.now

    def begin(self, version: str, *, only_check: bool) -> None:
        """Note the program."""
        if self.cannot_start:
            raise PermissionError(13, "Permission denied")
        self.begun.append((version, only_check))

    def end(self) -> ProgramEnd | None:
        """Return the end of the last program."""
        return self.ends[self.begun[-1][1]]


class FakeConfiguration:
    """A configuration file whose program ends when a test says so (`SettingsCommands`)."""

    def __init__(self) -> None:
        self.now: SettingsState | None = SettingsState(is_set=False, is_under_way=False)
        self.begun: list[tuple[dict[str, str], bool]] = []
        """The settings of each program, and whether they were only checked."""
        self.ends: dict[bool, ProgramEnd | None] = {True: ProgramEnd(0, ""), False: ProgramEnd(0, "")}
        """The end of a check, and of a change; None while it runs."""

    def state(self, settings: Mapping[str, str]) -> SettingsState | None:
        """Return its state."""
        del settings
        return self.now

    def begin(self, settings: Mapping[str, str], *, only_check: bool) -> None:
        """Note the program."""
        self.begun.append((dict(settings), only_check))

    def end(self) -> ProgramEnd | None:
        """Return the end of the last program."""
        return self.ends[self.begun[-1][1]]


class Node:
    """A node with taskmanager.

    Args:
        bee: the harness.
        node: its name.
        allowed: kinds of jobs.
        row: what the store has of a job under way.
        runs_containers: whether it has a container runtime.
        upgrades: its installation.
        configuration: its configuration.
        keys: settings that a job may change.
        is_silent: whether the store does not answer, until a test says so.
        refusals: how often the store answers with an error first.
    """

    def __init__(
        self,
        bee: Harness,
        *,
        node: str = "n1",
        allowed: tuple[str, ...] = ALL,
        row: Json | None = None,
        runs_containers: bool = True,
        upgrades: FakeUpgrades | None = None,
        configuration: FakeConfiguration | None = None,
        keys: tuple[str, ...] = (),
        is_silent: bool = False,
        refusals: int = 0,
    ) -> None:
        self.bee = bee
        self.machine = FakeMachine(bee.clock)
        self.runtime = FakeRuntime(bee.simulation)
        self.rows: dict[str, Any] = {} if row is None else {ROW: row}
        self.history: list[Any] = []
        """Each state of the job's row; None where it was deleted."""
        self.is_silent = is_silent
        self._refusals = refusals
        bee.answer(ModuleName.METAMANAGER, self._store)
        opener = self.runtime.connect if runs_containers else None
        settings = TaskManagerSettings(node, allowed, keys)
        bee.start(TaskManager, settings, self.machine, opener, upgrades, configuration)

    def have(self, image: str) -> None:
        """Have an image, without a pull."""
        self.runtime.pull_image(cri.ImageSpec(image=image))

    def cannot_pull(self, times: int = 1000) -> None:
        """Let pulls fail."""
        self.runtime.fail("pull_image", NO_ROUTE, times=times)

    def job(self, job: str, content: Any, operation: str = "Check", wait: float = 0.0) -> None:
        """A message of the cloud's taskmanager, and `wait` seconds after it; `job` is KIND/NAME, of this node unless it
        has a slash more.
        """
        resource = f"{API_VERSION}/{job}" if "/node/" in job else f"{API_VERSION}/{job}/node/n1"
        asked = self.bee.message(resource, operation, content, source="taskmanager", group="taskmanager")
        self.bee.send(ModuleName.TASKMANAGER, asked, wait=wait)

    def reports(self) -> list[Json]:
        """The contents of all reports so far, without their times."""
        found = []
        for message in self.bee.sent_to(ModuleName.EDGEHUB):
            route = message.route
            assert (route.source, route.group, route.operation) == ("websocket", "hub", "UpdateNodeActionStatus")
            content = message.content_as(dict[str, Any])
            assert content.pop("finishTime").endswith("Z")
            found.append({"job": route.resource.split("/")[-3], **content})
        return found

    def ends(self) -> list[tuple[str, bool, str]]:
        """Of all reports action, success and reason."""
        return [(each["action"], each["succ"], each["reason"]) for each in self.reports()]

    def failure(self, action: str) -> str:
        """Of the only report, which is of this action and no success, the reason."""
        [(reported, succeeded, why)] = self.ends()
        assert (reported, succeeded) == (action, False)
        return why

    def _store(self, message: Message) -> Message | None:
        if self.is_silent:
            return None
        if self._refusals:
            self._refusals -= 1
            return message.error(self.bee.clock, "database is locked")
        key, operation = message.route.resource, message.route.operation
        if operation == Operation.QUERY:
            found = [json.dumps(self.rows[key])] if key in self.rows else []
            return message.reply(self.bee.clock, found, source=ModuleName.METAMANAGER)
        if operation == Operation.UPDATE:
            self.rows[key] = message.content_as(dict[str, Any])
        else:
            self.rows.pop(key, None)
        self.history.append(self.rows.get(key))
        return message.reply(self.bee.clock, OK, source=ModuleName.METAMANAGER)
