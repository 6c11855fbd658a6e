"""How the node gets to the cloud, request by request: registration, status, lease."""

from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import pytest
from msgspec.structs import replace

from beehive.names import ResourceType
from edged.devices.manager import DeviceManager
from edged.devices.pod_devices import Checkpoint
from edged.events import EventRecorder, Occurrence
from edged.events.node import NodeEvents
from edged.node.machine import MachineFacts
from edged.node.reporter import NodeReporter
from edged.node.state import LocalNode
from edged.node.status import NodeReport
from edged.settings import EdgedSettings
from metamanager.client import AlreadyExistsError, ConflictError, NoAnswerError, NotConnectedError
from tests.edged.status.meta_requests import NOT_FOUND, MetaRequests, rejected

REPORT = NodeReport(
    machine=MachineFacts(
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
        self.requests = MetaRequests()
        self.state = LocalNode(DeviceManager(self.requests.clock, root / "devices", Checkpoint(), lambda: None))
        self.report = REPORT
        made = EdgedSettings(node_name="n1", root=root, pod_logs=root, runtime_endpoint="", **settings)
        self.told: list[Occurrence] = []
        events = NodeEvents(EventRecorder(self.requests.clock, "n1", self.told.append), "n1")
        self.announced: list[int] = []
        self.reporter = NodeReporter(
            self.requests.client, self.requests.clock, made, self.state,
            Mock(node_confirmed=lambda: self.announced.append(1)), events,
        )  # fmt: skip

    @property
    def report(self) -> NodeReport | None:
        """What is reported."""
        return self.state.state.report

    @report.setter
    def report(self, report: NodeReport | None) -> None:
        self.state.state = replace(self.state.state, report=report)

    def sync(self, after: float = 0.0) -> list[str]:
        """The status is due, after so many seconds; returns what is under way then."""
        self.requests.run(after)
        self.reporter.sync_node_status()
        return self.requests.asked()

    def renew(self, after: float = 0.0) -> list[str]:
        """The lease is due."""
        self.requests.run(after)
        self.reporter.renew_lease()
        return self.requests.asked()

    def answer(self, answer: Any) -> list[str]:
        """The cloud answers what was asked first."""
        self.requests.answer(answer)
        return self.requests.asked()

    def connects(self) -> list[str]:
        """The cloud comes."""
        self.reporter.connected()
        return self.requests.asked()

    def deletes(self, uid: str) -> list[str]:
        """The cloud has deleted the node's object."""
        self.reporter.handle_node_delete(uid)
        return self.requests.asked()

    def registered(self) -> "Node":
        """Through its registration, with a lease."""
        self.sync()
        created = self.requests.open[0].value
        self.answer({**created, "metadata": {**created["metadata"], "uid": "nu"}})
        self.answer(LEASE)
        self.answer(LEASE)
        assert self.requests.open == []
        return self


@pytest.fixture
def node(tmp_path: Any) -> Node:
    return Node(tmp_path)


def test_a_node_registers_and_asks_for_its_lease(node: Node) -> None:
    node.sync()
    [request] = node.requests.open
    assert (request.operation, request.kind, request.name) == ("create", ResourceType.NODE, "n1")
    assert node.answer(request.value) == ["get lease"]
    assert node.answer(NOT_FOUND) == ["create lease"]
    node.answer(LEASE)
    assert node.sync(after=10) == [], "a new node has no lease yet: its status is not in doubt"


def test_the_port_is_the_nodes_own_unless_the_cloud_has_one_for_the_tunnel(tmp_path: Any) -> None:
    """A node with a stream tunnel registers with its own port, and leaves a port in a Node alone, also when it starts
    again, and when it registers again.
    """
    shown = {
        "metadata": {"name": "n1", "uid": "nu"},
        "status": {"daemonEndpoints": {"kubeletEndpoint": {"Port": 10351}}},
    }
    for has_tunnel, port, after_deletion in ((False, 10255, 10255), (True, None, 10351)):
        node = Node(tmp_path, has_stream_tunnel=has_tunnel)
        node.sync()
        assert node.requests.open[0].value["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"] == 10255
        node.answer(rejected(409, AlreadyExistsError))
        node.answer(shown)
        assert (
            node.requests.open[0].value["status"].get("daemonEndpoints", {}).get("kubeletEndpoint", {}).get("Port")
            == port
        )
        node.answer(NOT_FOUND)
        created = next(request for request in node.requests.open if request.operation == "create")
        assert created.value["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"] == after_deletion


def test_a_registration_is_announced_once_for_each_connection(tmp_path: Any) -> None:
    """By an answer of the cloud that came over the connection."""
    node = Node(tmp_path).registered()
    assert node.announced == [1]
    node.connects()
    assert node.announced == [1]
    assert node.requests.asked() == ["get node", "update lease"]
    node.answer({"metadata": {"name": "n1", "uid": "nu"}})
    node.reporter.request_node(lambda: None)
    node.answer(LEASE)
    node.answer({"metadata": {"name": "n1", "uid": "nu"}})
    assert node.announced == [1, 1]


def test_who_asks_for_the_node_gets_no_answer_of_before(node: Node) -> None:
    """A label that was set for a pod may be missing in it, and the pod would be refused for good."""
    told = list[str]()
    reporter = node.registered().reporter
    for who in ("first", "second"):
        reporter.request_node(lambda who=who: told.append(who))  # type: ignore[misc]
    assert node.requests.asked() == ["get node"]
    node.answer(AWAY)
    assert (told, node.requests.asked()) == (["first"], ["get node"])
    node.answer(AWAY)
    assert told == ["first", "second"]


def test_nothing_is_reported_before_the_machine_has_been_looked_at(node: Node) -> None:
    node.report = None
    node.sync()
    node.renew()
    assert node.requests.open == []


def test_a_node_that_is_there_is_taken_and_its_status_replaced(node: Node) -> None:
    node.sync()
    assert node.answer(rejected(409, AlreadyExistsError)) == ["get node"]
    assert node.answer({"metadata": {"name": "n1", "uid": "old"}}) == ["patch nodepatch", "get lease"]


def test_a_node_that_does_not_register_itself_waits_for_being_made(tmp_path: Any) -> None:
    node = Node(tmp_path, register_node=False)
    assert node.sync() == ["get node"]
    assert node.answer(NOT_FOUND) == []
    node.sync()
    assert node.answer({"metadata": {"name": "n1", "uid": "old"}}) == ["patch nodepatch", "get lease"]


@pytest.mark.parametrize("error", [AWAY, LOST, rejected(500), b"[}"])
def test_a_registration_that_failed_is_tried_with_the_next_period(node: Node, error: object) -> None:
    node.sync()
    assert node.answer(error) == []
    assert node.sync() == ["create node"]


def test_a_cloud_that_comes_while_the_registration_is_failing_is_not_missed(node: Node) -> None:
    node.sync()
    node.sync()
    assert node.answer(AWAY) == ["create node"]
    assert node.answer(AWAY) == [], "the next one waits for its period"


def test_an_unchanged_status_is_sent_when_its_period_is_over(node: Node) -> None:
    node.registered()
    assert node.sync(after=3599) == []
    assert node.sync(after=2) == ["patch nodepatch"]


def test_a_changed_status_is_sent_immediately_and_only_one_at_a_time(node: Node) -> None:
    node.registered()
    node.report = replace(REPORT, runtime_problem="down")
    node.sync()
    node.report = replace(REPORT, runtime_problem="down and out")
    assert node.sync() == ["patch nodepatch"]
    node.answer({})
    [request] = node.requests.open
    assert "down and out" in str(request.value)


@pytest.mark.parametrize(
    ("answer", "call", "asked"),
    [
        (AWAY, NodeReporter.sync_node_status, "patch nodepatch"),
        (rejected(500), NodeReporter.sync_node_status, "patch nodepatch"),
        (LOST, NodeReporter.sync_node_status, "create node"),
        (NOT_FOUND, NodeReporter.renew_lease, "create node"),
    ],
    ids=["away", "refused", "lost", "deleted"],
)
def test_a_status_that_was_not_accepted_is_sent_with_the_next_period(
    node: Node, answer: Exception, call: Callable[[NodeReporter], None], asked: str
) -> None:
    """After a lost answer nobody knows what the cloud has: the node is read again. A deleted one registers again."""
    node.registered()
    node.report = replace(REPORT, runtime_problem="down")
    node.sync()
    node.answer(answer)
    assert bool(node.requests.open) is (answer is NOT_FOUND)
    call(node.reporter)
    assert node.requests.asked() == [asked]


def test_a_registration_after_a_deletion_is_announced_over_the_same_connection(node: Node) -> None:
    """The cloud ends the watches of a node with its Node, and the metaserver repeats them after the announcement."""
    node.registered()
    node.report = replace(REPORT, runtime_problem="down")
    node.sync()
    node.answer(NOT_FOUND)
    assert node.announced == [1]
    node.answer({"metadata": {"name": "n1", "uid": "another"}})
    assert node.announced == [1, 1]


def test_a_node_whose_lease_is_gone_looks_whether_it_is_there_itself(node: Node) -> None:
    """A cloud that has lost its objects knows neither; the lease alone would be made again."""
    node.sync()
    created = node.requests.open[0].value
    node.answer({**created, "metadata": {**created["metadata"], "uid": "nu"}})
    node.answer(AWAY)
    node.renew(after=10)
    node.answer(NOT_FOUND)
    assert node.sync() == ["create lease", "patch nodepatch"]


def test_the_lease_of_a_former_life_is_renewed_immediately(node: Node) -> None:
    """A cloud takes a node for silent whose lease has expired, until it is renewed."""
    node.sync()
    node.answer(rejected(409, AlreadyExistsError))
    node.answer({"metadata": {"name": "n1", "uid": "nu"}})
    node.answer({})
    assert node.answer(LEASE) == ["update lease"]
    assert node.requests.open[0].value["metadata"]["resourceVersion"] == "3"


def test_a_lease_is_renewed_with_the_version_that_the_cloud_gave(node: Node) -> None:
    node.registered()
    node.renew()
    node.renew()
    [request] = node.requests.open
    assert request.value["metadata"]["resourceVersion"] == "3"
    node.answer({**LEASE, "metadata": {"name": "n1", "resourceVersion": "4"}})
    node.renew()
    assert node.requests.open[0].value["metadata"]["resourceVersion"] == "4"


@pytest.mark.parametrize("error", [rejected(409, ConflictError), rejected(403)])
def test_a_refused_lease_is_read_again_and_the_node_checked(node: Node, error: Exception) -> None:
    node.registered()
    node.renew()
    node.requests.run(10)
    node.answer(error)
    node.renew()
    assert node.sync() == ["get lease", "patch nodepatch"]


def test_a_missing_lease_shows_immediately_whether_the_node_is_gone(node: Node) -> None:
    """The collector of garbage takes a lease with its node."""
    node.registered()
    node.renew()
    node.requests.run(10)
    assert node.answer(NOT_FOUND) == ["patch nodepatch"]
    assert node.answer(NOT_FOUND) == ["create node"]


@pytest.mark.parametrize("error", [AWAY, LOST])
def test_a_lease_that_did_not_get_through_is_renewed_with_the_next_period(node: Node, error: Exception) -> None:
    node.registered()
    node.renew()
    node.answer(error)
    assert node.renew() == ["update lease"]


def test_a_rebooted_node_has_an_event_and_its_changed_conditions(tmp_path: Any) -> None:
    """The cloud's last word is what it is compared with."""
    node = Node(tmp_path)
    node.sync()
    created = node.requests.open[0].value
    node.answer(rejected(409, AlreadyExistsError))
    for condition in created["status"]["conditions"]:
        if condition["type"] == "Ready":
            condition["status"] = "False"
    created["status"]["nodeInfo"]["bootID"] = "another"
    node.answer({**created, "metadata": {**created["metadata"], "uid": "nu"}})
    assert [each.reason for each in node.told] == ["Rebooted", "NodeReady"]


def test_a_node_that_others_have_made_was_not_rebooted(tmp_path: Any) -> None:
    """Its object has no boot id yet."""
    node = Node(tmp_path)
    node.sync()
    node.answer(rejected(409, AlreadyExistsError))
    node.answer({"metadata": {"name": "n1", "uid": "nu"}})
    assert "Rebooted" not in [each.reason for each in node.told]


def test_a_new_node_reports_its_state_and_then_only_changes(tmp_path: Any) -> None:
    node = Node(tmp_path).registered()
    first = ["NodeHasSufficientMemory", "NodeHasNoDiskPressure", "NodeHasSufficientPID", "NodeReady"]
    assert [each.reason for each in node.told] == first
    node.sync()
    node.report = replace(REPORT, runtime_problem="it is away")
    node.sync()
    node.sync()
    assert [each.reason for each in node.told] == [*first, "NodeNotReady"]
    assert node.told[-1].message == "Node n1 status is now: NodeNotReady"
