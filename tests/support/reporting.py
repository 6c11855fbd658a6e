"""What a process of pytest-xdist reports of a test.

By default each test costs six messages: its begin, its end, three reports and one for the scheduler. For most of our
tests that is more work than the test. Of a test that passes, the call says all, and has the time of its setup and end.
"""

from collections.abc import Iterable

import pytest
from _pytest.runner import runtestprotocol


def worth_reporting(reports: Iterable[pytest.TestReport]) -> list[pytest.TestReport]:
    """Return what somebody reads: all reports of a test that failed, else its call, which has the time of all, or what
    was skipped.

    What nobody reads of a test that has passed is 15 kB in the process that keeps the reports of all.
    """
    reports = list(reports)
    if any(report.failed for report in reports):
        return reports
    seconds = sum(report.duration for report in reports)
    for report in reports:
        if report.passed:
            report.sections, report.keywords, report.duration = [], {}, seconds
    return [report for report in reports if report.when == "call" or not report.passed]


class BriefReports:
    """Runs tests as pytest does, but reports no begin, no end, and no setup or teardown that has passed."""

    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        """Run all phases, then report."""
        for report in worth_reporting(runtestprotocol(item, log=False, nextitem=nextitem)):
            item.ihook.pytest_runtest_logreport(report=report)
        return True


class EarlyNames:
    """Names a test that fails immediately: whoever waits for a run of a quarter of an hour can begin to look."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Write the name to the terminal."""
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        if report.failed and terminal is not None:
            terminal.write_line(f"\nfailed: {report.nodeid}")


def register(config: pytest.Config) -> None:
    """Report briefly in a process of pytest-xdist, unless each line is read or the first failure ends the run."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(EarlyNames(config), "early-names")
    elif not config.option.maxfail and config.option.verbose <= 0:
        config.pluginmanager.register(BriefReports(), "brief-reports")
