"""The cloud's Node compared with the node's own: corrected immediately, each field by its owner."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from edged.node.reporter import CORRECTIONS, REGISTRATION_PAUSE
from metamanager.client import AlreadyExistsError, ConflictError
from modules.apimachinery.types import Node as NodeObject
from modules.apimachinery.types import decode
from modules.apimachinery.types.nodes import NodeRuntimeHandler, Taint
from tests.edged.status.meta_requests import NOT_FOUND, rejected
from tests.edged.status.test_node_reports import LEASE, LOST, REPORT, Node


class Reconciled(Node):
    """A registered node, and the cloud's object of it."""

    def __init__(self, root: Any, **settings: Any) -> None:
        super().__init__(root, **settings)
        self.sync()
        created = self.requests.open[0].value
        self.object = {**created, "metadata": {**created["metadata"], "uid": "nu", "resourceVersion": "10"}}
        self.answer(self.object)
        self.answer(LEASE)
        self.answer(LEASE)
        assert self.requests.open == []

    def changes(self, **metadata: Any) -> None:
        """Somebody has changed the object: the cloud says so."""
        version = str(int(self.object["metadata"]["resourceVersion"]) + 1)
        self.object["metadata"] = {**self.object["metadata"], "resourceVersion": version, **metadata}
        self.reporter.handle_node_update(decode(NodeObject, msgspec.json.encode(self.object)))

    def loses(self, kind: str = "Ready") -> None:
        """The node controller has given a condition up."""
        for condition in self.object["status"]["conditions"]:
            if condition["type"] == kind:
                condition["status"] = "Unknown"
        self.changes()

    def takes(self) -> dict[str, Any]:
        """The cloud takes the open patch, and says how the node is since; the patch."""
        [request] = self.requests.open
        for condition in request.value.get("status", {}).get("conditions", ()):
            for there in self.object["status"]["conditions"]:
                if there["type"] == condition["type"]:
                    there.update(condition)
        version = str(int(self.object["metadata"]["resourceVersion"]) + 1)
        self.object["metadata"]["resourceVersion"] = version
        self.answer(self.object)
        patch: dict[str, Any] = request.value
        return patch


@pytest.fixture
def node(tmp_path: Any) -> Reconciled:
    return Reconciled(tmp_path)


def test_labels_and_taints_of_others_are_taken_and_left_alone(node: Reconciled) -> None:
    node.object["spec"] = {"taints": [{"key": "maintenance", "effect": "NoExecute"}]}
    node.changes(labels={**node.object["metadata"]["labels"], "disk": "ssd"}, annotations={"theirs": "1"})
    known = node.reporter.known_node
    assert known is not None
    assert known.metadata.labels["disk"] == "ssd"
    assert known.spec.taints == (Taint(key="maintenance", effect="NoExecute"),)
    patch = node.takes()
    assert patch == {"metadata": {"annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"}}}


