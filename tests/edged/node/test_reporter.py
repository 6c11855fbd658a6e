"""Which of the cloud's words about the Node object counts, and what the node reports of itself at once."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from edged.eviction_api.signals import Pressure
from edged.node.reporter import CORRECTIONS, PORTLESS_SECONDS, REGISTRATION_PAUSE
from edged.node.state import NODE_SHUTDOWN_NOT_READY
from metamanager.client import AlreadyExistsError
from modules.apimachinery.types import Node as NodeObject
from modules.apimachinery.types import decode
from tests.edged.status.meta_requests import rejected
from tests.edged.status.test_node_reconciled import Reconciled
from tests.edged.status.test_node_reports import LEASE, REPORT, Node

ROLE = "node-role.kubernetes.io/edge"


@pytest.fixture
def node(tmp_path: Any) -> Reconciled:
    return Reconciled(tmp_path)


def told(**metadata: Any) -> NodeObject:
    """The Node object in a message of the cloud, or of the store."""
    return decode(NodeObject, msgspec.json.encode({"metadata": {"name": "n1", "uid": "nu", **metadata}}))


def reported(node: Reconciled) -> dict[str, tuple[str, str]]:
    """Status and message of each condition in the patch that the cloud takes."""
    return {each["type"]: (each["status"], each["message"]) for each in node.takes()["status"]["conditions"]}


def test_a_pressure_is_reported_when_it_begins_and_when_it_ends(node: Reconciled) -> None:
    node.reporter.set_pressures(frozenset({Pressure.DISK}))
    assert reported(node) == {"DiskPressure": ("True", "kubelet has disk pressure")}
    node.reporter.set_pressures(frozenset())
    assert reported(node) == {"DiskPressure": ("False", "kubelet has no disk pressure")}


def test_labels_of_a_new_report_count_before_the_cloud_has_taken_them(node: Reconciled) -> None:
    """Pods are admitted by them meanwhile."""
    node.reporter.set_report(replace(REPORT, machine=replace(REPORT.machine, architecture="arm64")))
    assert node.state.state.known is not None
    assert node.state.state.known.metadata.labels["kubernetes.io/arch"] == "arm64"
    assert node.requests.asked() == ["patch nodepatch"]


def test_a_shutdown_of_the_machine_is_reported_and_so_is_its_cancellation(node: Reconciled) -> None:
    node.reporter.set_shutting_down(imminent=True)
    assert reported(node) == {"Ready": ("False", NODE_SHUTDOWN_NOT_READY)}
    node.reporter.set_shutting_down(imminent=False)
    assert reported(node)["Ready"][0] == "True"


def test_an_object_of_the_store_does_not_replace_one_of_the_cloud(node: Reconciled) -> None:
    node.reporter.handle_stored_node(told(resourceVersion="11", labels={"disk": "ssd"}))
    assert node.reporter.registered_node is not None
    assert node.reporter.registered_node.metadata.resource_version == "10"


def test_an_older_object_of_the_store_does_not_replace_a_newer_one(tmp_path: Any) -> None:
    reporter = Node(tmp_path).reporter
    for version in ("7", "6"):
        reporter.handle_stored_node(told(resourceVersion=version))
        assert reporter.known_node is not None
        assert reporter.known_node.metadata.resource_version == "7"


@pytest.mark.parametrize(("uid", "request_"), [("nu", "update lease"), ("another", "get lease")])
def test_a_node_object_that_took_the_place_of_another_has_a_lease_of_its_own(
    node: Reconciled, uid: str, request_: str
) -> None:
    """The lease of the former one is collected with it."""
    node.changes(uid=uid)
    assert node.renew() == [request_]


def test_a_former_object_of_the_name_changes_no_lease(node: Reconciled) -> None:
    node.changes(creationTimestamp="2026-01-02T00:00:00Z")
    node.reporter.handle_node_update(told(uid="former", creationTimestamp="2026-01-01T00:00:00Z"))
    assert node.renew() == ["update lease"]


def taken_over(node: Reconciled, labels: dict[str, str]) -> None:
    """The cloud has lost the node, and finds one of its name with these labels instead."""
    node.deletes("nu")
    node.answer(rejected(409, AlreadyExistsError))
    annotations = node.object["metadata"]["annotations"]
    node.object["metadata"] = {
        "name": "n1", "uid": "second", "resourceVersion": "20", "labels": labels, "annotations": annotations,
    }  # fmt: skip
    assert node.answer(node.object) == ["patch nodepatch", "get lease"]


def test_a_node_that_registers_again_gets_the_labels_of_a_new_one(node: Reconciled) -> None:
    """Whoever has created the object did not know them."""
    taken_over(node, {"disk": "ssd"})
    assert ROLE in node.requests.open[0].value["metadata"]["labels"]


def test_a_role_that_was_removed_while_the_first_status_was_sent_is_not_put_back(node: Reconciled) -> None:
    labels = dict(node.object["metadata"]["labels"])
    del labels["node-role.kubernetes.io/agent"]
    taken_over(node, labels)
    labels["node-role.kubernetes.io/agent"] = ""
    del labels[ROLE]
    [_, lease] = node.requests.open
    node.requests.open.remove(lease)
    node.takes()
    assert node.requests.open == []


def test_a_port_of_the_cloud_is_left_and_a_missing_one_is_written(node: Reconciled) -> None:
    """A cloud that serves a stream tunnel puts its own port in the place of the node's."""
    node.object["status"]["daemonEndpoints"] = {"kubeletEndpoint": {"Port": 10351}}
    node.changes()
    assert node.requests.open == []
    node.object["status"]["daemonEndpoints"] = {}
    node.changes()
    assert node.requests.open[0].value == {"status": {"daemonEndpoints": {"kubeletEndpoint": {"Port": 10255}}}}


