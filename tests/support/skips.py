"""A plugin of pytest: a test that is skipped for a reason that is not expected fails the run.

`pytest -p tests.support.skips --allowed-skips .ci/skips.txt`. A line of the file is for `root`, for another
`user` or for `any`, followed by a regular expression that a whole reason has to match.
"""

import os
import re
from pathlib import Path
from typing import Final

import pytest

from tests.support.closing import Closing
from tests.support.wanting import reason_of

USERS: Final = ("root", "user", "any")


def patterns(text: str, user: str) -> list[re.Pattern[str]]:
    """Return the expressions of the lines that are for a user.

    Raises:
        ValueError: a line is for nobody, or has no expression or a wrong one.
    """
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        who, _, expression = line.partition(" ")
        if who not in USERS or not expression.strip():
            raise ValueError(f"line {number}: want {', '.join(USERS)}, and a regular expression: {line}")
        try:
            compiled = re.compile(expression.strip())
        except re.error as error:
            raise ValueError(f"line {number}: {error}: {line}") from error
        if who in {user, "any"}:
            found.append(compiled)
    return found


class AllowedSkips:
    """Holds the reasons of a run to the allowed ones."""

    def __init__(self, allowed: list[re.Pattern[str]], name: str) -> None:
        self._allowed, self._name = allowed, name
        self._others: dict[str, list[str]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Look at a skipped test."""
        self._look(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Look at a skipped file."""
        self._look(report)

    def _look(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if not report.skipped or hasattr(report, "wasxfail"):
            return
        reason = reason_of(report)
        if not any(pattern.fullmatch(reason) for pattern in self._allowed):
            self._others.setdefault(reason, []).append(report.nodeid)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail a run that would have passed."""
        if not self._others:
            return
        if session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        closing = session.config.pluginmanager.get_plugin("closing")
        if isinstance(closing, Closing):
            closing.fails_for("tests were skipped for a reason that is not expected")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Name each reason, and the first test that it skipped."""
        if self._others:
            terminalreporter.section("skipped for a reason that is not expected", red=True)
        for reason, tests in sorted(self._others.items()):
            terminalreporter.write_line(f"{len(tests)} tests, such as {tests[0]}: {reason}")
        if self._others:
            terminalreporter.write_line(f"install what is missing, or allow the reason in {self._name}")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption("--allowed-skips", metavar="FILE", help="fail if a test is skipped for a reason that FILE lacks")


def pytest_configure(config: pytest.Config) -> None:
    """Look at the reports in the process that gets all of them."""
    name = config.getoption("--allowed-skips")
    if name is None or hasattr(config, "workerinput"):
        return
    try:
        allowed = patterns(Path(name).read_text(), "root" if os.geteuid() == 0 else "user")
    except (OSError, ValueError) as error:
        raise pytest.UsageError(f"--allowed-skips {name}: {error}") from error
    config.pluginmanager.register(AllowedSkips(allowed, name), "allowed-skips")
