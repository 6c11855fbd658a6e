"""The crowd is made once, by the first case that runs, and ended after the last one."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.end_to_end.crowd.crowd import Crowd, wanted
from tests.end_to_end.machine import Machine
from tests.end_to_end.processes import wait_until
from tests.end_to_end.runtimes import ContainerdUnderTest, OciUnderTest, RuntimeUnderTest
from tests.modules.runtimes.oci.node import reason_missing as oci_missing
from tests.support.containerd import PrivateContainerd, reason_missing

NO_DIRECTORIES = {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [
    {"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO"}]}  # fmt: skip


@contextmanager
def _oci() -> Iterator[RuntimeUnderTest]:
    with OciUnderTest(host_ports=True) as runtime:
        yield runtime


@contextmanager
def _containerd() -> Iterator[RuntimeUnderTest]:
    with PrivateContainerd(cni=True, host_ports=True) as daemon, ContainerdUnderTest(daemon) as runtime:
        yield runtime


@pytest.fixture(
    scope="package",
    params=[
        pytest.param(_oci, id="oci"),
        pytest.param(_containerd, marks=[pytest.mark.containerd, pytest.mark.slow], id="containerd"),
    ],
)
def crowd(request: pytest.FixtureRequest) -> Iterator[Crowd]:
    """With the pods of all cases that this run is going to try."""
    missing = (oci_missing() if request.param is _oci else "") or reason_missing()  # the network's plug-ins
    if missing:
        pytest.skip(missing)
    here = Path(__file__).parent
    cases = {item.function: None for item in request.session.items  # type: ignore[attr-defined]
             if item.path.parent == here}  # fmt: skip
    with request.param() as runtime:
        machine = Machine(runtime)
        try:
            _start(machine)
            crowd = Crowd(machine)
            machine.cloud.apply(*wanted(cases))
            yield crowd
            crowd.delete_all()
            wait_until(lambda: not crowd.left_behind(), "nothing is left of any pod; see below")
        except AssertionError as error:
            raise AssertionError(f"{error}\nleft: {crowd.left_behind()}\n{machine.report()}") from None
        finally:
            machine.close()


def _start(machine: Machine) -> None:
    machine.edge.kubelet["cluster_dns"] = ["192.0.2.10"]
    profiles = machine.edge.root / "edged" / "seccomp"
    profiles.mkdir(parents=True)
    (profiles / "no-directories.json").write_text(json.dumps(NO_DIRECTORIES))
    machine.start()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One after another, also where the order of tests is drawn by lot: a crowd that was left has to be made again."""
    items.sort(key=lambda item: item.nodeid.startswith("tests/end_to_end/crowd/"))
