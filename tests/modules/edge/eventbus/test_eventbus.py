"""eventbus on a real mosquitto, with a store, devicetwin and edgehub's outbox."""

import base64
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from modules.edge.eventbus.counters import Receiver
from modules.edge.eventbus.routing import MAX_PAYLOAD
from tests.end_to_end.processes import wait_until
from tests.modules.edge.eventbus.broker import Application, Broker, needs_mosquitto
from tests.modules.edge.eventbus.node import Node, external
from tests.support.patience import PATIENCE
from tests.support.stopping import stopping

pytestmark = needs_mosquitto
WORD = "open sesame"
P = "$hw/events/device/ns/thermo"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    directory = tmp_path / "broker"
    directory.mkdir()
    made = Broker(directory).start()
    yield made
    made.stop()


@pytest.fixture
def node(tmp_path: Path, broker: Broker) -> Iterator[Node]:
    made = Node(tmp_path, external(broker.port)).start()
    yield made
    made.stop()


@pytest.fixture
def application(broker: Broker) -> Iterator[Application]:
    made = Application(broker.port, "$hw/events/device/+/+/twin/update/result", "$hw/events/node/#", "out/#")
    yield made
    made.close()


def _add_device(node: Node, application: Application) -> None:
    device = {"metadata": {"name": "thermo", "namespace": "ns", "uid": "u", "resourceVersion": "1"}, "spec": {}}
    node.send("metamanager", "ns/device/thermo", "insert", device, source="devicecontroller", group="resource")
    topic, _ = application.hear()
    assert topic == "$hw/events/node/n1/membership/updated"


def _report(value: Any, event_id: str = "e") -> str:
    return json.dumps({"event_id": event_id, "timestamp": 1, "twin": {"t": {"actual": {"value": value}}}})


def test_a_report_is_answered(node: Node, application: Application) -> None:
    """The whole way: broker, eventbus, devicetwin, store, and back."""
    _add_device(node, application)
    application.publish(f"{P}/twin/update", _report("21"))
    topic, payload = application.hear()
    assert topic == f"{P}/twin/update/result"
    assert json.loads(payload)["twin"]["t"]["actual"]["value"] == "21"


def test_messages_published_while_the_node_is_down_are_not_lost(
    node: Node, application: Application, broker: Broker
) -> None:
    """The broker keeps the session, and the reports come in their order."""
    _add_device(node, application)
    application.publish(f"{P}/twin/update", _report("0", "first"))
    assert json.loads(application.hear()[1])["event_id"] == "first"
    node.stop()
    for number in range(5):
        application.publish(f"{P}/twin/update", _report(str(number), f"e{number}"))
    node.start()
    answered = [json.loads(application.hear()[1])["event_id"] for _ in range(5)]
    assert answered == [f"e{number}" for number in range(5)]


def test_uploads_are_in_the_outbox_before_the_broker_forgets_them(node: Node, application: Application) -> None:
    """In order, and again after a restart."""
    _add_device(node, application)  # so the node listens
    for number in range(50):
        application.publish("factory/user/line", f"m{number}")
    application.publish(f"{P}/twin/update", _report("done"))
    application.hear()  # what came after them is handled
    node.stop()
    wanted = [("factory/user/line", f"m{number}") for number in range(50)]
    assert node.uploads()[:50] == wanted
    node.start()
    node.stop()
    assert node.uploads()[:50] == wanted


def test_binary_data_is_refused_and_does_not_stop_the_rest(
    node: Node, application: Application, caplog: pytest.LogCaptureFixture
) -> None:
    """KubeEdge destroys it silently."""
    _add_device(node, application)
    application.publish("factory/user/line", b"\xff\xfe\x00")
    application.publish(f"{P}/twin/update", _report("1"))
    assert application.hear()[0] == f"{P}/twin/update/result"
    assert "no UTF-8" in caplog.text
    node.stop()
    assert node.uploads() == []


def test_a_broker_that_goes_and_comes_back(node: Node, application: Application, broker: Broker) -> None:
    """What was to be published meanwhile is published then, and the subscriptions are there again."""
    _add_device(node, application)
    topics = ("out/#", "$hw/events/device/+/+/twin/update/result")
    Application(broker.port, *topics, session="late").close()
    application.close()
    broker.stop()
    node.send("eventbus", "out/a", "publish", "while it was away", source="router_eventbus", group="user")
    broker.start()
    late = Application(broker.port, session="late")
    topic, payload = late.hear()
    assert (topic, payload) == ("out/a", b"while it was away")
    late.publish(f"{P}/twin/update", _report("9"))
    assert late.hear()[0] == f"{P}/twin/update/result"
    late.close()


