"""Which messages need an acknowledgement, and where messages from nodes go: KubeEdge's tables, and its recording."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from beehive.decoding import convert
from beehive.message import Header, Message, Route
from modules.cloud.cloudhub.acknowledgement import needs_acknowledgement
from modules.cloud.cloudhub.routing import (
    OBJECT_REQUESTS,
    Destination,
    destination_of,
    is_deletion_of_node,
    node_of,
    on_node,
    resource_type_of,
    wants_answer,
)
from modules.cloud.edgecontroller.upstream.handlers import HANDLERS
from tests.interop.traces import KUBEEDGE
from tests.modules.traces import recordings, steps_of

CAPTURED = (
    "start", "d1-device-created", "d2-desired-changed", "d3-reported", "d5-offline", "j1-prepull", "j2-configupdate",
    "j3-nodeupgrade", "m1-metaserver", "m2-token", "m4-ephemeral", "m6-static", "r1-rest-eventbus",
    "r3-rest-servicebus", "r4-servicebus-rest",
)  # fmt: skip
STATUS_ERROR = {"ErrStatus": {"code": 404}}


def message(resource: str, operation: str, source: str = "edgecontroller", group: str = "resource",
            content: Any = None) -> Message:  # fmt: skip
    route = Route(source=source, group=group, operation=operation, resource=resource)
    return Message(Header(msg_id="m"), route, content)


def test_a_failed_call_of_kubeedges_servicebus_is_an_answer() -> None:
    """Its message has no operation and no resource; it must end the caller's wait, which KubeEdge's cloud lets last."""
    said = message("", "", source="servicebus", group="user", content={"status_code": 404})
    answer = said.with_header(parent_msg_id="asked")
    assert destination_of(answer) is Destination.ROUTER
    assert on_node(answer, "n1").route.operation == "upload"
    assert destination_of(said) is Destination.REFUSED
    assert destination_of(answer.with_route(operation="response")) is Destination.ACKNOWLEDGE
    assert destination_of(answer.with_route(source="bus")) is Destination.REFUSED


@pytest.mark.parametrize(
    ("sent", "needed"),
    [
        (message("node/n/default/pod/p", "insert"), True),
        (message("node/n/default/pod/p", "delete"), True),
        (message("node/n/default/pod/p", "response"), False),
        (message("node/n/default/podpatch/p", "response"), False),
        (message("node/n/default/podstatus/p", "response"), False),
        (message("node/n/default/configmap/c", "update"), True),
        (message("node/n/default/configmap/c", "response", content={"kind": "ConfigMap"}), True),
        (message("node/n/default/configmap/c", "response", content=STATUS_ERROR), False),
        (message("node/n/default/secret/s", "response", content="OK"), False),
        (message("node/n/default/serviceaccounttoken/s", "response", content={}), False),
        (message("node/n/default/configmap/podlist", "update"), False),
        (message("node/n/null/node/n", "update"), True),
        (message("node/n/null/node/n", "response"), False),
        (message("node/n/null/nodepatch/n", "response"), False),
        (message("node/n/kube-node-lease/lease/n", "response"), False),
        (message("node/n/default/certificatesigningrequest/c", "response"), False),
        (message("node/n/k8s/ca.crt", "response", source="cloudhub", content="pem"), False),
        (message("node/n/membership", "update", source="devicecontroller", group="twin"), False),
        (message("node/n/default/device/d", "insert", source="devicecontroller"), True),
        (message("node/n/default/volume/v", "createvolume", source="csidriver"), False),
        (message("node/n/ignore/Application/ignore", "applicationResponse", source="dynamiccontroller"), False),
        (message("node/n/a/topic", "publish", source="router_eventbus", group="user"), False),
        (message("node/n/default/x/y", "upgrade", source="taskmanager"), False),
        (message("node/n/default/pod/p", "response", source="dynamiccontroller"), True),
    ],
)
def test_which_messages_need_an_acknowledgement(sent: Message, needed: bool) -> None:
    assert needs_acknowledgement(sent) is needed
    undecoded = sent.with_content(msgspec.Raw(msgspec.json.encode(sent.content)))
    assert needs_acknowledgement(undecoded) is needed


@pytest.mark.parametrize("path", recordings(), ids=lambda path: path.stem)
def test_a_real_edge_acknowledges_whatever_needs_it(path: Path) -> None:
    """KubeEdge's edge acknowledges a little more than its cloud waits for; never less."""
    steps = list(steps_of(path))
    acknowledged = {step.parent for step in steps if step.from_edge and step.operation == "response"}
    for step in steps:
        if not step.from_edge:
            sent = convert(step.message, Message)
            if needs_acknowledgement(sent.with_route(resource=f"node/lab-edge/{step.resource}")):
                assert step.id in acknowledged, step.resource


