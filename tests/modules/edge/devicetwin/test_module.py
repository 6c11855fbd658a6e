"""devicetwin on the bus with a real store, alone with metamanager."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from beehive import Message
from beehive.testing import Harness
from beehive.turn_clock import TurnClock
from metamanager.module import MetaManager, MetaSettings
from modules.edge.devicetwin.answers import MessageStamp
from modules.edge.devicetwin.changes import Rules, set_state
from modules.edge.devicetwin.module import MAX_PAYLOAD, DeviceTwin, TwinSettings
from modules.edge.devicetwin.requests import read_refusal
from modules.edge.devicetwin.state import Device
from modules.edge.devicetwin.topics import resource_of
from modules.edge.devicetwin.uplink import PATIENCE
from tests.modules.edge.devicetwin.recorded import Node

UPDATE = "$hw/events/device/ns/thermo/twin/update"
VALUES = "device/ns/thermo/twin/edge_updated"
STATE_UPDATE = "$hw/events/device/ns/thermo/state/update"
STATE = "device/ns/thermo/state/update"


def _device(name: str = "thermo", version: int = 1, **desired: str) -> dict[str, Any]:
    properties = [{"name": key, "desired": {"value": value}} for key, value in desired.items()]
    spec = {"deviceModelRef": {"name": "model"}, "nodeName": "n1", "properties": properties}
    return {"metadata": _metadata(name, version), "spec": spec}


def _metadata(name: str, version: int) -> dict[str, str]:
    return {"name": name, "namespace": "ns", "uid": f"uid-{name}", "resourceVersion": str(version)}


def _model(*properties: dict[str, str], version: int = 1) -> dict[str, Any]:
    return {"metadata": _metadata("model", version), "spec": {"properties": list(properties), "protocol": "demo"}}


def _send(node: Node, resource: str, content: Any, operation: str = "update", source: str = "edgecontroller") -> None:
    message = node.bee.message(resource, operation, content, source=source, group="resource")
    node.from_cloud(message)


def _report(node: Node, payload: dict[str, Any], topic: str = UPDATE) -> list[dict[str, Any]]:
    """Publish as an application does; return the answers on the topic of results."""
    before = len(node.published)
    node.from_application(topic, json.dumps(payload))
    return [said for topic_, said in node.published[before:] if topic_ == f"{topic}/result"]


def _actual(value: Any, **fields: Any) -> dict[str, Any]:
    return {"event_id": "e", "timestamp": 1, "twin": {"temperature": {"actual": {"value": value}, **fields}}}


def _got(node: Node) -> dict[str, Any]:
    """The answer to an application that asks for the device."""
    (got,) = _report(node, {"event_id": "g"}, "$hw/events/device/ns/thermo/twin/get")
    return got


def _code(node: Node) -> int:
    return int(_got(node).get("code", 200))


def _twins(node: Node) -> dict[str, Any]:
    twins: dict[str, Any] = _got(node)["twin"]
    return twins


def _value(node: Node, side: str = "actual") -> str:
    value: str = _twins(node)["temperature"][side]["value"]
    return value


def _uploads(node: Node, resource: str = VALUES) -> list[dict[str, Any]]:
    return [json.loads(bytes(one.content_raw()))["twin"] for one in node.uploads if one.route.resource == resource]


def _told_the_cloud(node: Node) -> None:
    """Connect a node with one device, and report a first value of it, which the cloud has not answered."""
    node.link(up=True)
    _send(node, "ns/device/thermo", _device())
    _report(node, _actual("1"))


def test_a_report_is_stored_before_it_is_answered(node: Node) -> None:
    """The sender that waits gets its answer after the commit, and a new process finds the value."""
    _send(node, "ns/device/thermo", _device())
    message = node.bee.message(resource_of(UPDATE), "response", json.dumps(_actual("21")), source="bus", group="user")
    answer = node.bee.ask("twin", message)
    assert answer.route.operation == "response"
    node.restart()
    assert _value(node) == "21"


def test_a_turn_has_one_time(node: Node) -> None:
    """A replay has the recorded one, and decides by it."""
    running = node.bee.hive.slot("twin").running
    twin: Any = None if running is None else running.ref._actor_weakref()
    assert isinstance(twin.clock, TurnClock)


def test_a_report_that_cannot_be_stored_is_refused_and_taken_back(node: Node) -> None:
    _send(node, "ns/device/thermo", _device())
    _report(node, _actual("21"))
    node.bee.simulation.run_for(1.0)
    node.disk_is_full = True
    (result,) = _report(node, _actual("22"))
    assert result["code"] == 500 and "could not be written" in result["reason"]
    node.disk_is_full = False
    assert _value(node) == "21"


def test_an_application_hears_that_too_many_changes_wait(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also without waiting for an answer on the bus, and nothing of the change stays."""
    _send(node, "ns/device/thermo", _device())
    with monkeypatch.context() as full:
        full.setattr("modules.edge.devicetwin.slots.MOST_WAITING", 0)
        (result,) = _report(node, _actual("21"))
        assert result["code"] == 500
    assert _twins(node) == {}


