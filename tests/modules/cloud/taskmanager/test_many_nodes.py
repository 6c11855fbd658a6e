"""500 nodes on links that fail are upgraded in waves in virtual time, and 3 % of them go back: counted."""

import random
from collections import Counter
from typing import Any, Final

import msgspec
import pytest

from beehive import Message, ModuleName
from beehive.decoding import decode_json
from beehive.names import Operation
from beehive.testing import Harness
from modules.apimachinery.node_jobs import API_VERSION
from modules.cloud.client.calls import ApiCall, ApiResult
from modules.cloud.messages import NODES, ConnectEvent
from modules.cloud.refusals import Refusals
from modules.cloud.taskmanager.module import CloudTaskManager
from modules.cloud.taskmanager.progress import EDGE
from modules.cloud.taskmanager.waves import PAUSE, WAVES
from tests.modules.cloud.router.rule_server import RuleServer

Json = dict[str, Any]
NUMBER: Final = 500
_STEP: Final = 30.0
"""Seconds of virtual time between two looks at the nodes."""
_LONGEST: Final = 6 * 3600.0
_ACTIONS: Final = ("Check", "WaitingConfirmation", "BackUp", "Upgrade")


class SimulatedNode:
    """A node that upgrades itself once, and reports what it has not been able to report when it is connected."""

    def __init__(self, name: str, draw: random.Random, *, is_bad: bool) -> None:
        self.name, self.is_bad, self._draw = name, is_bad, draw
        self.is_connected = False
        self.begun = 0
        self.version = "1.0.0"
        self._changes_at = draw.uniform(0, 60)
        self._ready_at: list[tuple[float, str, str]] = []
        """What it will report: when, the action, and why it has failed."""

    def take(self, now: float) -> None:
        """Begin the job; a node that has it already goes on."""
        if self.begun:
            return
        self.begun += 1
        at = now
        for action in _ACTIONS:
            at += self._draw.uniform(1, 20) if action != "Upgrade" else self._draw.uniform(60, 300)
            bad = self.is_bad and action == "Upgrade"
            self._ready_at.append((at, action, "back to 1.0.0: the node is not connected" if bad else ""))
        if self.is_bad:
            self._ready_at.append((at, "RollBack", ""))

    def turns(self, now: float) -> bool:
        """Let the link fail or come back; return whether it has."""
        if now < self._changes_at:
            return False
        self.is_connected = not self.is_connected
        self._changes_at = now + (self._draw.uniform(60, 1800) if self.is_connected else self._draw.uniform(5, 300))
        return True

    def reports(self, now: float) -> list[tuple[str, str]]:
        """Return what it reports now: actions, and why they have failed."""
        if not self.is_connected:
            return []
        due = [(action, why) for at, action, why in self._ready_at if at <= now]
        self._ready_at = [each for each in self._ready_at if each[0] > now]
        if any(action == "Upgrade" and not why for action, why in due):
            self.version = "1.1.0"
        return due