def test_a_condition_that_somebody_changed_is_corrected_immediately(node: Reconciled) -> None:
    node.loses()
    assert node.requests.asked() == ["patch nodepatch"]
    [condition] = node.takes()["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("Ready", "True")
    node.changes()
    assert node.requests.open == [], "the echo of a patch is no news"


def test_a_label_of_its_own_is_put_back_and_a_role_is_not(tmp_path: Any) -> None:
    node = Reconciled(tmp_path, node_labels={"site": "berlin"})
    labels = dict(node.object["metadata"]["labels"])
    labels["site"], labels["kubernetes.io/hostname"] = "paris", "other"
    del labels["node-role.kubernetes.io/agent"]
    node.changes(labels=labels)
    assert node.requests.open[0].value["metadata"]["labels"] == {"site": "berlin", "kubernetes.io/hostname": "n1"}


def test_two_writers_that_do_not_agree_do_not_fill_the_link(node: Reconciled) -> None:
    """What the node itself has to say is never held back."""
    sent = 0
    for _ in range(60):
        node.loses()
        node.sync()
        if node.requests.open:
            sent += 1
            node.takes()
        node.requests.run(1)
    assert CORRECTIONS <= sent <= CORRECTIONS + 2
    node.report = replace(REPORT, runtime_problem="down")
    node.loses()
    assert node.requests.asked() == ["patch nodepatch"]


def test_runtime_handlers_are_sent_once_to_an_api_server_that_drops_them(node: Reconciled) -> None:
    """Those before 1.31 do; corrections are kept for what others change."""
    node.report = replace(REPORT, runtime_handlers=(NodeRuntimeHandler(),))
    node.sync()
    assert node.takes() == {"status": {"runtimeHandlers": [{"name": "", "features": {}}]}}
    for _ in range(CORRECTIONS + 2):
        node.changes()
        node.sync()
        assert node.requests.open == []
    node.loses()
    assert node.requests.asked() == ["patch nodepatch"]


def test_a_role_is_not_put_back_after_corrections_that_were_held_back(node: Reconciled) -> None:
    for _ in range(CORRECTIONS + 2):
        node.loses()
        if node.requests.open:
            node.takes()
    labels = dict(node.object["metadata"]["labels"])
    del labels["node-role.kubernetes.io/agent"]
    node.changes(labels=labels)
    assert node.requests.open == []
    node.report = replace(REPORT, runtime_problem="down")
    node.sync()
    assert "labels" not in node.takes().get("metadata", {})


def test_an_older_state_changes_nothing(node: Reconciled) -> None:
    node.changes(labels={**node.object["metadata"]["labels"], "disk": "ssd"})
    node.reporter.handle_node_update(
        decode(NodeObject, b'{"metadata": {"name": "n1", "uid": "nu", "resourceVersion": "9"}}')
    )
    assert node.reporter.known_node is not None
    assert node.reporter.known_node.metadata.labels["disk"] == "ssd"
    assert node.requests.open == []


def test_the_answer_to_a_patch_does_not_take_back_a_newer_state(node: Reconciled) -> None:
    node.loses()
    older = msgspec.to_builtins(node.object)
    node.changes(labels={**node.object["metadata"]["labels"], "disk": "ssd"})
    node.answer(older)
    assert node.reporter.known_node is not None
    assert node.reporter.known_node.metadata.labels["disk"] == "ssd"


def test_a_patch_that_failed_is_sent_again_also_beyond_the_corrections(node: Reconciled) -> None:
    for _ in range(CORRECTIONS + 2):
        node.loses()
        if node.requests.open:
            node.takes()
    node.report = replace(REPORT, runtime_problem="down")
    node.sync()
    node.answer(rejected(409, ConflictError))
    assert node.sync() == ["patch nodepatch"]


def test_resources_of_others_are_part_of_the_status(node: Reconciled) -> None:
    node.object["status"]["capacity"]["example.com/dongle"] = "4"
    node.changes()
    assert node.state.status().allocatable["example.com/dongle"] == "4"


def test_what_changes_while_a_patch_is_under_way_is_put_right_after_it(node: Reconciled) -> None:
    node.report = replace(REPORT, runtime_problem="down")
    node.sync()
    node.loses("DiskPressure")
    assert node.requests.asked() == ["patch nodepatch"]
    node.takes()
    [condition] = node.takes()["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("DiskPressure", "False")


@pytest.mark.parametrize("uid", ["nu", ""])
def test_a_deleted_node_registers_again_immediately(node: Reconciled, uid: str) -> None:
    """When the cloud does not say which object of the name is gone, it is asked whether there is one."""
    node.deletes(uid)
    if not uid:
        assert node.requests.asked() == ["get node"]
        node.answer(NOT_FOUND)
    assert node.requests.asked() == ["create node"]
    between = node.reporter.registered_node
    node.answer({**node.object, "metadata": {"name": "n1", "uid": "second", "resourceVersion": "20"}})
    after = node.reporter.registered_node
    assert between is None
    assert after is not None
    assert after.metadata.uid == "second"
    assert node.requests.asked() == ["patch nodepatch", "get lease"], "the lease of another object is not its own"


def test_a_deletion_behind_the_next_registration_does_not_count(node: Reconciled) -> None:
    """KubeEdge's does not say which object it means."""
    node.deletes("")
    assert node.answer(node.object) == []
    assert node.reporter.registered_node is not None


def test_a_node_that_is_not_registered_tries_to_when_another_object_of_its_name_is_gone(tmp_path: Any) -> None:
    node = Node(tmp_path)
    node.reporter.handle_stored_node(decode(NodeObject, b'{"metadata": {"name": "n1", "uid": "nu"}}'))
    assert node.deletes("") == ["create node"]


def test_the_deletion_of_an_earlier_object_does_not_count(node: Reconciled) -> None:
    node.deletes("before")
    assert node.requests.open == []


def test_a_cloud_that_keeps_unknown_fields_is_not_asked_without_end(node: Reconciled) -> None:
    """KubeEdge's answers a query from a cache and a patch from the API server."""
    node.loses()
    for _ in range(2):
        node.answer(NOT_FOUND)
        if node.requests.asked() == ["create node"]:
            node.answer(rejected(409, AlreadyExistsError))
            assert node.answer(node.object) == ["patch nodepatch", "get lease"]
    assert node.requests.asked() == ["get lease"]
    node.answer(NOT_FOUND)
    assert node.sync(after=REGISTRATION_PAUSE) == ["create node"]


def test_a_node_that_was_away_asks_how_it_is(node: Reconciled) -> None:
    """KubeEdge's cloud may not send what it has changed meanwhile."""
    assert node.connects() == ["get node", "update lease"]
    assert node.connects() == ["get node", "update lease"]
    node.object["metadata"] = {**node.object["metadata"], "resourceVersion": "30"}
    node.object["status"]["conditions"][3]["status"] = "Unknown"
    assert node.answer(node.object) == ["update lease", "patch nodepatch"]


@pytest.mark.parametrize("answer", [LOST, rejected(500), b"[}"])
def test_a_node_that_learns_nothing_goes_on(node: Reconciled, answer: object) -> None:
    node.connects()
    assert node.answer(answer) == ["update lease"]
    assert node.reporter.registered_node is not None


def test_a_node_that_was_deleted_while_it_was_away_registers_at_its_return(node: Reconciled) -> None:
    node.connects()
    assert node.answer(NOT_FOUND) == ["update lease", "create node"]


def test_a_connection_during_a_registration_asks_whether_the_node_is_still_there(node: Reconciled) -> None:
    """The answer was sent before; the node was deleted since, and nobody tells of that."""
    assert node.deletes("nu") == ["create node"]
    node.connects()
    node.answer({**node.object, "metadata": {"name": "n1", "uid": "second", "resourceVersion": "20"}})
    assert "get node" in node.requests.asked()
    while node.requests.asked()[0] != "get node":
        node.answer(LOST)
    node.answer(NOT_FOUND)
    assert node.reporter.registered_node is None


def test_before_it_registers_a_node_is_as_in_the_store(tmp_path: Any) -> None:
    node = Node(tmp_path, node_labels={"site": "berlin"})
    stored = b'{"metadata": {"name": "n1", "uid": "nu", "resourceVersion": "7", "labels": {"disk": "ssd"}}}'
    node.reporter.handle_stored_node(decode(NodeObject, stored))
    assert node.reporter.registered_node is None
    assert node.reporter.known_node is not None
    labels = node.reporter.known_node.metadata.labels
    assert (labels["disk"], labels["site"], labels["kubernetes.io/os"]) == ("ssd", "berlin", "linux")


def test_a_node_made_by_others_registers_when_the_cloud_tells_of_it(tmp_path: Any) -> None:
    node = Node(tmp_path, register_node=False)
    node.sync()
    node.answer(NOT_FOUND)
    node.reporter.handle_node_update(decode(NodeObject, b'{"metadata": {"name": "n1", "uid": "nu"}}'))
    assert node.requests.asked() == ["get node"]


def test_a_node_registers_with_its_taints_and_leaves_them_to_others_then(tmp_path: Any) -> None:
    node = Reconciled(tmp_path, node_taints=(Taint(key="edge", value="far", effect="NoSchedule"),))
    assert node.object["spec"]["taints"] == [{"key": "edge", "value": "far", "effect": "NoSchedule"}]
    node.object["spec"] = {}
    node.changes()
    assert node.requests.open == []
    assert node.reporter.known_node is not None
    assert node.reporter.known_node.spec.taints == ()