def test_subscriptions_of_the_cloud_outlive_a_restart(node: Node, application: Application) -> None:
    """And an unsubscription too; a malformed topic is refused."""
    for topic in ("sensors/+/raw", "odd/topic", "wrong#"):
        node.send("eventbus", topic, "subscribe", None, source="router_eventbus", group="user")
    node.send("eventbus", "odd/topic", "unsubscribe", None, source="router_eventbus", group="user")
    _add_device(node, application)
    node.stop()
    node.start()
    application.publish("sensors/1/raw", "x")
    application.publish("odd/topic", "y")
    application.publish(f"{P}/twin/update", _report("1"))
    application.hear()
    node.stop()
    assert node.uploads() == [("sensors/1/raw", "x")]


def test_a_message_of_the_cloud_is_published(node: Node, application: Application) -> None:
    node.send("eventbus", "out/x", "publish", "ä", source="router_eventbus", group="user")
    assert application.hear() == ("out/x", "ä".encode())
    node.send("eventbus", "any", "message", {"message": {"topic": "out/y", "a": 1}})
    topic, payload = application.hear()
    assert (topic, json.loads(payload)) == ("out/y", {"topic": "out/y", "a": 1})
    node.send("eventbus", "out/+", "publish", "no")
    node.send("eventbus", "out/z", "publish", {"an": "object"})
    node.send("eventbus", "out/last", "publish", "last")
    assert application.hear()[0] == "out/last"


def test_no_rule_speaks_for_edgecore(node: Node, application: Application) -> None:
    """An application would take its message for an answer or, as a delta, for a desired value."""
    node.send("eventbus", f"{P}/twin/update/result", "publish", "forged", source="router_eventbus", group="user")
    node.send("eventbus", "out/last", "publish", "last", source="router_eventbus", group="user")
    assert application.hear()[0] == "out/last"


def test_a_waiting_sender_gets_the_result_of_its_message(node: Node, application: Application) -> None:
    """It is answered when the broker has the message, and told why one is not published."""
    assert node.ask("out/x", "heard").route.operation == "response"
    assert application.hear() == ("out/x", b"heard")
    for topic, text, why in (("out/+", "x", "wildcards"), ("out/x", "x" * (MAX_PAYLOAD + 1), "524288 bytes")):
        refused = node.ask(topic, text)
        assert refused.route.operation == "error"
        assert why in refused.content_as(str)
    assert node.ask("out/x", "x" * MAX_PAYLOAD).route.operation == "response"


def test_a_message_of_qos_2_that_an_earlier_program_is_owed(
    tmp_path: Path, broker: Broker, application: Application
) -> None:
    """It had subscribed with QoS 2 under the node's name; the message is stored and acknowledged like any other."""
    Application(broker.port, "+/user/#", session="edgecore-n1", qos=2).close()
    application.publish("factory/user/line", "owed", qos=2)
    node = Node(tmp_path, external(broker.port)).start()
    wait_until(lambda: node.counters.received[Receiver.CLOUD] == 1, "the message is stored", PATIENCE)
    node.stop()
    assert node.uploads() == [("factory/user/line", "owed")]


@pytest.mark.parametrize("qos", [0, 2])
def test_publications_of_another_qos(tmp_path: Path, broker: Broker, application: Application, qos: int) -> None:
    """As `mqttQOS` wants it; waiting publishers are answered, with QoS 0 as soon as the message leaves."""
    with stopping(Node(tmp_path, external(broker.port, qos=qos)).start()) as node:
        assert node.ask("out/x", "heard").route.operation == "response"
        assert application.hear() == ("out/x", b"heard")


def test_a_user_with_a_password(tmp_path: Path) -> None:
    """As `mqttUsername` and `mqttPassword` give them."""
    directory = tmp_path / "broker"
    directory.mkdir()
    broker = Broker(directory, "allow_anonymous false", f"password_file {directory}/passwords")
    (directory / "passwords").write_text(_password_line("node", WORD))
    broker.start()
    node = Node(tmp_path, external(broker.port, user="node", password=WORD))
    application = Application(broker.port, "out/#", user=("node", WORD))
    try:
        node.start()
        node.send("eventbus", "out/x", "publish", "in")
        assert application.hear() == ("out/x", b"in")
    finally:
        application.close()
        node.stop()
        broker.stop()


def _password_line(user: str, password: str) -> str:
    """A line of mosquitto's password file: PBKDF2 with SHA-512."""
    salt = b"twelve bytes"
    digest = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, 101)
    return f"{user}:$7$101${base64.b64encode(salt).decode()}${base64.b64encode(digest).decode()}\n"
