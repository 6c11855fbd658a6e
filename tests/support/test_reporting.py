"""What is reported of a test."""

from typing import Literal

import pytest

from tests.support.reporting import worth_reporting


def _report(
    when: Literal["setup", "call", "teardown"],
    outcome: Literal["passed", "failed", "skipped"] = "passed",
    duration: float = 0.0,
) -> pytest.TestReport:
    return pytest.TestReport(
        "test", ("test.py", 1, "test"), {}, outcome=outcome, longrepr=None, when=when, duration=duration
    )


@pytest.mark.parametrize(
    ("reports", "reported"),
    [
        ([_report("setup"), _report("call"), _report("teardown")], ["call"]),
        ([_report("setup", "skipped"), _report("teardown")], ["setup"]),
        ([_report("setup"), _report("call", "skipped"), _report("teardown")], ["call"]),
        ([_report("setup"), _report("call", "failed"), _report("teardown")], ["setup", "call", "teardown"]),
        ([_report("setup", "failed"), _report("teardown")], ["setup", "teardown"]),
        ([_report("setup"), _report("call"), _report("teardown", "failed")], ["setup", "call", "teardown"]),
    ],
)
def test_failed_tests_are_reported_whole_and_others_by_their_result(
    reports: list[pytest.TestReport], reported: list[str]
) -> None:
    assert [report.when for report in worth_reporting(reports)] == reported


def test_the_call_has_the_time_of_all() -> None:
    (call,) = worth_reporting([_report("setup", duration=5), _report("call", duration=1), _report("teardown")])
    assert call.duration == 6
