"""Fixtures: a runtime, and a machine with a cloud and a node on it."""

from collections.abc import Generator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from modules.processes.common.exit_codes import ExitCode
from tests.end_to_end.machine import Machine
from tests.end_to_end.runtimes import (
    ContainerdUnderTest,
    DockerUnderTest,
    EmbeddedUnderTest,
    OciUnderTest,
    RuntimeUnderTest,
)
from tests.end_to_end.shared import SharedMachine
from tests.modules.edge.eventbus.broker import Broker
from tests.modules.runtimes.oci.node import reason_missing as oci_missing
from tests.support.containerd import PrivateContainerd, reason_missing
from tests.support.dockerd import PrivateDockerd
from tests.support.dockerd import reason_missing as docker_missing
from tests.support.sharing import END_TO_END

_machines: Final[list[SharedMachine]] = []
"""What tests of this process have shared."""

_LONGEST: Final = 600
"""Seconds of a test: several things may take their time in one, and the deadline of each says more than this one."""

_ON: Final = {
    "oci": (
        "test_a_changed_image_restarts_only_its_container", "test_a_container_that_will_not_end_is_killed",
        "test_inspect", "test_kinds_of_runtimes", "test_mounted_volumes", "test_oci", "test_shell_of_the_page",
        "test_exec_and_attach", "test_uninstall",
    ),
    "docker": (),
    "containerd": ("test_deletion_asks_the_container_to_end", "test_statistics"),
}  # fmt: skip
"""By runtime, the files and the tests that run on it without `make slow`."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """These tests wait for processes, and say for what when it does not come: they must get to say it.

    On runtimes that isolate containers, only what is different there is not slow: all else runs on the embedded one.
    """
    for item in items:
        if item.nodeid.startswith("tests/end_to_end/"):
            item.add_marker(pytest.mark.timeout(_LONGEST))
            parameters = getattr(getattr(item, "callspec", None), "params", {})
            quick = _ON.get(str(parameters.get("runtime")), (item.path.stem,))
            if item.path.stem not in quick and getattr(item, "originalname", item.name) not in quick:
                item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def containerd() -> Iterator[ContainerdUnderTest]:
    """A containerd of this test worker's own."""
    missing = reason_missing()
    if missing:
        pytest.skip(missing)
    with PrivateContainerd(cni=True) as daemon, ContainerdUnderTest(daemon) as under_test:
        yield under_test


@pytest.fixture(scope="session")
def oci() -> Iterator[OciUnderTest]:
    """The OCI runtime with a network of this test worker's own."""
    if reason := oci_missing() or reason_missing():  # the network's plug-ins
        pytest.skip(reason)
    with OciUnderTest() as under_test:
        yield under_test


@pytest.fixture(scope="session")
def docker() -> Iterator[DockerUnderTest]:
    """A Docker Engine of this test worker's own."""
    if reason := docker_missing() or reason_missing():  # the network's plug-ins
        pytest.skip(reason)
    with PrivateDockerd() as daemon, DockerUnderTest(daemon) as under_test:
        yield under_test


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """A mosquitto; the test's module is marked `needs_mosquitto`."""
    directory = tmp_path / "broker"
    directory.mkdir()
    made = Broker(directory).start()
    yield made
    made.stop()


@pytest.fixture(params=["embedded", "oci", "docker", pytest.param("containerd", marks=pytest.mark.containerd)])
def runtime(request: pytest.FixtureRequest) -> RuntimeUnderTest:
    """Each of the runtimes in turn."""
    if request.param == "embedded":
        return EmbeddedUnderTest()
    under_test: RuntimeUnderTest = request.getfixturevalue(request.param)
    return under_test


@pytest.fixture
def stopped_machine(runtime: RuntimeUnderTest) -> Iterator[Machine]:
    """A machine with nothing started yet."""
    with closing(Machine(runtime)) as made:
        yield made


@pytest.fixture
def joined_machine() -> Iterator[Machine]:
    """A node that has joined a cloud with TLS; edgecore does not run yet."""
    with closing(Machine(EmbeddedUnderTest())) as made:
        made.cloud.tls_options = []
        made.cloud.start()
        assert made.edge.join(made.cloud, made.cloud.client.token(3600.0)).returncode == ExitCode.OK
        yield made


@pytest.fixture(scope="session")
def shared_embedded() -> Iterator[SharedMachine]:
    """A machine of this test worker's own with the process runtime."""
    shared = SharedMachine(EmbeddedUnderTest())
    _machines.append(shared)
    yield shared
    shared.close()


@pytest.fixture(scope="session")
def shared_oci(oci: OciUnderTest) -> Iterator[SharedMachine]:
    """A machine of this test worker's own with the OCI runtime."""
    shared = SharedMachine(oci)
    _machines.append(shared)
    yield shared
    shared.close()


_SHARED: Final = {"embedded": "shared_embedded", "oci": "shared_oci"}
"""Fixtures by runtime. A node of containerd or Docker would end the pods of another one's: the daemon has both."""


@pytest.fixture
def machine(request: pytest.FixtureRequest, runtime: RuntimeUnderTest) -> Iterator[Machine]:
    """A machine whose node is registered and ready.

    A test that is marked `gives_its_machine_back` has it after others, if its runtime belongs to one machine.
    """
    if request.node.get_closest_marker("gives_its_machine_back") is None or runtime.name not in _SHARED:
        made: Machine = request.getfixturevalue("stopped_machine")
        made.start()
        yield made
        return
    shared: SharedMachine = request.getfixturevalue(_SHARED[runtime.name])
    failures = request.session.testsfailed
    yield shared.machine()
    if request.session.testsfailed == failures:
        shared.clear()
    else:
        shared.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> Generator[None]:
    """End the shared machines after the last end-to-end test of this process: they would be at work until it ends."""
    yield
    if nextitem is None or not nextitem.nodeid.startswith(END_TO_END):
        for shared in _machines:
            shared.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """The logs of a failed test's processes go into its report, while they are still there."""
    report = yield
    given = getattr(item, "funcargs", {})
    machine = given.get("stopped_machine") or given.get("machine") or getattr(given.get("crowd"), "machine", None)
    if call.when in ("setup", "call") and report.failed and isinstance(machine, Machine):
        report.sections.append(("logs", machine.report()))
    return report