class Fleet:
    """The module, and test code in the place of the API server, cloudhub and the nodes."""

    def __init__(self, bee: Harness, seed: int, bad: int, tolerance: str) -> None:
        self.bee = bee
        self._draw = draw = random.Random(f"{seed} fleet")  # noqa: S311 - reproducible on purpose
        doomed = set(draw.sample(range(NUMBER), bad))
        names = [f"n{number:03}" for number in range(NUMBER)]
        self.nodes = {name: SimulatedNode(name, draw, is_bad=number in doomed) for number, name in enumerate(names)}
        self.order: list[str] = []
        """The nodes that have begun, in order."""
        self.sent = 0
        self.most_at_once = 0
        self.job: Json = {
            "apiVersion": API_VERSION, "kind": "NodeUpgradeJob",
            "metadata": {"name": "up", "uid": "u", "annotations": {WAVES: "1,10%,all", PAUSE: "60"}},
            "spec": {"version": "v1.1.0", "nodeNames": names, "concurrency": 40, "failureTolerate": tolerance},
        }  # fmt: skip
        self._orders: list[str] = []
        bee.answer(ModuleName.EDGECONTROLLER, self._answer)
        bee.answer(ModuleName.CLOUDHUB, self._hub)
        server = RuleServer(self.job)
        bee.add(CloudTaskManager, Refusals(bee.clock), server.connect)
        bee.start()

    def run(self) -> None:
        """Let time pass until the job has ended."""
        now = 0.0
        while self.phase() not in ("Completed", "Failure"):
            assert now < _LONGEST, Counter(self.tasks().values())
            for node in self.nodes.values():
                if node.turns(now):
                    self._say(f"node/{node.name}", self._operation(node), self._event(node), source=ModuleName.CLOUDHUB)
                for action, why in node.reports(now):
                    self._report(node.name, action, why)
            self.bee.run_for(_STEP)
            now += _STEP
            orders, self._orders = self._orders, []
            for name in orders:
                self.sent += 1
                if self.nodes[name].is_connected:
                    self.order += [] if self.nodes[name].begun else [name]
                    self.nodes[name].take(now)
            self.most_at_once = max(self.most_at_once, list(self.tasks().values()).count("InProgress"))

    def phase(self) -> str:
        """Return the phase of the job."""
        return str((self.job.get("status") or {}).get("phase", ""))

    def tasks(self) -> dict[str, str]:
        """Return the phase of each node's task."""
        status = self.job.get("status") or {}
        return {each["nodeName"]: each["phase"] for each in status.get("nodeStatus") or ()}

    def _operation(self, node: SimulatedNode) -> str:
        return Operation.CONNECTED if node.is_connected else Operation.DISCONNECTED

    def _event(self, node: SimulatedNode) -> ConnectEvent:
        return ConnectEvent(self._operation(node), 0, node.name)

    def _report(self, name: str, action: str, why: str) -> None:
        resource = f"node/{name}/{API_VERSION}/nodeupgradejob/up/node/{name}"
        content = {"action": action, "succ": not why, "finishTime": "", "reason": why, "extend": "v1.0.0,v1.1.0"}
        self._say(
            resource, Operation.NODE_ACTION_STATUS, content, source=f"system:node:{name}", group="hub"
        )  # fmt: skip

    def _say(self, resource: str, operation: str, content: Json | ConnectEvent | None, **fields: str) -> None:
        self.bee.send(ModuleName.TASKMANAGER, self.bee.message(resource, operation, content, **fields))

    def _hub(self, message: Message) -> Message | None:
        if message.route.operation == NODES:
            return message.reply(self.bee.clock, [])
        if API_VERSION in message.route.resource:
            self._orders.append(message.route.resource.rpartition("/")[2])
        return None

    def _answer(self, message: Message) -> Message:
        return message.reply(self.bee.clock, self._serve(message.content_as(ApiCall)))

    def _serve(self, call: ApiCall) -> ApiResult:
        if call.plural == "nodes":
            ready = [{"type": "Ready", "status": "True"}]
            items = [
                {"metadata": {"name": n, "labels": {EDGE: ""}}, "status": {"conditions": ready}} for n in self.nodes
            ]
            return ApiResult({"items": items})
        if call.verb == "updatestatus":
            self.job = _copy(call.body)
        return ApiResult(_copy(self.job))


def _copy(obj: Any) -> Json:
    """Return what is stored of an object; much faster than `deepcopy`."""
    return decode_json(msgspec.json.encode(obj), Json)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2])
def test_three_in_a_hundred_are_bad(seed: int, bee: Harness) -> None:
    """Each node that is good is upgraded, once; each that is bad is named; never more at once than the job says."""
    fleet = Fleet(bee, seed, bad=15, tolerance="0.1")
    fleet.run()
    assert fleet.phase() == "Completed"
    assert Counter(fleet.tasks().values()) == {"Successful": 485, "Failure": 15}
    assert {name for name, phase in fleet.tasks().items() if phase == "Failure"} == {
        node.name for node in fleet.nodes.values() if node.is_bad
    }
    assert all(node.begun == 1 for node in fleet.nodes.values())
    assert all((node.version == "1.1.0") is not node.is_bad for node in fleet.nodes.values())
    assert fleet.most_at_once <= 40


def test_a_bad_release_stops_in_an_early_wave(bee: Harness) -> None:
    """With every third node bad, the others of the last wave keep their version."""
    fleet = Fleet(bee, 3, bad=NUMBER // 3, tolerance="0.1")
    fleet.run()
    assert fleet.phase() == "Failure"
    assert "the waves have stopped" in fleet.job["status"]["reason"]
    assert len(fleet.order) <= 1 + NUMBER // 10 + 40