def test_reports_of_an_outage_are_one_message_with_the_newest_values(node: Node) -> None:
    """No property is lost, none is old, and the message is repeated until the cloud confirms it."""
    _send(node, "ns/device/thermo", _device())
    for value in range(5):
        _report(node, _actual(str(value)))
    _report(node, {"event_id": "h", "timestamp": 1, "twin": {"humidity": {"actual": {"value": "40"}}}})
    assert node.uploads == []
    node.link(up=True)
    (told,) = _uploads(node)
    assert {name: one["actual"]["value"] for name, one in told.items()} == {"temperature": "4", "humidity": "40"}
    node.link(up=False)
    node.link(up=True)
    assert len(_uploads(node)) == 2, "it was not confirmed"
    node.answer_all()
    assert len(_uploads(node)) == 3, "a first report is told twice"
    node.link(up=False)
    node.link(up=True)
    assert len(_uploads(node)) == 3


def test_the_next_process_sends_unconfirmed_values(node: Node) -> None:
    _send(node, "ns/device/thermo", _device())
    _report(node, _actual("21"))
    node.restart()
    node.link(up=True)
    assert _uploads(node)[0]["temperature"]["actual"]["value"] == "21"


def test_the_next_process_sends_no_value_again_that_was_confirmed_before_the_end(node: Node) -> None:
    """Confirmations are stored a little later, and at the end."""
    _send(node, "ns/device/thermo", _device())
    _report(node, _actual("21"))
    node.link(up=True)
    node.answer_all()
    node.restart()
    node.link(up=True)
    assert _uploads(node) == []


def test_no_newer_value_leaves_before_the_older_one_is_confirmed(node: Node) -> None:
    """An older value cannot overwrite a newer one in the cloud: there is one message of a device at a time."""
    node.link(up=True)
    _send(node, "ns/device/thermo", _device())
    for value in range(4):
        _report(node, _actual(str(value)))
    assert [one["temperature"]["actual"]["value"] for one in _uploads(node)] == ["0"]
    node.answer()
    assert [one["temperature"]["actual"]["value"] for one in _uploads(node)] == ["0", "3"]


def test_a_cloud_that_does_not_answer_is_asked_again_ever_later(node: Node) -> None:
    """KubeEdge repeats all immediately, for ever, or never."""
    _told_the_cloud(node)
    times: list[int] = []
    for minute in range(30):
        node.bee.run_for(60.0)
        times += [minute] * (len(_uploads(node)) - 1 - len(times))
    assert times == [0, 2, 6, 14, 24]


def test_values_that_the_cloud_takes_for_old_are_sent_with_later_times(node: Node) -> None:
    """The clock was set back, and the database that knew better is lost. At once the first time, and no more often than
    other repetitions after that; the time is kept, so that the next change comes after it.
    """
    _told_the_cloud(node)
    ahead = node.bee.clock.now_ms() + 3_600_000
    later = {"code": 409, "twin": {"temperature": {"actual": {"metadata": {"timestamp": ahead}}}}}
    for _ in range(3):
        node.answer(later)
    told = [each["temperature"]["actual"] for each in _uploads(node)]
    assert [each["metadata"]["timestamp"] > ahead for each in told] == [False, True], "not a third time"
    for seconds, uploads in ((2 * PATIENCE - 1.0, 2), (2.0, 3), (4 * PATIENCE - 2.0, 3), (2.0, 4)):
        node.bee.run_for(seconds)
        assert len(_uploads(node)) == uploads
        node.answer(later)
    _report(node, _actual("2"))
    node.answer_all()
    last = _uploads(node)[-1]["temperature"]["actual"]
    assert (last["value"], last["metadata"]["timestamp"]) == ("2", ahead + 2)


@pytest.mark.parametrize(
    "answer",
    [
        {"code": 403},
        *(
            {"code": 409, "twin": {"temperature": {"actual": {"metadata": {"timestamp": time}}}}}
            for time in (0, -1, 2**60, "7", True, None)
        ),
    ],
)
def test_a_refusal_for_good_ends_the_repetitions(node: Node, answer: dict[str, Any]) -> None:
    """So does an invalid time of the value that the cloud has."""
    _told_the_cloud(node)
    node.answer({"reason": "no", **answer})
    node.bee.run_for(3600.0)
    assert len(_uploads(node)) == 1


