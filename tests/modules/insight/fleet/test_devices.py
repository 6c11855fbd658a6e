"""Which devices are silent or not as desired: as the cloud knows it, and unknown where it cannot know."""

from typing import Any

import msgspec
import pytest

from modules.insight.fleet.devices import (
    AGREES,
    CONFIRMED,
    DIFFERS,
    GOOD,
    INVALID,
    NO_NODE,
    NODE_AWAY,
    OFFLINE,
    OTHER,
    OVERDUE,
    UNCONFIRMED,
    UNHEALTHY,
    UNKNOWN,
    WAITS,
    DevicePropertyRow,
    DeviceRow,
    _differences,
    device_facts,
    device_row,
    device_story,
    device_twins,
    devices,
)  # fmt: skip
from modules.insight.fleet.rows import NodeRow

NOW = 10_000.0
NODES = [
    NodeRow("n1", "connected"),
    NodeRow("n2", "behind"),
    NodeRow("n3", "away", since=9_000.0),
    NodeRow("n4", "never"),
]
MODEL = {
    "metadata": {"namespace": "default", "name": "thermometer"},
    "spec": {"properties": [{"name": "threshold", "type": "FLOAT", "unit": "degree", "accessMode": "ReadWrite"}]},
}


def device(name: str = "hall", node: str = "n1", desired: str = "30", **more: Any) -> dict[str, Any]:
    """Return a Device with one property."""
    given = {"name": "threshold", "desired": {"value": desired}, **more} if desired else {"name": "threshold", **more}
    return {
        "metadata": {"namespace": "default", "name": name, "uid": "u1"},
        "spec": {"nodeName": node, "deviceModelRef": {"name": "thermometer"}, "properties": [given]},
    }


def side(value: str, at: float) -> dict[str, Any]:
    """Return a value with its time."""
    return {"value": value, "metadata": {"timestamp": str(int(at * 1000)), "type": "float"}}


def status(reported: str = "", observed: str = "", at: float = NOW - 10, **fields: Any) -> dict[str, Any]:
    """Return the DeviceStatus of the Device."""
    twin: dict[str, Any] = {"propertyName": "threshold"}
    twin |= {"reported": side(reported, at)} if reported else {}
    twin |= {"observedDesired": side(observed, at)} if observed else {}
    return {"metadata": {"ownerReferences": [{"uid": "u1"}]}, "status": {"twins": [twin], **fields}}


def row(found: dict[str, Any], said: dict[str, Any], now: float = NOW) -> DeviceRow:
    """Return the row of a device."""
    facts = device_facts(found, MODEL, said)
    return device_row(facts, next((each for each in NODES if each.name == facts.node), None), now)


def test_a_device_that_its_mapper_refuses_has_the_reason() -> None:
    served = {"type": "Served", "status": "False", "message": "this mapper has no driver for the model boilr"}
    found = row(device(desired=""), status(state="unknown", conditions=[served]))
    assert found.state == UNKNOWN
    assert found.why == f"its node reports the state unknown: its mapper refuses it: {served['message']}"


def test_a_device_that_is_as_desired() -> None:
    [twin] = device_twins(device(), MODEL, status("30", "30"))
    assert twin == DevicePropertyRow(
        "threshold", "FLOAT", "degree", "ReadWrite", "30", "30", NOW - 10, "30", NOW - 10, is_reported=True,
        agrees=AGREES,
    )  # fmt: skip
    found = row(device(), status("30", "30", state="online"))
    assert (found.state, found.why, found.newest, found.shown) == (GOOD, "", NOW - 10, twin)


@pytest.mark.parametrize(
    ("desired", "observed", "reported", "model", "agrees"),
    [
        ("", "", "", {}, ""),
        ("", "", "5", {}, ""),
        ("30", "", "", {}, UNCONFIRMED),
        ("30", "28", "30", {}, AGREES),
        ("30", "28", "28", {}, UNCONFIRMED),
        ("30", "30", "28", {}, OTHER),
        ("30", "30", "", {}, CONFIRMED),
        ("30", "30", "30.0", {}, OTHER),
        ("30", "30", "30.0", MODEL, AGREES),
        ("30", "30.0", "28", MODEL, OTHER),
        ("30", "30.0", "", MODEL, CONFIRMED),
    ],
)
def test_whether_a_device_has_a_desired_value(
    desired: str, observed: str, reported: str, model: dict[str, Any], agrees: str
) -> None:
    """By the type that the model has."""
    [twin] = device_twins(device(desired=desired), model, status(reported, observed))
    assert twin.agrees == agrees


