"""Two cloudcores know of each other by their Leases: on one database, and at the API server of one cluster."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from modules.apimachinery.kinds import JsonObject
from modules.cloud.coordination.lease_settings import NAMESPACE, LeaseSettings
from modules.processes.cloudcore.cli import main
from modules.processes.common.exit_codes import ExitCode
from tests.end_to_end.processes import wait_until
from tests.modules.cloud.objects import node
from tests.modules.processes.cloudcore.clusters import Cluster
from tests.modules.processes.cloudcore.stubs import Stub
from tests.support.control_client import Get

QUICK = LeaseSettings(period=0.5)
"""So that who starts first knows of the other, and the other way round, before a minute has passed."""


class Several:
    """Where the cloudcores are."""

    def __init__(self, directory: Path, api: Stub | None, **options: Any) -> None:
        self.directory = directory
        self.options = options
        self._api = api

    @contextmanager
    def one(self, name: str) -> Iterator[Stub]:
        """Starts one."""
        where = self.directory / name
        where.mkdir(exist_ok=True)
        with Stub(where, lease=QUICK, **self.options) as stub:
            yield stub

    def leases(self, of: Stub) -> list[JsonObject]:
        """All Leases at the API server."""
        items = (self._api or of).client.run(Get("lease", namespace="kubeedge"))
        return [item.object for item in items if item.object is not None]


@pytest.fixture(params=["database", "cluster"])
def several(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Several]:
    """On an SQLite file, or at a cluster with a database each."""
    if request.param == "database":
        yield Several(tmp_path, None, database=str(tmp_path / "shared.db"))
        return
    cluster = Cluster(tmp_path)
    try:
        cluster.core.__exit__()
        yield Several(tmp_path, cluster.cluster, kubeconfig=cluster.kubeconfig())
    finally:
        cluster.cluster.__exit__()


def alive(stub: Stub) -> int:
    """How many it knows, itself included."""
    return len(stub.client.cloudcores().alive)


def test_two_know_of_each_other_until_one_stops(several: Several, capsys: pytest.CaptureFixture[str]) -> None:
    """A stopping one deletes its Lease; commands and metrics show the living ones."""
    with several.one("a") as one, ExitStack() as stack:
        assert alive(one) == 1
        other = stack.enter_context(several.one("b"))
        for each in (one, other):
            wait_until(lambda each=each: alive(each) == 2, "both are known")  # type: ignore[misc]
            assert "cloudcore_alive_cloudcores 2" in each.client.metrics()
        assert {lease["spec"]["holderIdentity"] for lease in several.leases(one)} >= set(one.client.cloudcores().alive)
        main(["doctor", "--socket", str(one.config.control_socket)])
        assert "2 are alive" in capsys.readouterr().out
        other.core.drain()
        wait_until(lambda: alive(one) == 1, "it has gone")
        gone = other.client.cloudcores().own
        assert gone not in {lease["spec"]["holderIdentity"] for lease in several.leases(one)}


def test_it_learns_which_other_cloudcore_has_a_node(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    several = Several(tmp_path, None, database=str(tmp_path / "shared.db"))
    with several.one("a") as one, several.one("b") as other, other.edge() as edge:
        edge.ask("null/node/n1", "insert", node())
        own = other.client.cloudcores().own
        wait_until(lambda: one.client.cloudcores().elsewhere() == {"n1": own}, "the other one has it")
        assert main(["nodes", "--socket", str(one.config.control_socket)]) == ExitCode.OK
        assert f"at {own}" in capsys.readouterr().out


def test_a_database_that_nobody_can_share_has_no_lease(tmp_path: Path) -> None:
    with Stub(tmp_path, database="sqlite://") as stub:
        assert alive(stub) == 1
        assert "cloudcore_alive_cloudcores 1" in stub.client.metrics()
        assert stub.client.run(Get("lease", namespace=NAMESPACE)) == []
