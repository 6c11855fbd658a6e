"""Conditions: where they are, and the time of the last transition."""

from typing import Any

import pytest

from modules.apimachinery.conditions import changed_at, condition_of, conditions_of, timed, with_condition

READY: dict[str, Any] = {"type": "Ready", "status": "False", "reason": "Late", "lastTransitionTime": "then"}


@pytest.mark.parametrize(
    ("old", "status", "time"),
    [
        pytest.param(READY, "False", "then", id="the-status-stays"),
        pytest.param(READY, "True", "now", id="the-status-changes"),
        pytest.param({}, "True", "now", id="a-new-condition"),
        pytest.param({**READY, "lastTransitionTime": None}, "False", "now", id="one-without-a-time"),
    ],
)
def test_the_time_is_that_of_the_last_change_of_the_status(old: dict[str, Any], status: str, time: str) -> None:
    made = {"type": "Ready", "status": status, "reason": "Other"}
    assert timed(made, old, "now") == {**made, "lastTransitionTime": time}


@pytest.mark.parametrize("status", [None, {}, {"conditions": None}, {"conditions": {"a": 1}}, {"conditions": ["a"]}])
def test_an_object_may_have_no_conditions_that_can_be_read(status: object) -> None:
    assert conditions_of({"status": status}) == []
    assert condition_of({"status": status}, "Ready") == {}


def test_a_new_condition_takes_the_place_of_that_of_its_type() -> None:
    other = {"type": "Other"}
    found = with_condition({"status": {"a": 1, "conditions": [READY, other]}}, {"type": "Ready", "status": "True"})
    assert found == {"status": {"a": 1, "conditions": [other, {"type": "Ready", "status": "True"}]}}


def test_a_condition_without_a_readable_time_has_none() -> None:
    assert (changed_at(READY), changed_at({})) == (None, None)
    assert changed_at({"lastTransitionTime": "1970-01-01T00:00:10Z"}) == 10.0
