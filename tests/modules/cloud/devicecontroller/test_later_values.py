"""Reports with times before the stored ones: their node learns which."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beehive.testing import Harness
from modules.cloud.devicecontroller.later_values import later_values
from modules.cloud.devicecontroller.reports import Report, ReportedValue
from modules.cloud.devicecontroller.status_writer import INTERVAL
from tests.modules.cloud.devicecontroller.test_module import answers, device, report, started, value


def test_a_report_with_an_earlier_time_is_answered_with_the_stored_one(bee: Harness) -> None:
    """Its node has lost its database, and its clock is behind: with a time after the stored one its value counts."""
    server = started(bee, device())
    report(bee, "21", timestamp=5000)
    bee.run_for(2 * INTERVAL)
    told = report(bee, "7", timestamp=100)
    answer = answers(bee)[told.id]
    assert (answer["code"], answer["twin"]) == (409, {"t": {"actual": {"metadata": {"timestamp": 5000}}}})
    assert "ErrStatus" in answer, "cloudhub acknowledges nothing else"
    assert value(server) == "21"
    bee.run_for(2 * INTERVAL)
    again = report(bee, "7", timestamp=5001)
    assert (answers(bee)[again.id], value(server)) == ("OK", "7")


def test_an_earlier_report_behind_a_later_one_is_refused(bee: Harness) -> None:
    """It does not replace the later one; an earlier replaced report is fine."""
    server = started(bee, device())
    server.is_down = True
    told = [report(bee, str(at), timestamp=at) for at in (3, 9, 5)]
    server.is_down = False
    bee.run_for(60)
    assert value(server) == "9"
    assert [answers(bee)[each.id] == "OK" for each in told] == [True, True, False]


@pytest.mark.parametrize("status", [{}, {"status": None}, {"status": {"twins": [None, 7, {"reported": "x"}]}}])
def test_a_status_that_somebody_else_has_written_is_no_trouble(status: dict[str, Any]) -> None:
    assert later_values(status, [Report({"t": ReportedValue("1", 5, "int")})]) == [{}]


@given(times=st.lists(st.integers(1, 9), max_size=6), stored=st.integers(0, 9))
def test_a_value_is_missed_unless_one_that_came_after_it_is_as_new(times: list[int], stored: int) -> None:
    """A value older than the stored one, that is; which of several is the newest does not depend on their order."""
    twin = {"propertyName": "t", "reported": {"metadata": {"timestamp": str(stored)}}}
    found = later_values({"status": {"twins": [twin]}}, [Report({"t": ReportedValue("1", at, "int")}) for at in times])
    missed = [at < stored and at > max(times[place + 1 :], default=0) for place, at in enumerate(times)]
    assert found == [{"t": {"actual": stored}} if each else {} for each in missed]