@pytest.mark.parametrize(
    ("state", "word", "why"),
    [
        ("Online", DIFFERS, "threshold: 30 is desired, its node has not confirmed it, and 28 is reported"),
        ("offline", OFFLINE, "its node reports this state; threshold: 30 is desired, its node has not confirmed it,"),
        ("unhealthy", UNHEALTHY, "its node reports this state; threshold: 30"),
        ("unknown", UNKNOWN, "its node reports the state unknown: its mapper has ended, or is silent"),
        ("<b>", UNKNOWN, "its node reports the state <b>: there is no such state"),
    ],
)
def test_the_reported_state_counts(state: str, word: str, why: str) -> None:
    found = row(device(), status("28", "28", state=state))
    assert (found.state, found.why[: len(why)]) == (word, why)


def test_no_news_is_no_failure() -> None:
    away = row(device(node="n3"), status("28", "28", state="offline"))
    assert (away.state, away.why) == (
        NODE_AWAY, "n3 is away, and its values are those that were reported last; 1 desired value waits for it",
    )  # fmt: skip
    never = row(device(node="n4", desired=""), {})
    assert (never.state, never.why) == (NODE_AWAY, "n4 has never been connected, and nothing had been reported")


def test_facts_that_the_cloud_cannot_know_are_unknown() -> None:
    silent = row(device(), {})
    assert (silent.state, "whether a mapper serves it is known on its node only" in silent.why) == (UNKNOWN, True)
    lost = row(device(node="n9"), status("30", "30"))
    assert (lost.state, lost.why) == (UNKNOWN, "nothing is known of its node n9")
    assert row(device(node=""), {}).state == NO_NODE


def test_a_device_that_does_not_fit_its_model() -> None:
    condition = {"type": "Valid", "status": "False", "reason": "ModelNotFound", "message": "no such model"}
    found = row(device(node="n3"), status("30", "30", conditions=[condition]))
    assert (found.state, found.why) == (INVALID, "no such model")
    del condition["message"]
    assert row(device(), status(conditions=[condition])).why == "ModelNotFound"
    assert row(device(), status("30", "30", conditions=[{"type": "Valid", "status": "True"}])).state == GOOD


def test_a_property_that_should_have_been_reported_again_is_overdue() -> None:
    cycles: dict[str, Any] = {"reportToCloud": True, "reportCycle": 120_000}
    said = status("30", "30", at=NOW)
    assert row(device(**cycles), said, NOW + 360).state == GOOD
    late = row(device(**cycles), said, NOW + 361)
    assert (late.state, late.why[:26]) == (OVERDUE, "threshold was reported 6m1")
    assert row(device(reportToCloud=True, reportCycle=1000), said, NOW + 179).state == GOOD
    for after, state in ((599, GOOD), (601, OVERDUE)):
        assert row(device(reportToCloud=True, collectCycle=60_000), said, NOW + after).state == state
    for unlimited in ({"reportToCloud": True}, {"reportCycle": 1000}, {"reportToCloud": True, "reportCycle": "odd"}):
        assert row(device(**unlimited), said, NOW + 1e6).state == GOOD


def test_of_several_properties_the_newest_report_and_the_first_that_is_overdue_are_named() -> None:
    cycles: dict[str, Any] = {"reportToCloud": True, "reportCycle": 1000}
    made, said = device(**cycles), status("30", "30", at=NOW - 5)
    made["spec"]["properties"].append({"name": "battery", **cycles})
    said["status"]["twins"].append({"propertyName": "battery", "reported": side("5", NOW - 200)})
    found = row(made, said)
    assert (found.state, found.newest, found.why.split()[0]) == (OVERDUE, NOW - 5, "battery")


def test_the_status_of_an_earlier_device_does_not_count() -> None:
    earlier = status("30", "30", state="online", lastOnlineTime="2026-01-01T00:00:00Z")
    earlier["metadata"]["ownerReferences"] = [{"uid": "u0"}]
    assert row(device(), earlier).state == UNKNOWN
    story = device_story(device(), MODEL, earlier, NODES, NOW)
    assert (story.reported_state, story.last_online, story.twins[0].is_reported) == ("", "", False)


