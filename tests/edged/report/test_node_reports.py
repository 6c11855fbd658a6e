"""How the node gets to the cloud, question by question: registration, status, lease."""

from typing import Any

import pytest
from msgspec.structs import replace

from beehive.names import ResourceType
from edged.events import EventRecorder, Occurrence
from edged.events.node import NodeEvents
from edged.node.machine import Machine
from edged.node.status import Report
from edged.report.node import NodeReporter
from edged.settings import EdgedSettings
from metamanager.client import AlreadyExistsError, ConflictError, NoAnswerError, NotConnectedError
from tests.edged.report.turns import NOT_FOUND, Turns, rejected

REPORT = Report(
    machine=Machine(
        machine_id="m", system_uuid="s", boot_id="b", kernel="6.1", os_image="Debian", architecture="amd64",
        cpus=2, memory=8 << 30, storage=100 << 30, addresses=("192.0.2.2",),
    ),
    node_name="n1", max_pods=110, port=10255, agent_version="v1", runtime_version="containerd://1.6",
)  # fmt: skip
AWAY = NotConnectedError("ask", "it")
LOST = NoAnswerError("ask", "it")
LEASE = {"metadata": {"name": "n1", "resourceVersion": "3"}, "spec": {"holderIdentity": "n1"}}


class Node:
    """A reporter, and the report that it is given."""

    def __init__(self, root: Any, **settings: Any) -> None:
        self.turns = Turns()
        self.report: Report | None = REPORT
        made = EdgedSettings(node_name="n1", root=root, pod_logs=root, runtime_endpoint="", **settings)
        self.told: list[Occurrence] = []
        events = NodeEvents(EventRecorder(self.turns.clock, "n1", self.told.append), "n1")
        self.reporter = NodeReporter(
            self.turns.client, self.turns.clock, made, lambda: self.report, lambda: None, events
        )

    def registered(self) -> "Node":
        """Through its registration, with a lease."""
        self.reporter.tick()
        created = self.turns.open[0].value
        self.turns.answer({**created, "metadata": {**created["metadata"], "uid": "nu"}})
        self.turns.answer(LEASE)
        assert self.turns.open == []
        return self


@pytest.fixture
def node(tmp_path: Any) -> Node:
    return Node(tmp_path)


def test_a_node_registers_and_asks_for_its_lease(node: Node) -> None:
    node.reporter.tick()
    [question] = node.turns.open
    assert (question.operation, question.kind, question.name) == ("create", ResourceType.NODE, "n1")
    node.turns.answer(question.value)
    assert node.turns.asked() == ["get lease"]
    node.turns.answer(NOT_FOUND)
    assert node.turns.asked() == ["create lease"]


def test_nothing_is_said_before_the_machine_has_been_looked_at(node: Node) -> None:
    node.report = None
    node.reporter.tick()
    node.reporter.renew()
    assert node.turns.open == []


def test_a_node_that_is_there_is_taken_and_its_status_replaced(node: Node) -> None:
    node.reporter.tick()
    node.turns.answer(rejected(409, AlreadyExistsError))
    assert node.turns.asked() == ["get node"]
    node.turns.answer({"metadata": {"name": "n1", "uid": "old"}})
    assert node.turns.asked() == ["patch nodepatch", "get lease"]


def test_a_node_that_does_not_register_itself_waits_for_being_made(tmp_path: Any) -> None:
    node = Node(tmp_path, register_node=False)
    node.reporter.tick()
    assert node.turns.asked() == ["get node"]
    node.turns.answer(NOT_FOUND)
    assert node.turns.open == []
    node.reporter.tick()
    node.turns.answer({"metadata": {"name": "n1", "uid": "old"}})
    assert node.turns.asked() == ["patch nodepatch", "get lease"]


@pytest.mark.parametrize("error", [AWAY, LOST, rejected(500), b"[}"])
def test_a_registration_that_failed_is_tried_with_the_next_period(node: Node, error: object) -> None:
    node.reporter.tick()
    node.turns.answer(error)
    assert node.turns.open == []
    node.reporter.tick()
    assert node.turns.asked() == ["create node"]


def test_a_cloud_that_comes_while_the_registration_is_failing_is_not_missed(node: Node) -> None:
    node.reporter.tick()
    node.reporter.tick()
    node.turns.answer(AWAY)
    assert node.turns.asked() == ["create node"]


def test_an_unchanged_status_is_sent_when_its_period_is_over(node: Node) -> None:
    node.registered()
    node.turns.run(3599)
    node.reporter.tick()
    assert node.turns.open == []
    node.turns.run(2)
    node.reporter.tick()
    assert node.turns.asked() == ["patch nodepatch"]


def test_a_changed_status_is_sent_at_once_and_only_one_at_a_time(node: Node) -> None:
    node.registered()
    node.report = replace(REPORT, runtime_problem="down")
    node.reporter.tick()
    node.report = replace(REPORT, runtime_problem="down and out")
    node.reporter.tick()
    assert node.turns.asked() == ["patch nodepatch"]
    node.turns.answer({})
    [question] = node.turns.open
    assert "down and out" in str(question.value)


