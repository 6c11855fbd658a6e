"""Fixtures: a runtime, and a machine with a cloud and a node on it."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.end_to_end.machine import Machine
from tests.end_to_end.runtimes import ContainerdUnderTest, EmbeddedUnderTest, RuntimeUnderTest
from tests.support.containerd import PrivateContainerd, reason_missing

_LONGEST: Final = 600
"""Seconds of a test: several things may take their time in one, and the deadline of each says more than this one."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """These tests wait for processes, and say for what when it does not come: they must get to say it."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.timeout(_LONGEST))


@pytest.fixture(scope="session")
def containerd() -> Iterator[ContainerdUnderTest]:
    """A containerd of this test worker's own."""
    missing = reason_missing()
    if missing:
        pytest.skip(missing)
    with PrivateContainerd(cni=True) as daemon, ContainerdUnderTest(daemon) as under_test:
        yield under_test


@pytest.fixture(params=["embedded", pytest.param("containerd", marks=pytest.mark.containerd)])
def runtime(request: pytest.FixtureRequest) -> RuntimeUnderTest:
    """Each of the runtimes in turn."""
    if request.param == "embedded":
        return EmbeddedUnderTest()
    under_test: RuntimeUnderTest = request.getfixturevalue("containerd")
    return under_test


@pytest.fixture
def stopped_machine(runtime: RuntimeUnderTest) -> Iterator[Machine]:
    """A machine on which nothing has been started yet."""
    made = Machine(runtime)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def machine(stopped_machine: Machine) -> Machine:
    """A machine whose node is registered and ready."""
    stopped_machine.start()
    return stopped_machine


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """The logs of a failed test's processes go into its report, while they are still there."""
    report = yield
    given = getattr(item, "funcargs", {})
    machine = given.get("stopped_machine") or getattr(given.get("crowd"), "machine", None)
    if call.when in ("setup", "call") and report.failed and isinstance(machine, Machine):
        report.sections.append(("logs", machine.report()))
    return report
