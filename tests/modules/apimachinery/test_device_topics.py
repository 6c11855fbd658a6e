"""Who may publish under the topics of devices."""

import pytest

from modules.apimachinery.device_topics import is_open_to_applications, namespace_of_topic

P = "$hw/events/device/ns/thermo"


@pytest.mark.parametrize(
    ("topic", "is_open"),
    [
        ("any/topic", True),
        ("$aws/things", True),
        ("$hwx/y", True),
        (f"{P}/twin/update", True),
        ("$hw/events/device/thermo/state/get", True),
        ("$hw/events/node/n1/membership/get", True),
        ("$hw/events/upload/x/y", True),
        ("$hw", False),
        (f"{P}/twin/update/delta", False),
        (f"{P}/twin/update/document", False),
        (f"{P}/twin/update/result", False),
        (f"{P}/twin/cloud_updated", False),
        (f"{P}/state/get/result", False),
        (f"{P}/updated", False),
        (f"{P}/x/twin/update", False),
        (f"{P}/twin/update\n", False),
        ("$hw//events/device/ns/thermo/twin/update", False),
        ("$hw/events/node/n1/membership/updated", False),
        ("$hw/events/uploads", False),
    ],
)
def test_below_hw_only_reports_and_questions_are_open(topic: str, *, is_open: bool) -> None:
    assert is_open_to_applications(topic) == is_open


@pytest.mark.parametrize(
    ("topic", "namespace"),
    [
        (f"{P}/twin/update", "ns"),
        (f"{P}/state/get", "ns"),
        ("$hw/events/device/thermo/twin/update", ""),
        ("$hw/events/node/n1/membership/get", ""),
        ("events/device/ns/thermo/twin/update", ""),
        ("a", ""),
    ],
)
def test_the_namespace_of_a_device_is_in_its_topic(topic: str, namespace: str) -> None:
    assert namespace_of_topic(topic) == namespace
