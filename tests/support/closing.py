"""The last words of a run: what failed, where its output is, and how one of the failures is repeated.

The output of all failures is in a file of the run's directory, which stays after a run that has failed.
"""

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.support.wanting import Wanting, reason_of

NAME: Final = "failures.txt"
"""The file of a run's directory with the output of each failure."""


class Failure(NamedTuple):
    """A test, or a file that could not be collected, with what pytest says of it."""

    nodeid: str
    text: str


class Closing:
    """Gathers what made a run fail, and says it after everything else.

    Args:
        directory: of the run, where the output of the failures is written.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._failures: list[Failure] = []
        self._others: list[str] = []
        self._wanting = Wanting()

    def fails_for(self, what: str) -> None:
        """Note what fails a run beside its tests, as the end of the sentence `the run failed: …`."""
        self._others.append(what)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a failure or a skip of a test."""
        self._note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note a file that cannot be collected, or is skipped as a whole."""
        self._note(report)

    def _note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.failed:
            captured = [f"--- {title}\n{content}" for title, content in report.sections]
            self._failures.append(Failure(report.nodeid, "\n".join([report.longreprtext, *captured])))
        elif report.skipped and not hasattr(report, "wasxfail"):
            self._wanting.add(reason_of(report))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Name in groups what was skipped."""
        lines = self._wanting.lines()
        if lines:
            terminalreporter.section("skipped")
            terminalreporter.write_line("\n".join(lines))

    def pytest_unconfigure(self, config: pytest.Config) -> None:
        """Write the output of the failures to a file, and the last lines to the terminal."""
        names = list(dict.fromkeys(failure.nodeid for failure in self._failures))
        terminal = config.pluginmanager.get_plugin("terminalreporter")
        if terminal is None or not (names or self._others):
            return
        log = self._directory / NAME
        if self._directory.is_dir():  # a run that fails only for what it has left has removed it
            log.write_text("\n".join(f"=== {failure.nodeid}\n{failure.text}\n" for failure in self._failures))
        seed = config.getoption("randomly_seed", None)
        terminal.write_line(sentence(names, self._others, str(log), None if seed is None else str(seed)), red=True)


def sentence(failed: Sequence[str], others: Sequence[str], log: str, seed: str | None) -> str:
    """Return why a run failed, and if by tests, where their output is and the command that repeats the first."""
    named = [f"1 test failed, {failed[0]}"] if len(failed) == 1 else []
    if len(failed) > 1:
        named = [f"{len(failed)} tests failed, the first of them {failed[0]}"]
    said = f"the run failed: {'; '.join([*named, *others])}"
    if not failed:
        return said
    return f"{said}; the output of all that failed is in {log}\nrepeat the first: {repeat(failed[0], seed)}"


def left_behind(left: Sequence[str]) -> str:
    """Return what a run fails for that has left something on the machine."""
    if len(left) == 1:
        return f"it has left 1 thing on the machine: {left[0]}"
    return f"it has left {len(left)} things on the machine, the first of them {left[0]}"


def repeat(nodeid: str, seed: str | None) -> str:
    """Return the command that runs a test as this run has: with its hashes and its seed."""
    hashes = os.environ.get("PYTHONHASHSEED")
    words = [f"PYTHONHASHSEED={hashes}"] if hashes else []
    order = [f"--randomly-seed={seed}"] if seed else []
    return shlex.join([*words, ".venv/bin/pytest", *order, nodeid])
