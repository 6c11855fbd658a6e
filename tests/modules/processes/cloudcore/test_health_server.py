"""cloudcore's health checks and metrics over HTTP."""

from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import ClassVar

import pytest

from beehive.errors import StartError
from beehive.hive import Hive
from beehive.module import Module
from beehive.runtime import Threads
from modules.cloud.coordination.known_cloudcores import KnownCloudcores
from modules.cloud.refusals import Refusals
from modules.processes.cloudcore.counters import Counters
from modules.processes.cloudcore.health_server import HealthServer, verdict
from tests.modules.processes.cloudcore.stubs import Stub
from tests.support.patience import PATIENCE


@pytest.fixture
def stub(tmp_path: Path) -> Iterator[Stub]:
    with Stub(tmp_path, metrics_address="127.0.0.1") as running:
        yield running


def get(stub: Stub, path: str) -> tuple[int, str]:
    """Return status and body of the answer to a GET request."""
    *_, url = stub.core.urls
    return read(HTTPConnection(url.removeprefix("http://"), timeout=PATIENCE), path)


def read(connection: HTTPConnection, path: str) -> tuple[int, str]:
    """Return status and body of the answer to a GET request, and close the connection."""
    connection.request("GET", path)
    response = connection.getresponse()
    body = response.read().decode()
    connection.close()
    return response.status, body


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/healthz"])
def test_a_running_cloudcore_is_live_and_ready(stub: Stub, path: str) -> None:
    assert get(stub, path) == (200, "ok")


def test_prometheus_reads_the_metrics(stub: Stub) -> None:
    status, text = get(stub, "/metrics")
    assert status == 200
    assert "cloudcore_refused_requests" in text


def test_objects_are_not_served_there(stub: Stub) -> None:
    assert get(stub, "/api/v1/secrets")[0] == 404
    assert get(stub, "/cloudcore/nodes")[0] == 404


def test_a_failed_module_is_named_with_the_status_503() -> None:
    response = verdict(["module cloudhub is failed: the disk is full"])
    assert (response.status, response.body) == (503, b"module cloudhub is failed: the disk is full\n")


class Unready(Module):
    """A module that waits for something."""

    name: ClassVar[str] = "unready"

    announces_readiness: ClassVar[bool] = True

    def on_start(self) -> None:
        """Says what it waits for."""
        self.announce_not_ready("waits for the API server")


def test_a_module_that_is_not_ready_is_named_by_readyz_and_keeps_cloudcore_live() -> None:
    runtime = Threads()
    hive = Hive(runtime)
    bound: list[tuple[str, int]] = []
    hive.add(HealthServer, "127.0.0.1", 0, Counters(Refusals(hive.clock), KnownCloudcores()), bound)
    hive.add(Unready)
    hive.start()
    connection = HTTPConnection(*bound[0], timeout=PATIENCE)
    try:
        assert read(connection, "/livez") == (200, "ok")
        status, text = read(connection, "/readyz")
    finally:
        hive.stop()
        runtime.close()
    assert (status, "unready" in text, "waits for the API server" in text) == (503, True, True)


def test_a_port_in_use_is_a_failed_start_that_names_the_option(stub: Stub, tmp_path: Path) -> None:
    *_, url = stub.core.urls
    port = int(url.rpartition(":")[2])
    second = tmp_path / "second"
    second.mkdir()
    other = Stub(second, metrics_address="127.0.0.1", metrics_port=port)
    with pytest.raises(StartError, match="--metrics-bind-address"), other:
        raise AssertionError("it must not start")
