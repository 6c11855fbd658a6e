"""Each test runs on each kind of runtime; on `oci`, root's and an ordinary user's, without `make slow`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from tests.cri_contract.client import Client
from tests.cri_contract.exceptions import EXCEPTIONS, UNSAFE
from tests.cri_contract.images import ContractImages
from tests.cri_contract.kinds import KINDS, Kind
from tests.support.flaky import without_step

_HERE = "tests/cri_contract/"
_QUICK = ("oci", "oci-rootless")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is slow, and the exceptions of each kind: they must fail."""
    for item in items:
        kind = str(getattr(getattr(item, "callspec", None), "params", {}).get("kind", ""))
        if not kind or not item.nodeid.startswith(_HERE):
            continue
        if kind not in _QUICK:
            item.add_marker(pytest.mark.slow)
        if kind == "containerd":
            item.add_marker(pytest.mark.containerd)
        name = spec_of(item.name, kind)
        if reason := EXCEPTIONS.get(kind, {}).get(name):
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True))
        if reason := UNSAFE.get(kind, {}).get(name):
            item.add_marker(pytest.mark.xfail(reason=reason, run=False))


def spec_of(name: str, kind: str) -> str:
    """The name of a test without the kind of runtime, and without the number of a repetition by `--count`."""
    return without_step(name).replace(f"[{kind}]", "").replace(f"{kind}-", "").replace(f"-{kind}", "")


@pytest.fixture(scope="session", params=list(KINDS))
def kind(request: pytest.FixtureRequest) -> Iterator[Kind]:
    """Each kind of runtime in turn, running; one for all tests."""
    with KINDS[request.param]() as started:
        yield started


@pytest.fixture(scope="session")
def contract_images() -> Iterator[ContractImages]:
    """The registry of the contract's images."""
    with ContractImages() as served:
        yield served


@pytest.fixture(scope="session")
def channel(kind: Kind) -> Iterator[grpc.Channel]:
    """A connection to the runtime."""
    with grpc.insecure_channel(f"unix://{kind.socket}", [("grpc.use_local_subchannel_pool", 1)]) as made:
        yield made


@pytest.fixture
def client(kind: Kind, contract_images: ContractImages, channel: grpc.Channel, tmp_path: Path) -> Iterator[Client]:
    """One test's pods, removed afterwards."""
    made = Client(kind, contract_images, tmp_path, channel)
    try:
        yield made
    finally:
        made.remove_all()