@pytest.mark.parametrize("error", [AWAY, rejected(500)])
def test_a_status_that_was_refused_is_sent_with_the_next_period(node: Node, error: Exception) -> None:
    node.registered()
    node.report = replace(REPORT, runtime_problem="down")
    node.reporter.tick()
    node.turns.answer(error)
    assert node.turns.open == []
    node.reporter.tick()
    assert node.turns.asked() == ["patch nodepatch"]


def test_after_a_lost_answer_the_node_is_read_anew(node: Node) -> None:
    """Nobody knows what the cloud has."""
    node.registered()
    node.report = replace(REPORT, runtime_problem="down")
    node.reporter.tick()
    node.turns.answer(LOST)
    node.reporter.tick()
    assert node.turns.asked() == ["create node"]


def test_a_node_that_was_deleted_registers_again(node: Node) -> None:
    node.registered()
    node.report = replace(REPORT, runtime_problem="down")
    node.reporter.tick()
    node.turns.answer(NOT_FOUND)
    node.reporter.renew()
    assert node.turns.asked() == ["create node"]


def test_a_node_whose_lease_is_gone_looks_whether_it_is_there_itself(node: Node) -> None:
    """A cloud that has lost its objects knows neither; the lease alone would be made anew."""
    node.reporter.tick()
    created = node.turns.open[0].value
    node.turns.answer({**created, "metadata": {**created["metadata"], "uid": "nu"}})
    node.turns.answer(AWAY)
    node.turns.run(10)
    node.reporter.renew()
    node.turns.answer(NOT_FOUND)
    node.reporter.tick()
    assert node.turns.asked() == ["create lease", "patch nodepatch"]


def test_a_lease_is_renewed_with_the_version_that_the_cloud_gave(node: Node) -> None:
    node.registered()
    node.reporter.renew()
    node.reporter.renew()
    [question] = node.turns.open
    assert question.value["metadata"]["resourceVersion"] == "3"
    node.turns.answer({**LEASE, "metadata": {"name": "n1", "resourceVersion": "4"}})
    node.reporter.renew()
    assert node.turns.open[0].value["metadata"]["resourceVersion"] == "4"


@pytest.mark.parametrize("error", [rejected(409, ConflictError), rejected(403)])
def test_a_lease_that_is_refused_is_read_anew_and_the_node_looked_after(node: Node, error: Exception) -> None:
    node.registered()
    node.reporter.renew()
    node.turns.run(10)
    node.turns.answer(error)
    node.reporter.renew()
    node.reporter.tick()
    assert node.turns.asked() == ["get lease", "patch nodepatch"]


def test_a_lease_that_is_gone_shows_at_once_whether_the_node_is_too(node: Node) -> None:
    """The collector of garbage takes a lease with its node."""
    node.registered()
    node.reporter.renew()
    node.turns.run(10)
    node.turns.answer(NOT_FOUND)
    assert node.turns.asked() == ["patch nodepatch"]
    node.turns.answer(NOT_FOUND)
    assert node.turns.asked() == ["create node"]


@pytest.mark.parametrize("error", [AWAY, LOST])
def test_a_lease_that_did_not_get_through_is_renewed_with_the_next_period(node: Node, error: Exception) -> None:
    node.registered()
    node.reporter.renew()
    node.turns.answer(error)
    node.reporter.renew()
    assert node.turns.asked() == ["update lease"]


def test_a_node_that_was_rebooted_says_so_and_what_turned_since(tmp_path: Any) -> None:
    """The cloud's last word is what it is compared with."""
    node = Node(tmp_path)
    node.reporter.tick()
    created = node.turns.open[0].value
    node.turns.answer(rejected(409, AlreadyExistsError))
    for condition in created["status"]["conditions"]:
        if condition["type"] == "Ready":
            condition["status"] = "False"
    created["status"]["nodeInfo"]["bootID"] = "another"
    node.turns.answer({**created, "metadata": {**created["metadata"], "uid": "nu"}})
    assert [each.reason for each in node.told] == ["Rebooted", "NodeReady"]


def test_a_new_node_says_how_it_is_and_then_only_what_changes(tmp_path: Any) -> None:
    node = Node(tmp_path).registered()
    first = ["NodeHasSufficientMemory", "NodeHasNoDiskPressure", "NodeHasSufficientPID", "NodeReady"]
    assert [each.reason for each in node.told] == first
    node.reporter.tick()
    node.report = replace(REPORT, runtime_problem="it is away")
    node.reporter.tick()
    node.reporter.tick()
    assert [each.reason for each in node.told] == [*first, "NodeNotReady"]
    assert node.told[-1].message == "Node n1 status is now: NodeNotReady"
