"""The recordings of a real edgecore's devices, played to ours in the role of the edge."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from modules.edge.devicetwin.changes import Rules
from tests.interop.traces import KUBEEDGE
from tests.modules.edge.devicetwin.recorded import Node, Said, play

CREATED = KUBEEDGE / "d1-device-created.jsonl"
CREATED_MQTT = KUBEEDGE / "d1-device-created.mqtt.jsonl"
DESIRED = KUBEEDGE / "d2-desired-changed.jsonl"
REPORTED = KUBEEDGE / "d3-reported.jsonl"
REPORTED_MQTT = KUBEEDGE / "d3-reported.mqtt.jsonl"
OFFLINE = KUBEEDGE / "d5-offline.jsonl"
OFFLINE_MQTT = KUBEEDGE / "d5-offline.mqtt.jsonl"

ALIKE = Rules(like_kubeedge=True)
RESULT = "$hw/events/device/cap/thermo/twin/update/result"
NAMELESS = "$hw/events/device//twin/update/result"
INT = "temperature is INT -40 to 125 degree in the device's model"
VALUES = "device/cap/thermo/twin/edge_updated"


@pytest.fixture
def alike(tmp_path: Path) -> Iterator[Node]:
    """A node with KubeEdge's values, times and repetitions."""
    node = Node(tmp_path, ALIKE)
    node.link(up=True)
    yield node
    node.stop()


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[Node]:
    """A node as it is by default."""
    node = Node(tmp_path)
    node.link(up=True)
    yield node
    node.stop()


def _under_own_topic(said: list[Said]) -> list[Said]:
    """A real edge's answer to a request that it could not read, under our topic."""
    return [(RESULT if topic == NAMELESS else topic, value) for topic, value in said]


def test_a_device_that_is_created(alike: Node) -> None:
    """The membership is published, model and object are acknowledged under the real edge's source and group."""
    said, recorded = play(alike, CREATED, CREATED_MQTT)
    assert said["mqtt"] == recorded["mqtt"]
    assert said["acknowledged"] == recorded["acknowledged"]
    assert said["cloud"] == []


def test_changed_objects_are_acknowledged_as_by_the_real_edge(alike: Node) -> None:
    """Updates of devicecontroller and of edgecontroller; applications hear nothing, as from the real edge."""
    play(alike, CREATED, None)
    said, recorded = play(alike, DESIRED, None)
    assert said["acknowledged"] == recorded["acknowledged"]
    assert said["mqtt"] == []


def test_reported_values_word_for_word(alike: Node) -> None:
    """Twelve updates and four states: the same results, documents, deltas in the same order, and the same uploads.

    Three things are KubeEdge's defects and not copied: errors under a topic without a device, no answer to a state that
    does not exist, and a first report that its cloud loses, which ours sends twice.
    """
    play(alike, CREATED, None)
    said, recorded = play(alike, REPORTED, REPORTED_MQTT)
    refused = [one for one in said["mqtt"] if "the state of a device is one of" in str(one)]
    assert len(refused) == 1
    assert [one for one in said["mqtt"] if one not in refused] == _under_own_topic(recorded["mqtt"])
    assert _once(said["cloud"]) == recorded["cloud"]


def test_reported_values_by_default(ours: Node) -> None:
    """Every request of the recording is answered; what differs from the real edge's answers is what ours does better.

    An equal value is not published and sent again, a property that the model lacks is refused, errors tell what the
    model allows, and expected values of the Device
    object equal the twins'.
    """
    play(ours, CREATED, None)
    said, recorded = play(ours, REPORTED, REPORTED_MQTT)
    results = [topic for topic, _ in said["mqtt"] if topic.endswith("/result")]
    assert results.count(RESULT) == 11 - 1 + 1  # u1 to u10 and the text that is no JSON
    assert {topic for topic, _ in recorded["cloud"]} == {topic for topic, _ in said["cloud"]}
    refused = [one["reason"] for topic, one in said["mqtt"] if topic == RESULT and "code" in one]
    assert "no property local-only" in refused[0], "and the property is not made"
    assert refused[1:3] == [f"the value is not int or integer ({INT})"] * 2, "warm, and hello world"
    versions = [one["twin"]["temperature"]["actual_version"]["edge"] for _, one in said["cloud"] if _of_thermo(one)]
    assert versions == sorted(versions) and max(versions) == 2


def test_values_missed_offline_arrive(ours: Node) -> None:
    """After half a minute without a link the node gets the changed desired value, the new device and the deletion, and
    the cloud the reports of that time. The real edge missed all of them.
    """
    play(ours, CREATED, None)
    play(ours, DESIRED, None)
    play(ours, REPORTED, None)
    ours.answer()
    said, _ = play(ours, OFFLINE, OFFLINE_MQTT)
    back = [resource for resource, _ in said["cloud"]]
    assert back[0] == "membership/detail"
    told = [value for resource, value in said["cloud"] if resource == VALUES]
    assert told[0]["twin"]["temperature"]["actual"]["value"] == "33", "reported while the link was cut"
    assert ("device/cap/thermo/state/update", {"device": {"name": "thermo", "state": "offline"}}) in said["cloud"]
    deltas = [value["delta"] for topic, value in said["mqtt"] if topic.endswith("thermo/twin/update/delta")]
    assert deltas[-1]["threshold"] == "40.5"
    thermo2 = [value for topic, value in said["mqtt"] if topic == RESULT.replace("thermo", "thermo2")]
    assert thermo2 and "code" not in thermo2[0], "created meanwhile"
    gone = [value for topic, value in said["mqtt"] if topic.endswith("thermo3/twin/get/result")]
    assert gone[0]["code"] == 404, "deleted meanwhile"
    (members,) = [value for topic, value in said["mqtt"] if topic.endswith("membership/get/result")]
    assert [one["id"] for one in members["devices"]] == ["cap/thermo", "cap/thermo2"]


def _once(said: list[Said]) -> list[Said]:
    """Uploads without the immediate repetition of a first report."""
    return [one for at, one in enumerate(said) if not at or one != said[at - 1]]


def _of_thermo(value: object) -> bool:
    return isinstance(value, dict) and "temperature" in value.get("twin", {})
