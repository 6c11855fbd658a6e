"""The runtimes that the contract tests run over, and pods on them."""

import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from edged.cri.client import CriClient
from protos.cri.v1 import api_pb2 as pb
from tests.cri_contract.images import ContractImages
from tests.cri_contract.kinds import KINDS
from tests.edged.cri.harness import Can, Pods, RuntimeUnderTest
from tests.modules.runtimes.oci.node import control_groups
from tests.support.containerd import PrivateContainerd, reason_missing
from tests.support.embedded import EmbeddedProcess
from tests.support.images import BUSYBOX_IMAGE


def _containerd() -> Iterator[RuntimeUnderTest]:
    missing = reason_missing()
    if missing:
        pytest.skip(missing)
    with PrivateContainerd(cni=True) as containerd:

        def restart() -> None:
            containerd.kill()
            containerd.start()

        yield RuntimeUnderTest(
            name="containerd",
            endpoint=containerd.endpoint,
            image=BUSYBOX_IMAGE,
            cgroup_parent=containerd.cgroup_parent,
            abilities=frozenset(Can),
            restart=restart,
        )


def _embedded() -> Iterator[RuntimeUnderTest]:
    with EmbeddedProcess() as embedded:

        def restart() -> None:
            embedded.kill()
            embedded.start()

        yield RuntimeUnderTest(
            name="the process runtime",
            endpoint=embedded.endpoint,
            image=BUSYBOX_IMAGE,
            cgroup_parent="",
            abilities=frozenset({Can.RESTART}),
            restart=restart,
        )


def _of_contract(name: str) -> Iterator[RuntimeUnderTest]:
    """A kind of the contract, with an image of its registry; the tests that need more than pods run there."""
    with KINDS[name]() as kind, ContractImages() as images:
        endpoint = f"unix://{kind.socket}"
        made = CriClient(endpoint, request_timeout=60)
        made.pull_image(pb.ImageSpec(image=images.name("busybox")))
        made.close()
        yield RuntimeUnderTest(name, endpoint, images.name("busybox"), kind.cgroup_parent, frozenset(), lambda: None)
        parent = kind.cgroup_parent.strip("/")
        for group in sorted(control_groups(parent), reverse=True):
            if group.name != parent:  # of a pod: edged's duty, not the runtime's
                group.rmdir()


RUNTIMES: dict[str, Callable[[], Iterator[RuntimeUnderTest]]] = {
    "containerd": _containerd,
    "embedded": _embedded,
    "oci": partial(_of_contract, "oci"),
    "docker": partial(_of_contract, "docker"),
}
"""How each runtime is started."""


def pytest_configure(config: pytest.Config) -> None:
    """Declares the mark for what a test needs of a runtime."""
    config.addinivalue_line("markers", "needs(*abilities): skipped on a container runtime without them")


CONTAINERD = pytest.param("containerd", marks=[pytest.mark.containerd, pytest.mark.slow])
"""What is held to it is edged's client, and the double: `make slow`, and `make quick` when these change."""


@pytest.fixture(scope="session", params=[CONTAINERD, "embedded"])
def cri_runtime(request: pytest.FixtureRequest) -> Iterator[RuntimeUnderTest]:
    """Each runtime in turn, running; one for all tests."""
    yield from RUNTIMES[request.param]()


@pytest.fixture(autouse=True)
def _skip_what_the_runtime_cannot(request: pytest.FixtureRequest) -> None:
    if "cri_runtime" not in request.fixturenames:
        return
    runtime: RuntimeUnderTest = request.getfixturevalue("cri_runtime")
    for mark in request.node.iter_markers("needs"):
        for ability in mark.args:
            if ability not in runtime.abilities:
                pytest.skip(f"{runtime.name} is not a runtime that {ability.value}")


@pytest.fixture
def client(cri_runtime: RuntimeUnderTest) -> Iterator[CriClient]:
    """A client of the runtime under test."""
    made = CriClient(cri_runtime.endpoint, request_timeout=60)
    yield made
    made.close()


@pytest.fixture
def pods(
    cri_runtime: RuntimeUnderTest, client: CriClient, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Pods]:
    """Makes pods for one test and removes them after it."""
    name = re.sub(r"[^a-z0-9]+", "-", request.node.originalname.lower())[5:45].strip("-")
    made = Pods(cri_runtime, client, tmp_path / "logs", name)
    yield made
    made.remove_all()