def test_a_story_has_all_properties_and_names_waiting_ones() -> None:
    story = device_story(device(), MODEL, status("28", "28", state="online"), NODES, NOW)
    assert story.sentence == (
        "default/hall is not as desired: threshold: 30 is desired, its node has not confirmed it, and 28 is reported."
    )
    assert [each.agrees for each in story.twins] == [UNCONFIRMED]
    story = device_story(device(node="n3"), MODEL, status("28", "28"), NODES, NOW)
    assert story.sentence.startswith("default/hall cannot be heard: n3 is away")
    assert ([each.agrees for each in story.twins], story.node_state) == ([WAITS], "away")
    story = device_story(device(), MODEL, status("30", "30", state="online"), NODES, NOW)
    assert story.sentence == "default/hall is as desired."


def test_a_device_with_several_late_properties_names_one_and_counts_the_others() -> None:
    facts = msgspec.structs.replace(device_facts(device(), MODEL, status("28", "28")), late=2)
    assert _differences(facts).endswith("; 1 more not as desired")


def test_the_sentence_counts_and_nodes_with_trouble_come_first() -> None:
    def found(name: str, node: str, reported: str) -> Any:
        return device_facts(device(name, node), MODEL, status(reported, "30"))

    assert devices([], NODES, NOW).sentence == "There are no devices."
    assert devices([found("a", "n1", "30")], NODES, NOW).sentence == "The device is as desired."
    good = [found("a", "n1", "30"), found("b", "n2", "30")]
    assert devices(good, NODES, NOW).sentence == "All 2 devices are as desired."
    answer = devices([*good, found("c", "n3", "1"), found("d", "n2", "1"), found("e", "", "1")], NODES, NOW)
    assert answer.sentence == (
        "2 of 5 devices are as desired; 1 not as desired, 1 without a node, 1 on nodes that are away."
    )
    assert [(each.node, each.state, each.since, [one.name for one in each.rows]) for each in answer.groups] == [
        ("n2", "behind", 0.0, ["d", "b"]), ("", "", 0.0, ["e"]), ("n3", "away", 9_000.0, ["c"]),
        ("n1", "connected", 0.0, ["a"]),
    ]  # fmt: skip
    searched = devices(good, NODES, NOW, "DEFAULT/ n2")
    assert (searched.sentence, [each.node for each in searched.groups]) == ("All 2 devices are as desired.", ["n2"])
    assert devices(good, NODES, NOW, is_cut=True).sentence == "2 of the first 2 devices are as desired."


def test_the_answer_is_bounded() -> None:
    many = [device_facts(device(f"d{number}"), MODEL, status("1")) for number in range(500)]
    answer = devices(many, NODES, NOW)
    assert (sum(len(each.rows) for each in answer.groups), answer.more) == (200, 300)
    big = device(node="n" * 10_000, desired="x" * 70_000)
    big["spec"]["properties"] += [{"name": f"{number}" + "p" * 1000} for number in range(300)]
    conditions = [{"type": "T" * 10_000, "status": "True", "message": "m" * 10_000}] * 100
    said = status("y" * 70_000, "z" * 70_000, conditions=conditions, state="s" * 10_000, lastOnlineTime="l" * 10_000)
    story = device_story(big, MODEL, said, NODES, NOW)
    assert (len(story.twins), story.more, len(story.conditions)) == (100, 201, 20)
    assert story.twins[0].desired == "x" * 200 + "… (69800 more characters)"
    assert max(len(each) for each in (story.row.why, story.row.node, story.reported_state, story.sentence)) < 600


@pytest.mark.parametrize(
    "odd", [None, [], "text", 7, {"twins": [None, 7, {"propertyName": []}], "conditions": ["x", {}]}]
)
def test_odd_objects_have_rows(odd: Any) -> None:
    said = {"metadata": {"ownerReferences": [{"uid": "u1"}]}, "status": odd}
    assert row(device(), said).state == UNKNOWN
    strange = {"metadata": {"namespace": "default", "name": "x"}, "spec": odd}
    assert device_story(strange, {"spec": odd}, said, NODES, NOW).row.state == NO_NODE
    times = status("30", "30")
    times["status"]["twins"][0]["reported"]["metadata"]["timestamp"] = "9" * 40
    assert row(device(), times).newest == 0.0