def test_a_temporary_refusal_is_tried_again_ever_later(node: Node) -> None:
    _told_the_cloud(node)
    for uploads, seconds in ((2, 60.0), (3, 120.0), (4, 240.0)):
        node.answer({"code": 503, "reason": "later"})
        node.bee.run_for(seconds - 1.0)
        assert len(_uploads(node)) == uploads - 1
        node.bee.run_for(2.0)
        assert len(_uploads(node)) == uploads


def test_a_device_that_comes_back_is_reported_though_the_cloud_never_answered_about_its_predecessor(node: Node) -> None:
    _told_the_cloud(node)
    node.link(up=False)
    _send(node, "ns/device/thermo", {"metadata": _metadata("thermo", 1)}, "delete")
    node.link(up=True)
    _send(node, "ns/device/thermo", _device())
    _report(node, _actual("2"))
    assert [each["temperature"]["actual"]["value"] for each in _uploads(node)] == ["1", "2"]


def _another(version: int = 5, **desired: str) -> dict[str, Any]:
    """A Device that was made after the first one of its name was deleted."""
    made = _device(version=version, **desired)
    return {**made, "metadata": {**made["metadata"], "uid": "uid-of-another"}}


def test_an_answer_about_an_earlier_device_confirms_nothing_of_the_next(node: Node) -> None:
    """`kubectl replace --force` while a report is under way: the cloud's answer to it came after the new device's first
    report, which was then never sent.
    """
    _told_the_cloud(node)
    _send(node, "ns/device/thermo", {"metadata": _metadata("thermo", 1)}, "delete")
    _send(node, "ns/device/thermo", _another())
    _report(node, _actual("2"))
    assert [each["temperature"]["actual"]["value"] for each in _uploads(node)] == ["1", "2"]
    node.link(up=False)
    node.link(up=True)
    assert [each["temperature"]["actual"]["value"] for each in _uploads(node)] == ["1", "2", "2"]


def test_nor_does_one_about_a_device_that_was_replaced_while_it_was_stored(node: Node) -> None:
    """Its end is never stored then: what is stored next is the new device."""
    node.link(up=True)
    _send(node, "ns/device/thermo", _device())
    _report(node, {"event_id": "e", "state": "online"}, STATE_UPDATE)
    message = node.bee.message(resource_of(UPDATE), "response", json.dumps(_actual("1")), source="bus", group="user")
    node.bee.hive.send("twin", message)
    for operation, content in (("delete", {"metadata": _metadata("thermo", 1)}), ("insert", _another())):
        from_cloud = {"source": "edgecontroller", "group": "resource"}
        node.bee.hive.broadcast("meta", node.bee.message("ns/device/thermo", operation, content, **from_cloud))
    node.bee.settle()
    _report(node, {"event_id": "e", "state": "ok"}, STATE_UPDATE)
    node.answer_all()
    told = [json.loads(each.content_as(str)) for each in node.uploads if each.route.resource == STATE]
    assert [each["device"]["state"] for each in told] == ["online", "ok"]


def test_a_device_made_again_has_nothing_of_the_one_before(node: Node) -> None:
    """The cloud tells a node that was away of the new object only, not of the earlier one's end: its unconfirmed values
    reached the cloud as the new device's.
    """
    _send(node, "ns/device/thermo", _device(target="20"))
    _report(node, _actual("21"))
    _report(node, {"event_id": "e", "timestamp": 1, "twin": {"target": {"expected": {"value": "30"}}}})
    _send(node, "ns/device/thermo", _another(target="20"))
    node.link(up=True)
    assert _uploads(node) == []
    assert {name: one["expected"]["value"] for name, one in _twins(node).items()} == {"target": "20"}
    _report(node, _actual("22"))
    _send(node, "ns/device/thermo", _another(6, target="20"))
    node.restart()
    assert _value(node) == "22"


def _told_devices(node: Node) -> list[str]:
    """The devices whose values the cloud was told, in order."""
    told = [one.route.resource for one in node.uploads]
    return [each.split("/")[2] for each in told if each.endswith("/twin/edge_updated")]


def _report_of(node: Node, name: str) -> None:
    _send(node, f"ns/device/{name}", _device(name))
    _report(node, _actual("1"), f"$hw/events/device/ns/{name}/twin/update")


def test_unanswered_values_are_reported_first_after_an_outage(node: Node) -> None:
    """In the order in which it was told before."""
    node.link(up=True)
    for name in ("b", "c"):
        _report_of(node, name)
    node.link(up=False)
    _report_of(node, "a")
    node.link(up=True)
    assert _told_devices(node) == ["b", "c", "b", "c", "a"]


