"""Objects that the cloud's list of the node's devices lacks: the node asks about them, and deletes none itself."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from beehive import Message
from metamanager.repeated_queries import FIRST_DELAY
from tests.modules.edge.devicetwin.recorded import Node

_SECONDS = 60.0


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """With two devices of one model, and a model without a device."""
    made = Node(tmp_path, name="n1")
    for name in ("used", "unused"):
        _send(made, f"ns/devicemodel/{name}", {"metadata": _metadata(name), "spec": {"protocol": "demo"}})
    for name in ("listed", "lacking"):
        spec = {"deviceModelRef": {"name": "used"}, "nodeName": "n1"}
        _send(made, f"ns/device/{name}", {"metadata": _metadata(name), "spec": spec})
    yield made
    made.stop()


def _metadata(name: str) -> dict[str, str]:
    created = "2027-01-15T08:00:00Z"
    return {
        "name": name, "namespace": "ns", "uid": f"uid-{name}", "resourceVersion": "7", "creationTimestamp": created,
    }  # fmt: skip


def _send(node: Node, resource: str, content: Any, operation: str = "update") -> None:
    node.from_cloud(node.bee.message(resource, operation, content, source="devicecontroller", group="resource"))


def _listed(node: Node, *names: str) -> None:
    devices = [{"id": f"ns/{name}", "name": name, "twin": {}} for name in names]
    content = {"event_id": "d", "timestamp": 1, "devices": devices}
    node.from_cloud(node.bee.message("membership/detail", "update", content, source="devicecontroller", group="twin"))


def _asked(node: Node) -> list[Message]:
    sent = node.bee.sent_to("websocket")
    return [one for one in sent if one.route.operation == "query" and "/device" in one.route.resource]


def _answer(node: Node, question: Message, content: Any = "OK") -> None:
    node.bee.hive.respond(question.reply(node.bee.clock, content, source="edgecontroller"))
    node.bee.settle()


def test_the_node_asks_about_what_the_list_lacks_one_at_a_time(node: Node) -> None:
    """Devices first, then models that no listed device has; with all that tells whether the cloud may have lost it."""
    node.link(up=True)
    _listed(node, "listed")
    assert [one.route.resource for one in _asked(node)] == ["ns/device/lacking"]
    head = json.loads(_asked(node)[0].content_as(str))["metadata"]
    assert head == {"uid": "uid-lacking", "creationTimestamp": "2027-01-15T08:00:00Z", "resourceVersion": "7"}
    _answer(node, _asked(node)[0])
    assert [one.route.resource for one in _asked(node)] == ["ns/device/lacking", "ns/devicemodel/unused"]
    _answer(node, _asked(node)[1])
    node.bee.run_for(86400.0)
    assert len(_asked(node)) == 2


def test_a_model_without_listed_devices_is_asked_about(node: Node) -> None:
    node.link(up=True)
    _listed(node)
    for _ in range(4):
        _answer(node, _asked(node)[-1])
    assert [one.route.resource for one in _asked(node)] == [
        "ns/device/listed", "ns/device/lacking", "ns/devicemodel/used", "ns/devicemodel/unused",
    ]  # fmt: skip


def test_nothing_is_asked_about_an_object_without_a_uid(node: Node) -> None:
    """Its answer could be about another one of its name."""
    for kind in ("device", "devicemodel"):
        _send(node, f"ns/{kind}/nameless", {"metadata": {"name": "nameless", "namespace": "ns"}, "spec": {}})
    node.link(up=True)
    _listed(node, "listed", "lacking")
    _answer(node, _asked(node)[-1])
    assert [one.route.resource for one in _asked(node)] == ["ns/devicemodel/unused"]


def test_a_list_that_lacks_a_device_removes_none(node: Node) -> None:
    node.link(up=True)
    _listed(node)
    node.from_application("$hw/events/device/ns/lacking/twin/get", '{"event_id": "g"}')
    topic, said = node.published[-1]
    assert topic.endswith("/get/result")
    assert "code" not in said
    _send(
        node, "ns/device/lacking", {"metadata": {"name": "lacking", "namespace": "ns", "uid": "uid-lacking"}}, "delete"
    )
    node.from_application("$hw/events/device/ns/lacking/twin/get", '{"event_id": "g"}')
    assert node.published[-1][1]["code"] == 404


def test_what_is_not_answered_is_asked_again_until_the_link_ends(node: Node) -> None:
    node.link(up=True)
    _listed(node, "listed")
    node.bee.run_for(_SECONDS + FIRST_DELAY + _SECONDS)
    resources = [one.route.resource for one in _asked(node)]
    assert resources[:2] == ["ns/device/lacking", "ns/devicemodel/unused"]
    node.bee.run_for(3600.0)
    assert [one.route.resource for one in _asked(node)].count("ns/device/lacking") > 1
    node.link(up=False)
    count = len(_asked(node))
    node.bee.run_for(86400.0)
    assert len(_asked(node)) == count
