"""The crowd is made once, by the first case that runs, and ended after the last one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.crowd.crowd import Crowd, wanted
from tests.end_to_end.machine import Machine
from tests.end_to_end.processes import wait_until
from tests.end_to_end.runtimes import ContainerdUnderTest
from tests.support.containerd import PrivateContainerd, reason_missing

NO_DIRECTORIES = {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [
    {"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO"}]}  # fmt: skip


@pytest.fixture(scope="package")
def crowd(request: pytest.FixtureRequest) -> Iterator[Crowd]:
    """With the pods of all cases that this run is going to try."""
    missing = reason_missing()
    if missing:
        pytest.skip(missing)
    here = Path(__file__).parent
    cases = {item.function: None for item in request.session.items  # type: ignore[attr-defined]
             if item.path.parent == here}  # fmt: skip
    with PrivateContainerd(cni=True, host_ports=True) as daemon, ContainerdUnderTest(daemon) as runtime:
        machine = Machine(runtime)
        try:
            crowd = Crowd(machine)
            _start(machine)
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