@pytest.mark.parametrize(
    ("came", "destination"),
    [
        (message("node", "keepalive", source="websocket"), Destination.KEEPALIVE),
        (message("default/volume/v", "response", source="edged"), Destination.WAITER),
        (message("default/pod/p", "response"), Destination.ACKNOWLEDGE),
        (message("default/pod/p", "error", source="metamanager"), Destination.LOG),
        (message("a/topic", "upload", source="bus", group="user"), Destination.ROUTER),
        (message("x", "UpdateNodeActionStatus", source="websocket", group="hub"), Destination.TASKS),
        (message("task/1/node/n", "upgrade", source="websocket", group="hub"), Destination.TASKS),
        (message("k8s/ca.crt", "query", source="metamanager"), Destination.CA),
        (message("default/pod/p", "update"), Destination.DISCARD),
        (message("null", "null", source="metaserver"), Destination.DYNAMIC),
        (message("membership/detail", "get", source="twin"), Destination.DEVICES),
        (message("default/podpatch/p", "patch", source="edged", group="meta"), Destination.OBJECTS),
        (message("default/podstatus", "update", source="metaManager"), Destination.OBJECTS),
        (message("cloudcore/objects", "call", source="control"), Destination.REFUSED),
        (message("default/pod/p", "remove", source="control"), Destination.REFUSED),
        (message("cloudcore/objects", "call", source="metaserver"), Destination.REFUSED),
        (message("node/n2", "connected", source="x"), Destination.REFUSED),
        (message("node/n2", "disconnected", source="edged", group="meta"), Destination.REFUSED),
        (message("cloudhub/acknowledged", "acknowledged", source=""), Destination.REFUSED),
        (message("default/podpatch/p", "patch", source="edged", group="edgecontroller"), Destination.REFUSED),
        (message("default/podpatch/p", "delete", source="edged", group="meta"), Destination.REFUSED),
        (message("default/secret/s", "insert", source="edged", group="meta"), Destination.REFUSED),
        (message("node/n2/default/secret/s", "query", source="edged", group="meta"), Destination.REFUSED),
        (message("", "query", source="edged", group="meta"), Destination.REFUSED),
    ],
)
def test_where_a_message_from_a_node_goes(came: Message, destination: Destination) -> None:
    assert destination_of(came) is destination


def test_allowed_messages_are_the_handled_ones() -> None:
    """Registration is edgecontroller's own work; of all the rest it says who answers it."""
    assert {*HANDLERS, ("node", "insert")} == OBJECT_REQUESTS


def test_forwarded_messages_come_from_the_node_of_the_connection() -> None:
    """Whatever source it names, none that a module has."""
    handed = on_node(message("default/pod/p", "insert", source="control"), "n1")
    assert (handed.route.source, handed.route.resource) == ("system:node:n1", "node/n1/default/pod/p")


@pytest.mark.parametrize(
    ("resource", "node"),
    [("node/n1/default/pod/p", "n1"), ("node/n1", ""), ("default/pod/p", ""), ("node//default/pod/p", "")],
)
def test_a_message_of_a_controller_goes_to_the_node_in_its_resource(resource: str, node: str) -> None:
    """An event about a node goes to none."""
    assert node_of(message(resource, "connected")) == node


@pytest.mark.parametrize(
    ("resource", "node"),
    [("node/n1/a/topic", "n1"), ("node/n1/a//b/", "n1"), ("node/n1/", "n1"), ("node/n1", ""), ("x/n1/a", ""), ("", "")],
)
def test_what_is_for_an_application_of_a_node_may_have_any_path(resource: str, node: str) -> None:
    assert node_of(message(resource, "publish", group="user")) == node


@pytest.mark.parametrize(
    ("resource", "group", "is_deletion"),
    [
        ("node/n1/null/node/n1", "resource", True),
        ("node/n1/null/node/n1", "user", False),
        ("node/n1/default/lease/n1", "resource", False),
    ],
)
def test_the_deletion_of_a_node_is_no_request_to_an_application(
    resource: str, group: str, *, is_deletion: bool
) -> None:
    """Whose path may look so."""
    assert is_deletion_of_node(message(resource, "delete", group=group)) is is_deletion


@pytest.mark.parametrize(
    ("resource", "kind"),
    [
        ("default/pod/p", "pod"),
        ("kube-node-lease/lease/n1", "lease"),
        ("default/whatever/p", "other"),
        ("default/deployment/d", "other"),
        ("null", "other"),
    ],
)
def test_refusals_are_counted_by_the_kinds_that_edges_use(resource: str, kind: str) -> None:
    """A node that makes up others makes no figure of its own for each."""
    assert resource_type_of(message(resource, "insert")) == kind


@pytest.mark.parametrize(
    ("operation", "sync", "waits"),
    [
        ("query", False, True),
        ("insert", False, True),
        ("update", False, True),
        ("patch", False, True),
        ("delete", False, True),
        ("response", False, False),
        ("upload", False, False),
        ("upload", True, True),
    ],
)
def test_a_refused_caller_gets_an_answer(operation: str, *, sync: bool, waits: bool) -> None:
    """Who answers or tells is not; that nobody waits is all that the wire does not say."""
    said = message("default/pod/p", operation).with_header(sync=sync)
    assert wants_answer(said) is waits


def test_real_edges_say_nothing_that_is_refused() -> None:
    """Of 2019 and of today, with devices, rules, jobs, tokens and Applications."""
    paths = [*recordings("2019"), *recordings("today"), *(KUBEEDGE / f"{name}.jsonl" for name in CAPTURED)]
    said = [step for path in paths for step in steps_of(path) if step.from_edge]
    assert len(said) > 200
    for step in said:
        assert destination_of(convert(step.message, Message)) is not Destination.REFUSED, step.resource
