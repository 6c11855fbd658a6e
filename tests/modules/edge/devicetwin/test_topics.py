"""Topics and the dispatch table."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beehive import Message, RealClock
from modules.edge.devicetwin.topics import Action, Asked, asked_by, resource_of, topic_of

CLOCK = RealClock()


def _asked(source: str, resource: str, operation: str = "update", parent: str = "") -> Asked:
    message = Message.new(CLOCK, source=source, resource=resource, operation=operation, parent_id=parent)
    return asked_by(message, "n1")


@pytest.mark.parametrize(
    ("topic", "asked"),
    [
        ("$hw/events/device/default/thermo/twin/get", Asked(Action.TWIN_GET, "default/thermo")),
        ("$hw/events/device/default/thermo/twin/update", Asked(Action.TWIN_UPDATE, "default/thermo")),
        ("$hw/events/device/default/thermo/state/update", Asked(Action.STATE_UPDATE, "default/thermo")),
        ("$hw/events/device/default/thermo/state/get", Asked(Action.STATE_GET, "default/thermo")),
        ("$hw/events/device/thermo/twin/update", Asked(Action.TWIN_UPDATE, "thermo")),
        ("$hw/events/device/default/thermo/twin/cloud_updated", Asked(Action.FORBIDDEN, "default/thermo")),
        ("$hw/events/device/default/thermo/twin/other", Asked(Action.UNKNOWN, "default/thermo")),
        ("$hw/events/device//twin/update", Asked(Action.UNKNOWN)),
        ("$hw/events/device/a/b/c/twin/update", Asked(Action.UNKNOWN)),
        *((f"$hw/events/device/a/b{letter}/twin/update", Asked(Action.UNKNOWN)) for letter in "+#\0"),
        ("$hw/events/node/n1/membership/get", Asked(Action.MEMBERSHIP_GET)),
        ("$hw/events/node/n2/membership/get", Asked(Action.UNKNOWN)),
        ("$hw/events/node/n1/membership/updated", Asked(Action.FORBIDDEN)),
        ("$hw/events/node/n1/membership/detail/result", Asked(Action.FORBIDDEN)),
        ("$hw/events/connected/n1", Asked(Action.UNKNOWN)),
    ],
)
def test_topics_of_applications(topic: str, asked: Asked) -> None:
    assert _asked("bus", resource_of(topic), "response") == asked


@pytest.mark.parametrize("namespace", ["dev", "e", "device", "hw", "events", "default", "twin", "update"])
def test_every_namespace_is_watched(namespace: str) -> None:
    """KubeEdge is deaf to devices of a namespace that occurs in the topic's own words."""
    topic = f"$hw/events/device/{namespace}/thermo/twin/update"
    assert _asked("bus", resource_of(topic)) == Asked(Action.TWIN_UPDATE, f"{namespace}/thermo")


@pytest.mark.parametrize(
    ("source", "resource", "operation", "asked"),
    [
        ("devicecontroller", "membership", "update", Asked(Action.MEMBERSHIP)),
        ("edgemgr", "membership/detail", "update", Asked(Action.MEMBERSHIP)),
        ("devicecontroller", "device/a/twin/cloud_updated", "update", Asked(Action.TWIN_SYNC, "a")),
        ("devicecontroller", "device/n/a/twin/cloud_updated", "update", Asked(Action.TWIN_SYNC, "n/a")),
        (
            "devicecontroller",
            "device/n/membership/twin/cloud_updated",
            "update",
            Asked(Action.TWIN_SYNC, "n/membership"),
        ),
        ("edgemgr", "device/a", "updated", Asked(Action.ATTRIBUTES, "a")),
        ("meta", "n/device/a", "insert", Asked(Action.OBJECT)),
        ("metamanager", "n/devicemodel/a", "update", Asked(Action.OBJECT)),
        ("router", "membership", "update", Asked(Action.UNKNOWN)),
        ("devicecontroller", "", "update", Asked(Action.UNKNOWN)),
    ],
)
def test_messages_of_the_cloud_and_of_metamanager(source: str, resource: str, operation: str, asked: Asked) -> None:
    assert _asked(source, resource, operation) == asked


def test_a_message_with_a_parent_is_a_confirmation() -> None:
    """KubeEdge's rule 0: its content and resource are not looked at."""
    assert _asked("devicecontroller", "membership", parent="x") == Asked(Action.CONFIRM)


@given(st.text(max_size=60))
def test_a_topic_survives_its_resource(topic: str) -> None:
    assert topic_of(resource_of(topic)) == topic


@given(st.text(max_size=60), st.sampled_from(["bus", "devicecontroller", "edgemgr", "meta", "x"]))
def test_no_resource_raises(resource: str, source: str) -> None:
    assert isinstance(_asked(source, resource), Asked)
