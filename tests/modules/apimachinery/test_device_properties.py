"""The values that a DeviceModel allows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modules.apimachinery.device_properties import (
    MAX_VALUE,
    ModelProperty,
    desired_fault,
    is_same_value,
    rules_fault,
    value_fault,
)

TARGET = ModelProperty("target", "FLOAT", "ReadWrite", "5", "80", "degree")
LEVEL = ModelProperty("level", "INT", "ReadWrite", "0", "")
DOOR = ModelProperty("door", "BOOLEAN", "ReadWrite")
TEXT = ModelProperty("text", "STRING")
BLOB = ModelProperty("blob", "BYTES")
SENSOR = ModelProperty("sensor", "INT", "ReadOnly")


@pytest.mark.parametrize(
    ("model", "text", "fault"),
    [
        (TARGET, "5", ""), (TARGET, "80.0", ""), (TARGET, "", ""), (LEVEL, "9223372036854775807", ""),
        (LEVEL, "+5", ""), (LEVEL, "+-5", "not int"), (LEVEL, "5+", "not int"),
        (DOOR, "true", ""), (TEXT, "x" * MAX_VALUE, ""), (BLOB, "aGk=", ""),
        (TARGET, "600", "the value 600 is out of range (target is FLOAT 5 to 80 degree in the device's model)"),
        (TARGET, "4.999", "out of range"), (TARGET, "1e3", "out of range"), (LEVEL, "-1", "out of range"),
        (TARGET, "nan", "not float"), (TARGET, "inf", "not float"), (TARGET, "hot", "not float"),
        (TARGET, "٧٠", "not float"),
        (LEVEL, "1.5", "not int"), (LEVEL, "9223372036854775808", "not int"), (LEVEL, "٣", "not int"),
        (DOOR, "True", "true or false"), (BLOB, "a", "not base64"), (TEXT, "x" * (MAX_VALUE + 1), "65536 are allowed"),
        (SENSOR, "5", "ReadOnly"), (None, "5", "no property p"),
    ],
)  # fmt: skip
def test_a_desired_value_is_allowed_or_its_fault_has_the_reason(
    model: ModelProperty | None, text: str, fault: str
) -> None:
    found = desired_fault(model, "p", text)
    assert fault in found and bool(found) == bool(fault)


@pytest.mark.parametrize(
    ("kind", "one", "other", "same"),
    [
        ("FLOAT", "60", "60.0", True), ("float", "6e1", "+60", True), ("FLOAT", "42.5", "42.50", True),
        ("FLOAT", "0.1", "0.10000000149011612", True), ("DOUBLE", "0.1", "0.10000000149011612", False),
        ("FLOAT", "60", "60.1", False), ("FLOAT", "1e60", "1E60", True), ("FLOAT", "-0", "0", True),
        ("FLOAT", "nan", "nan", True), ("FLOAT", "nan", "NaN", False), ("FLOAT", "hot", "60", False),
        ("DOUBLE", "1e3", "1000", True), ("INT", "060", "60", True), ("integer", "+5", "5", True),
        ("INT", "60", "60.0", True), ("INT", "9007199254740993", "9007199254740992", False),
        ("INT", "9007199254740993", "9007199254740992.0", False),
        ("BOOLEAN", "true", "True", True), ("BOOLEAN", "false", "0", True), ("boolean", "true", "false", False),
        ("BOOLEAN", "true", "yes", False), ("BYTES", "aGk=", "aGk=", True), ("BYTES", "aGk=", "aGl=", True),
        ("BYTES", "aGk=", "aGo=", False), ("BYTES", "aGk=", "", False), ("STRING", "60", "60.0", False),
        ("STREAM", "1", "01", False), ("", "60", "60.0", False),
    ],
)  # fmt: skip
def test_two_spellings_of_one_value_are_one(kind: str, one: str, other: str, same: bool) -> None:
    """By the type; what is no value of it is a text."""
    assert is_same_value(kind, one, other) is same
    assert is_same_value(kind, other, one) is same


def test_a_read_only_property_may_be_reported() -> None:
    assert value_fault(SENSOR, "5") == ""


@given(value=st.integers(-(2**70), 2**70), low=st.integers(-(2**70), 2**70) | st.none(), high=st.integers() | st.none())
def test_limits_are_exact_for_whole_numbers_of_any_size(value: int, low: int | None, high: int | None) -> None:
    model = ModelProperty("p", "INT", "", "" if low is None else str(low), "" if high is None else str(high))
    fits = -(2**63) <= value < 2**63
    readable = [limit is None or abs(limit) < 10**18 for limit in (low, high)]
    if not all(readable):
        return
    allowed = fits and (low is None or value >= low) and (high is None or value <= high)
    assert (desired_fault(model, "p", str(value)) == "") == allowed


@pytest.mark.parametrize(
    ("model", "fault"),
    [
        (TARGET, ""), (LEVEL, ""), (ModelProperty("p", "STRING", "", "a", "b"), ""),
        (ModelProperty("p", "INT", "", "low"), "the limit low is no number"),
        (ModelProperty("p", "INT", "", "9", "1"), "the minimum 9 lies above the maximum 1"),
    ],
)  # fmt: skip
def test_limits_that_cannot_be_checked_are_a_fault_of_the_model(model: ModelProperty, fault: str) -> None:
    found = rules_fault(model)
    assert fault in found and bool(found) == bool(fault)


@pytest.mark.parametrize("limits", [("low", ""), ("", "80 °C"), ("0", "1e999"), ("9", "1")])
def test_limits_that_cannot_be_checked_allow_no_value(limits: tuple[str, str]) -> None:
    """A cluster's API server takes such a model: a maximum of `80 °C` let 600 reach the machine."""
    model = ModelProperty("target", "FLOAT", "ReadWrite", *limits)
    assert "target takes no expected value" in desired_fault(model, "target", "600")
    assert desired_fault(model, "target", "") == ""