def test_the_messages_without_an_answer_are_bounded(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("modules.edge.devicetwin.uplink.WINDOW", 2)
    node.link(up=True)
    for name in ("a", "b", "c"):
        _report_of(node, name)
    assert _told_devices(node) == ["a", "b"]
    node.answer()
    assert "c" in _told_devices(node)


def test_a_device_that_goes_leaves_its_place_to_the_next(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody takes its answer any more, and no timer runs for it."""
    monkeypatch.setattr("modules.edge.devicetwin.uplink.WINDOW", 1)
    node.link(up=True)
    for name in ("a", "b"):
        _report_of(node, name)
    assert _told_devices(node) == ["a"]
    _send(node, "ns/device/a", {"metadata": _metadata("a", 1)}, "delete")
    assert _told_devices(node) == ["a", "b"]


def test_confirmations_are_stored_a_little_later_again_and_again(node: Node, tmp_path: Path) -> None:
    """A process that is killed after that tells the cloud nothing twice."""
    node.link(up=True)
    _send(node, "ns/device/thermo", _device())
    for value in ("1", "2"):
        _report(node, _actual(value))
        node.commits_left = 9
        node.answer_all()
        node.bee.run_for(4.0)
        assert node.commits_left == 9, "there are a thousand a second"
        node.bee.run_for(2.0)
        assert node.commits_left == 8
    after = tmp_path / "after the kill"
    after.mkdir()
    for file in tmp_path.glob("edgecore.db*"):
        shutil.copy(file, after)
    next_process = Node(after, name="n1")
    next_process.link(up=True)
    assert _uploads(next_process) == []
    next_process.stop()


def test_a_desired_value_that_changed_reaches_applications(node: Node) -> None:
    """From any controller; KubeEdge's applications never learn of it."""
    _send(node, "ns/device/thermo", _device(threshold="30"))
    _send(node, "ns/device/thermo", _device(version=2, threshold="31"))
    deltas = [said["delta"] for topic, said in node.published if topic.endswith("/delta")]
    assert deltas == [{"threshold": "30"}, {"threshold": "31"}]
    _report(node, {"event_id": "x", "timestamp": 1, "twin": {"threshold": {"actual": {"value": "31"}}}})
    assert [said["delta"] for topic, said in node.published if topic.endswith("/delta")] == deltas


def test_the_next_process_sends_a_delta_again(node: Node) -> None:
    """A kill between commit and publication would else leave the application without the value until a next change."""
    _send(node, "ns/device/thermo", _device(threshold="30"))
    _send(node, "ns/device/idle", _device("idle"))
    node.restart()
    assert [(topic, said["delta"]) for topic, said in node.published] == [(f"{UPDATE}/delta", {"threshold": "30"})]
    _report(node, {"event_id": "x", "timestamp": 1, "twin": {"threshold": {"actual": {"value": "30"}}}})
    node.restart()
    assert node.published == []


def test_a_late_end_of_an_earlier_device_does_not_end_todays(node: Node) -> None:
    """The cloud repeats unacknowledged messages, and the network may duplicate them: found by simulation."""
    _send(node, "ns/device/thermo", _device())
    _report(node, _actual("21"))
    node.link(up=True)
    late = {"metadata": {"name": "thermo", "namespace": "ns", "uid": "uid-of-the-one-before"}}
    removed = {"event_id": "m", "timestamp": 1, "added_devices": None, "removed_devices": [{"id": "ns/thermo"}]}
    _send(node, "ns/device/thermo", late, "delete")
    _send(node, "membership", removed, source="devicecontroller")
    assert _value(node) == "21"
    _send(node, "ns/device/thermo", {"metadata": _metadata("thermo", 2)}, "delete")
    assert _code(node) == 404


def test_the_model_is_used_whenever_it_comes(node: Node) -> None:
    _send(node, "ns/device/thermo", _device())
    temperature = {"name": "temperature", "type": "INT", "minimum": "-40", "maximum": "125", "unit": "degree"}
    _send(node, "ns/devicemodel/model", _model(temperature))
    (result,) = _report(node, _actual("200"))
    assert result["code"] == 400 and "-40 to 125 degree" in result["reason"]
    _send(node, "ns/devicemodel/model", _model(temperature | {"maximum": "250"}, version=2))
    (result,) = _report(node, _actual("200"))
    assert "code" not in result


def test_the_cloud_learns_which_desired_value_a_mapper_has(node: Node) -> None:
    """In the form of a KubeEdge edge, and twice, as the first message about a property: its cloud loses that one."""
    _send(node, "ns/devicemodel/model", _model(THRESHOLD))
    _send(node, "ns/device/thermo", _device(threshold="42"))
    node.link(up=True)
    node.answer()
    assert not _uploads(node), "the cloud knows what it desires"
    observed = {"threshold": {"actual": {"value": "7"}, "observed": {"value": "42"}, "metadata": {"type": "int"}}}
    _report(node, {"event_id": "", "timestamp": 1, "twin": observed})
    (told,) = _uploads(node)
    now = node.bee.clock.now_ms()
    expected = told["threshold"]["expected"]
    assert expected["value"] == "42" and expected["metadata"]["timestamp"] >= now
    versions = {"actual_version", "expected_version"}
    assert set(told["threshold"]) == {"actual", "expected", "optional", "metadata", *versions}
    node.answer()
    assert [one["threshold"]["expected"]["value"] for one in _uploads(node)] == ["42", "42"]
    node.answer()
    _report(node, {"event_id": "", "timestamp": 1, "twin": observed})
    assert len(_uploads(node)) == 2


def test_the_cloud_gets_no_value_that_is_not_committed(node: Node) -> None:
    """An answer of the cloud comes while the next value waits for its commit, which fails."""
    _send(node, "ns/device/thermo", _device())
    node.link(up=True)
    node.answer()
    _report(node, _actual("21"))
    (first,) = [one for one in node.uploads if one.route.resource == VALUES]
    node.disk_is_full = True
    topic = resource_of(UPDATE)
    report = node.bee.message(topic, "response", json.dumps(_actual("22")), source="bus", group="user")
    node.bee.hive.send("twin", report)
    node.bee.hive.send("twin", first.reply(node.bee.clock, "OK", source="devicecontroller"))
    node.bee.settle()
    codes = [said.get("code") for at, said in node.published if at.endswith("/twin/update/result")]
    assert codes == [None, 500]
    assert {one["temperature"]["actual"]["value"] for one in _uploads(node)} == {"21"}


THRESHOLD = {"name": "threshold", "type": "INT", "accessMode": "ReadWrite", "minimum": "0", "maximum": "100"}


def _told(node: Node) -> str | None:
    """The last desired threshold for applications, or None."""
    documents = [said["twin"] for topic, said in node.published if topic.endswith("/twin/update/document")]
    (*_, last) = [one["threshold"]["current"] for one in documents if "threshold" in one]
    return last.get("expected", {}).get("value") or None


def test_a_changed_model_withdraws_forbidden_values_and_takes_allowed_ones(node: Node) -> None:
    """A desired value of the cloud, and one of an application; each comes into force as soon as the model allows it."""
    _send(node, "ns/devicemodel/model", _model(THRESHOLD))
    _send(node, "ns/device/thermo", _device(threshold="80"))
    assert _told(node) == "80"
    node.link(up=True)
    node.answer()
    _send(node, "ns/devicemodel/model", _model(THRESHOLD | {"maximum": "60"}, version=2))
    assert _told(node) is None
    assert _uploads(node)[-1]["threshold"]["expected"]["value"] == ""
    assert "delta" not in node.published[-1][0]
    node.restart()
    assert not node.published, "nothing forbidden is told after a restart"
    _send(node, "ns/device/thermo", _device(version=2, threshold="80"))
    assert not node.published
    _send(node, "ns/devicemodel/model", _model(THRESHOLD, version=3))
    assert _told(node) == "80"
    expected = {"event_id": "e", "timestamp": 1, "twin": {"threshold": {"expected": {"value": "70"}}}}
    _report(node, expected)
    assert _told(node) == "70"
    _send(node, "ns/devicemodel/model", _model(THRESHOLD | {"accessMode": "ReadOnly"}, version=4))
    assert _told(node) is None


def test_a_model_that_was_deleted_forbids_nothing_any_more(node: Node) -> None:
    """Until there is another one of its name."""
    wanted = {"event_id": "e", "timestamp": 1, "twin": {"threshold": {"expected": {"value": "80"}}}}
    _send(node, "ns/devicemodel/model", _model(THRESHOLD | {"maximum": "60"}))
    _send(node, "ns/device/thermo", _device(threshold="30"))
    assert _report(node, wanted)[0]["code"] == 400
    _send(node, "ns/devicemodel/model", _model(), "delete")
    assert "code" not in _report(node, wanted)[0]


def test_a_value_that_the_owner_gives_back_is_not_the_clouds_forbidden_one(node: Node) -> None:
    _send(node, "ns/devicemodel/model", _model(THRESHOLD))
    _send(node, "ns/device/thermo", _device(threshold="80"))
    _report(node, {"event_id": "e", "timestamp": 1, "twin": {"threshold": {"expected": {"value": "30"}}}})
    _send(node, "ns/devicemodel/model", _model(THRESHOLD | {"maximum": "60"}, version=2))
    assert _told(node) == "30"
    resource = "device/ns/thermo/twin/desired"
    node.bee.ask("twin", node.bee.message(resource, "update", '{"threshold":null}', source="edgecore"))
    assert _told(node) is None


def test_a_property_that_the_model_lacks_is_not_taken(node: Node) -> None:
    """A property that is older than the model may be deleted."""
    _send(node, "ns/device/thermo", _device())
    humidity = {"event_id": "e", "timestamp": 1, "twin": {"humidity": {"actual": {"value": "40"}}}}
    assert "code" not in _report(node, humidity)[0]
    _send(node, "ns/devicemodel/model", _model(THRESHOLD))
    (refused,) = _report(node, humidity)
    assert refused["code"] == 400 and refused["reason"].endswith("no property humidity; its properties are: threshold")
    assert _report(node, humidity | {"twin": {"humidity": None}})[0]["twin"] == {"humidity": None}


def test_a_value_of_the_cloud_by_sync_is_held_to_the_model(node: Node) -> None:
    _send(node, "ns/devicemodel/model", _model(THRESHOLD))
    _send(node, "ns/device/thermo", _device(threshold="50"))
    for value, told in (("600", "50"), ("55", "55")):
        twin = {"expected": {"value": value}, "expected_version": {"cloud": 9, "edge": 9}, "metadata": {"type": "int"}}
        content = {"event_id": "c", "timestamp": 1, "twin": {"threshold": twin, "other": None}}
        resource = "device/ns/thermo/twin/cloud_updated"
        node.from_cloud(node.bee.message(resource, "update", content, source="devicecontroller", group="twin"))
        assert _told(node) == told


def test_a_property_gets_the_type_of_a_model_that_has_changed(node: Node) -> None:
    _send(node, "ns/devicemodel/model", _model(THRESHOLD))
    _send(node, "ns/device/thermo", _device(threshold="50"))
    _send(node, "ns/devicemodel/model", _model({"name": "threshold", "type": "STRING"}, version=2))
    _send(node, "ns/device/thermo", _device(version=2, threshold="high"))
    assert _told(node) == "high"


@pytest.mark.parametrize(
    ("value", "text"),
    [(21.5, "21.5"), (True, "true"), ({"r": 1}, '{"r":1}'), ("21 °C", "21 °C"), ([1, "a"], '[1,"a"]')],
)
def test_values_of_any_json_type(node: Node, value: Any, text: str) -> None:
    """A value that is no string is kept and told as its JSON text."""
    _send(node, "ns/device/thermo", _device())
    (result,) = _report(node, _actual(value))
    assert result["twin"]["temperature"]["actual"]["value"] == text


def test_dmi_learns_that_a_state_is_unknown_however_it_is_written(node: Node) -> None:
    _send(node, "ns/device/thermo", _device())
    for state, answer in (("Unknown", {"state": "Unknown"}), ("online", "OK")):
        text = json.dumps({"event_id": "s", "timestamp": 1, "state": state})
        message = node.bee.message(resource_of(STATE_UPDATE), "response", text, source="bus", group="user")
        assert json.loads(bytes(node.bee.ask("twin", message).content_raw())) == answer


def test_a_refusal_is_short_and_belongs_to_an_unknown_state() -> None:
    def refusal(state: str) -> str:
        stamp = MessageStamp(new_id=lambda: "", now=1)
        given = read_refusal({"refusal": "no driver " * 100})
        change = set_state(Device("thermo"), state, "", stamp, Rules(), given)
        return change.device.refusal

    assert refusal("unknown") == ("no driver " * 100)[:300]
    assert refusal("online") == ""
    assert read_refusal({"refusal": 7}) == read_refusal({}) == ""


def test_large_values_are_refused_with_the_limit(node: Node) -> None:
    _send(node, "ns/device/thermo", _device())
    for length, code in ((MAX_PAYLOAD, None), (MAX_PAYLOAD + 1, 413)):
        before = len(node.published)
        node.from_application("$hw/events/device/ns/thermo/twin/get", '{"event_id":"g"}'.ljust(length))
        assert [said.get("code") for _, said in node.published[before:]] == [code]
    (result,) = _report(node, _actual("x" * 65_537))
    assert result["code"] == 413 and "65536" in result["reason"]
    many = {f"p{number}": {"actual": {"value": "x"}} for number in range(101)}
    (result,) = _report(node, {"event_id": "m", "timestamp": 1, "twin": many})
    assert "100" in result["reason"]
    for number in range(5):
        answers = _report(
            node, {"event_id": "f", "timestamp": 1, "twin": {f"p{number}": {"actual": {"value": "x" * 65_000}}}}
        )
    assert answers[0]["code"] == 413 and "262144" in answers[0]["reason"]


def test_a_forged_message_of_the_cloud_is_refused(node: Node) -> None:
    """KubeEdge takes `twin/cloud_updated` from any MQTT client."""
    _send(node, "ns/device/thermo", _device())
    forged = {"event_id": "c", "twin": {"t": {"expected": {"value": "1"}, "expected_version": {"cloud": 5, "edge": 0}}}}
    node.from_application("$hw/events/device/ns/thermo/twin/cloud_updated", json.dumps(forged))
    assert _twins(node) == {}


def test_the_last_time_online_is_kept(node: Node) -> None:
    """KubeEdge erases it when the device goes offline, which is when one wants to know it."""
    _send(node, "ns/device/thermo", _device())
    (online,) = _report(node, {"event_id": "s1", "state": "online"}, STATE_UPDATE)
    (offline,) = _report(node, {"event_id": "s2", "state": "offline"}, STATE_UPDATE)
    assert offline["device"]["lastOnlineTime"] == online["device"]["lastOnlineTime"]
    assert offline["event_id"] == "s2"
    node.link(up=True)
    (told,) = [one.content_as(str) for one in node.uploads if one.route.resource == STATE]
    assert json.loads(told)["device"]["state"] == "offline", "the newest"


def test_a_device_that_was_removed_leaves_nothing(node: Node) -> None:
    _send(node, "ns/device/thermo", _device())
    _report(node, _actual("1"))
    _send(node, "ns/device/thermo", {"metadata": {"name": "thermo", "namespace": "ns", "uid": "uid-thermo"}}, "delete")
    node.link(up=True)
    assert _uploads(node) == []
    (result,) = _report(node, _actual("2"))
    assert result["code"] == 404
    node.restart()
    (result,) = _report(node, _actual("2"))
    assert result["code"] == 404


def _with_one_commit(node: Node, resource: str, content: Any, operation: str = "update") -> None:
    """Send an object that metamanager can store, and devicetwin not."""
    node.commits_left = 1
    _send(node, resource, content, operation)
    node.bee.simulation.run_for(12.0)
    node.commits_left = None


def test_a_device_that_the_disk_has_refused_is_stored_later(node: Node) -> None:
    """The cloud sends the object once, since metamanager has stored and acknowledged it."""
    _with_one_commit(node, "ns/device/thermo", _device(temperature="20"))
    assert _code(node) == 404
    node.bee.simulation.run_for(6.0)
    assert _code(node) == 200
    node.restart()
    assert _value(node, "expected") == "20"


def test_a_change_and_a_removal_that_the_disk_has_refused_are_made_later(node: Node) -> None:
    _send(node, "ns/device/thermo", _device(temperature="20"))
    _with_one_commit(node, "ns/device/thermo", _device(temperature="21", version=2))
    node.bee.simulation.run_for(6.0)
    assert _value(node, "expected") == "21"
    _with_one_commit(node, "ns/device/thermo", {"metadata": _metadata("thermo", 2)}, "delete")
    assert _code(node) == 200
    node.bee.simulation.run_for(6.0)
    assert _code(node) == 404


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_device_made_again_that_the_disk_has_refused_has_nothing_of_the_one_before(
    node: Node, *, is_killed: bool
) -> None:
    """Also in the next process: the new object is stored, and the end of the earlier device is not."""
    _send(node, "ns/device/thermo", _device())
    _report(node, _actual("21"))
    node.bee.simulation.run_for(6.0)
    _with_one_commit(node, "ns/device/thermo", _another())
    if is_killed:
        node.restart()
    else:
        node.bee.simulation.run_for(6.0)
    assert _twins(node) == {}


def test_a_device_that_was_refused_and_deleted_since_does_not_come_back(node: Node) -> None:
    _with_one_commit(node, "ns/device/thermo", _device())
    _send(node, "ns/device/thermo", {"metadata": _metadata("thermo", 1)}, "delete")
    node.bee.simulation.run_for(30.0)
    assert _code(node) == 404


def test_a_membership_that_the_disk_has_refused_is_stored_later(node: Node) -> None:
    """A cloud of 2019 sends no objects: only this message names the device."""

    def say(field: str) -> None:
        content = {"event_id": "m", "timestamp": 1, field: [{"id": "thermo", "name": "thermo"}]}
        node.from_cloud(node.bee.message("membership", "update", content, source="edgemgr", group="twin"))

    def code() -> int:
        (got,) = _report(node, {"event_id": "g"}, "$hw/events/device/thermo/twin/get")
        return int(got.get("code", 200))

    node.disk_is_full = True
    say("added_devices")
    node.disk_is_full = False
    assert code() == 404
    node.bee.simulation.run_for(6.0)
    assert code() == 200
    say("removed_devices")
    node.disk_is_full = True
    say("added_devices")
    say("removed_devices")
    node.disk_is_full = False
    node.bee.simulation.run_for(30.0)
    assert code() == 404


def test_the_membership_of_a_cloud_of_2019(node: Node) -> None:
    """Devices without objects and namespaces, with twins and attributes."""
    twin = {"t": {"expected": {"value": "5"}, "metadata": {"type": "int"}, "expected_version": {"cloud": 1, "edge": 0}}}
    device = {"id": "thermo", "name": "thermo", "twin": twin, "attributes": {"floor": {"value": "2"}}}
    said = {"event_id": "m", "timestamp": 1, "added_devices": [device], "removed_devices": None}
    message = node.bee.message("membership", "update", said, source="edgemgr", group="twin")
    node.from_cloud(message)
    topic = "$hw/events/device/thermo/twin/get"
    (got,) = _report(node, {"event_id": "g"}, topic)
    assert got["twin"]["t"]["expected"]["value"] == "5"
    sync = {"event_id": "c", "timestamp": 1, "twin": {"t": {**twin["t"], "expected_version": {"cloud": 2, "edge": 0}}}}
    sync["twin"]["t"]["expected"] = {"value": "6"}  # type: ignore[index]
    node.from_cloud(
        node.bee.message("device/thermo/twin/cloud_updated", "update", sync, source="edgemgr", group="twin")
    )
    (got,) = _report(node, {"event_id": "g"}, topic)
    assert got["twin"]["t"]["expected"]["value"] == "6"
    detail = {"event_id": "d", "timestamp": 1, "devices": []}
    node.from_cloud(node.bee.message("membership/detail", "update", detail, source="edgemgr", group="twin"))
    (got,) = _report(node, {"event_id": "g"}, topic)
    assert got["code"] == 404


def test_messages_before_the_store_is_read_wait(tmp_path: Path) -> None:
    """The devices are read at the start; what comes before is handled afterwards, in order."""
    node = Node(tmp_path, name="n1")
    _send(node, "ns/device/thermo", _device())
    node.stop()
    node.bee = _unstarted(node)
    node.bee.hive.start()
    message = node.bee.message(resource_of(UPDATE), "response", json.dumps(_actual("7")), source="bus", group="user")
    node.link(up=True)
    node.bee.send("twin", message)
    assert [one.route.resource for one in node.uploads].count("membership/detail") == 1
    assert any(said.get("twin", {}).get("temperature") for topic, said in node.published if topic.endswith("/result"))
    node.stop()


def _unstarted(node: Node) -> Any:
    bee = Harness()
    bee.add(MetaManager, MetaSettings(str(node._directory / "edgecore.db")))
    bee.add(DeviceTwin, TwinSettings("n1", mqtt=True))
    return bee


_KEYS = st.sampled_from(
    ["twin", "event_id", "timestamp", "state", "expected", "actual", "value", "metadata", "type", "optional",
     "added_devices", "removed_devices", "devices", "id", "attributes", "expected_version", "cloud", "spec", "Twin"]
)  # fmt: skip
_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8) | _KEYS, inner, max_size=4),
    max_leaves=12,
)
_RESOURCES = st.sampled_from(
    ["membership", "membership/detail", "device/ns/thermo/twin/cloud_updated", "ns/device/thermo",
     "ns/devicemodel/model", "device/thermo", "twin"]
)  # fmt: skip
_TOPICS = st.sampled_from(
    [UPDATE, "$hw/events/device/ns/thermo/twin/get", STATE_UPDATE,
     "$hw/events/node/n1/membership/get", "$hw/events/device/ns/thermo/state/get"]
)  # fmt: skip


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    steps=st.lists(st.tuples(_RESOURCES, _TOPICS, _json, st.sampled_from(["update", "insert", "delete", "updated"])))
)
def test_nothing_that_is_sent_ends_the_module(tmp_path: Path, steps: list[tuple[str, str, Any, str]]) -> None:
    """Any JSON, under any topic and resource, from applications and from the cloud."""
    node = Node(tmp_path, name="n1")
    node.link(up=True)
    for resource, topic, content, operation in steps:
        source = "devicecontroller"
        group = "twin" if "ns/" not in resource or resource.startswith("device/") else "resource"
        node.from_cloud(node.bee.message(resource, operation, content, source=source, group=group))
        node.from_application(topic, json.dumps(content))
        node.answer(content)
    assert node.bee.hive._slots["twin"].restarts == 0
    assert _dead(node) == []
    node.stop()


def _dead(node: Node) -> list[Message]:
    return [letter.message for letter in node.bee.hive.dead_letters if letter.message.route.source != "twin"]