def test_a_node_with_a_tunnel_writes_its_port_when_no_cloud_does(tmp_path: Any) -> None:
    """A Node that another client has made has port 0, and its cloud may serve no tunnels."""
    node = Reconciled(tmp_path, has_stream_tunnel=True)
    node.object["status"]["daemonEndpoints"] = {"kubeletEndpoint": {"Port": 0}}
    node.changes()
    node.sync(after=PORTLESS_SECONDS - 1)
    node.connects()
    node.answer(node.object)
    node.answer(LEASE)
    assert node.sync(after=PORTLESS_SECONDS - 1) == [], "the cloud may write the tunnel's"
    node.sync(after=1)
    assert node.takes()["status"]["daemonEndpoints"] == {"kubeletEndpoint": {"Port": 10255}}


def test_a_port_that_the_cloud_writes_late_is_left(tmp_path: Any) -> None:
    node = Reconciled(tmp_path, has_stream_tunnel=True)
    for port, seconds in ((0, PORTLESS_SECONDS / 2), (10351, PORTLESS_SECONDS)):
        node.object["status"]["daemonEndpoints"] = {"kubeletEndpoint": {"Port": port}}
        node.changes()
        node.sync(after=seconds)
    assert node.requests.open == []


def test_a_node_that_is_lost_again_and_again_registers_at_intervals_by_the_monotonic_clock(node: Reconciled) -> None:
    """The cloud may keep a node in a cache; an administrator may set the wall clock."""
    immediately = []
    for seconds in (0.0, REGISTRATION_PAUSE - 0.5, 0.5, REGISTRATION_PAUSE, 1.0):
        node.requests.run(seconds)
        node.requests.simulation.clock.jump_wall(3600)
        node.deletes(node.object["metadata"]["uid"])
        immediately.append(node.requests.asked() == ["create node"])
        node.sync()
        node.object["metadata"] = {"name": "n1", "uid": "next", "resourceVersion": "20"}
        node.answer(node.object)
        node.requests.open.clear()
    assert immediately == [True, False, True, True, False]


def test_a_clock_that_is_set_allows_no_further_corrections(node: Reconciled) -> None:
    for _ in range(CORRECTIONS + 2):
        node.loses()
        if node.requests.open:
            node.takes()
    node.requests.simulation.clock.jump_wall(3600)
    node.loses()
    assert node.requests.open == []


def test_the_first_status_of_a_new_object_is_no_correction(node: Reconciled) -> None:
    """The object that the cloud has instead shows somebody else's conditions."""
    for _ in range(CORRECTIONS + 2):
        node.loses()
        if node.requests.open:
            node.takes()
    labels = node.object["metadata"]["labels"]
    taken_over(node, labels)
    assert node.requests.open[0].operation == "patch"


def test_a_node_asks_at_each_connection_how_it_is(node: Reconciled) -> None:
    for _ in range(3):
        assert node.connects() == ["get node", "update lease"]
        node.answer(node.object)
        node.answer(LEASE)


def test_a_late_answer_to_a_registration_takes_back_no_newer_object(node: Reconciled) -> None:
    node.deletes("nu")
    newer = {
        "uid": "second",
        "resourceVersion": "30",
        "creationTimestamp": "2026-01-02T00:00:00Z",
        "labels": {"a": "b"},
    }
    node.reporter.handle_node_update(told(**newer))
    node.answer({**node.object, "metadata": {"name": "n1", **newer, "resourceVersion": "20", "labels": {}}})
    assert node.reporter.registered_node is not None
    assert node.reporter.registered_node.metadata.resource_version == "30"


def test_a_node_with_a_tunnel_writes_its_port_in_time_however_often_the_cloud_tells_of_it(tmp_path: Any) -> None:
    node = Reconciled(tmp_path, has_stream_tunnel=True)
    node.object["status"]["daemonEndpoints"] = {"kubeletEndpoint": {"Port": 0}}
    node.changes()
    node.sync(after=PORTLESS_SECONDS - 1)
    node.changes()
    assert node.sync(after=1) == ["patch nodepatch"]


def test_the_clouds_answer_to_a_question_announces_the_node(node: Reconciled) -> None:
    """Also when nothing is to be corrected in it."""
    node.connects()
    node.answer(node.object)
    assert (node.announced, node.requests.asked()) == ([1, 1], ["update lease"])


def test_the_clouds_answer_to_a_status_announces_the_node(node: Reconciled) -> None:
    node.reporter.set_pressures(frozenset({Pressure.DISK}))
    assert node.connects() == ["patch nodepatch", "get node", "update lease"]
    node.answer(node.object)
    assert node.announced == [1, 1]


def test_an_answer_from_before_the_deletion_does_not_announce_the_node(node: Reconciled) -> None:
    node.connects()
    node.deletes("nu")
    node.answer(node.object)
    assert node.announced == [1]
    assert node.reporter.registered_node is None
    node.answer(LEASE)
    node.answer({**node.object, "metadata": {"name": "n1", "uid": "second", "resourceVersion": "20"}})
    assert node.announced == [1, 1]


def test_a_status_of_another_node_object_is_not_taken_for_this_one(node: Reconciled) -> None:
    """The deletion of its object overtakes the answer to a status."""
    node.reporter.set_pressures(frozenset({Pressure.DISK}))
    node.deletes("nu")
    node.answer(node.object)
    assert node.announced == [1]
    assert node.reporter.registered_node is None
    assert node.requests.asked() == ["create node"]
