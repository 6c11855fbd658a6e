"""Where messages from the cloud go, row by row of KubeEdge's table, and which late answers are kept."""

import pytest

from beehive import Message
from edgehub.dispatch import Decision, Step, decide, late_object
from tests.edgehub.messages import message


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"group": "resource"}, Decision(Step.BROADCAST, "meta")),
        ({"group": "resource", "parent_msg_id": "p"}, Decision(Step.RESPOND)),
        ({"group": "func"}, Decision(Step.BROADCAST, "meta")),
        ({"group": "func", "parent_msg_id": "p"}, Decision(Step.RESPOND)),
        ({"group": "twin"}, Decision(Step.BROADCAST, "twin")),
        ({"group": "twin", "parent_msg_id": "p"}, Decision(Step.BROADCAST, "twin")),
        ({"group": "user", "parent_msg_id": "p"}, Decision(Step.RESPOND)),
        ({"group": "user", "source": "router_eventbus"}, Decision(Step.SEND, "eventbus")),
        ({"group": "user", "source": "router_servicebus"}, Decision(Step.SEND, "servicebus")),
        ({"group": "user", "source": "router_rest"}, Decision(Step.SEND, "servicebus")),
        ({"group": "user", "source": "router_other"}, Decision(Step.REJECT, "unknown source")),
        ({"group": "user", "source": ""}, Decision(Step.REJECT, "unknown source")),
        ({"group": "taskmanager", "source": "taskmanager"}, Decision(Step.SEND, "taskmanager")),
        (
            {"group": "taskmanager", "source": "taskmanager", "parent_msg_id": "p"},
            Decision(Step.SEND, "taskmanager"),
        ),
        ({"group": "taskmanager", "source": "owner"}, Decision(Step.REJECT, "only this node says that")),
        ({"group": ""}, Decision(Step.REJECT, "unknown group")),
        ({"group": "Resource"}, Decision(Step.REJECT, "unknown group")),
        ({"group": "edgecontroller"}, Decision(Step.REJECT, "unknown group")),
    ],
)
def test_the_wire_group_decides(fields: dict[str, str], expected: Decision) -> None:
    """One row of docs/protocol.md, "Dispatch" each; twin answers go to twin, as there."""
    assert decide(message(**fields)) == expected


INTERNAL = Decision(Step.REJECT, "only this node says that")


@pytest.mark.parametrize(
    "forged",
    [
        message("node/connection", "connect", "cloud_disconnected", source="edgehub"),
        message("node/connection", "connect", "cloud_disconnected", source="edgecontroller"),
        message("node/shutdown", "update", "true", source="edgecontroller"),
        message("node/disk", "update", source="edgecontroller"),
        message("null/store/listed", "update", "x", source="edgecontroller"),
        message("default/event/e", "insert", {}, source="edgecontroller"),
        message("default/devicetwin/d", "update", {}, source="edgecontroller"),
        message("null/mqtttopics/topics", "update", {}, source="edgecontroller"),
        message("null/targeturls/urls", "update", {}, source="edgecontroller"),
        message("null/nodetask/job", "update", {}, source="edgecontroller"),
        message("default/pod/p", "update", {}, source="edged"),
        message("default/pod/p", "delete", source="edged"),
        message("default/pod/p", "update", {}, source="metamanager"),
        message("default/device/d", "update", {}, source="meta"),
        message("default/secret/s", "query", source="edgecontroller"),
        message("default/podpatch/p", "patch", "{}", source="edgecontroller"),
    ],
)
@pytest.mark.parametrize("group", ["resource", "func"])
def test_what_modules_of_the_node_say_to_each_other_the_cloud_cannot(forged: Message, group: str) -> None:
    """Such as that the link is down, or a status that edged is to have reported."""
    assert decide(forged.with_route(group=group)) == INTERNAL


@pytest.mark.parametrize("source", ["bus", "meta"])
def test_the_cloud_is_no_application_and_not_metamanager(source: str) -> None:
    """Else it would report a device's values. It may answer them."""
    said = message("JGh3", "response", "{}", source=source, group="twin")
    assert decide(said) == INTERNAL
    assert decide(said.with_header(parent_msg_id="p")) == Decision(Step.BROADCAST, "twin")


@pytest.mark.parametrize(
    "kind", ["configmap", "secret", "persistentvolume", "persistentvolumeclaim", "volumeattachment"]
)
def test_a_late_answer_with_an_object_becomes_an_update_of_the_same_id(kind: str) -> None:
    """The cloud waits for an acknowledgement of exactly this message id."""
    answer = message(f"default/{kind}/c", "response", {"a": 1}, parent_msg_id="gone", resourceversion="12")
    update = late_object(answer)
    assert update is not None
    assert (update.id, update.parent_id, update.header.resourceversion) == (answer.id, "", "12")
    assert (update.route.operation, update.route.resource) == ("update", answer.route.resource)
    assert update.content == answer.content
    assert decide(update) == Decision(Step.BROADCAST, "meta")


@pytest.mark.parametrize(
    "answer",
    [
        message("default/configmap/c", "response", parent_msg_id="gone"),
        message("default/pod/p", "response", parent_msg_id="gone", resourceversion="3"),
        message("null/node/n", "response", parent_msg_id="gone", resourceversion="3"),
        message("kube-node-lease/lease/n", "response", parent_msg_id="gone", resourceversion="3"),
        message("default/configmap/c", "error", parent_msg_id="gone", resourceversion="3"),
        message("default/configmap/c", "response", parent_msg_id="gone", resourceversion="3", group="user"),
        message("", "response", parent_msg_id="gone", resourceversion="3"),
    ],
    ids=["no version", "pod", "node", "lease", "error", "user group", "no resource"],
)
def test_other_late_answers_are_dropped(answer: Message) -> None:
    """Those the cloud does not send again, or that hold no object."""
    assert late_object(answer) is None
