"""Several cloudcores on one database: a change at one reaches the nodes of all; a node is that cloudcore's to
which it has connected last.
"""

from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed

from modules.cloud.storage.database.engine import make_engine, url_of
from modules.cloud.storage.database.tables import tables
from modules.processes.cloudcore.errors import ControlError
from tests.end_to_end.processes import wait_until
from tests.modules.cloud.objects import configmap, node, pod
from tests.modules.processes.cloudcore.stubs import Edge, Stub, acknowledged
from tests.support.control_client import Apply, Delete, Get
from tests.support.postgresql import PrivatePostgresql, needs_postgresql

Clouds = tuple[Stub, Stub]


@pytest.fixture(scope="module")
def postgresql() -> Iterator[str]:
    with PrivatePostgresql() as server:
        yield server.url


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=needs_postgresql)])
def clouds(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Clouds]:
    """Two that run."""
    is_file = request.param == "sqlite"
    url = str(tmp_path / "shared.db") if is_file else str(request.getfixturevalue("postgresql"))
    with ExitStack() as stack:
        one, other = (
            stack.enter_context(Stub(tmp_path, control_socket=tmp_path / name, database=url)) for name in "ab"
        )
        yield one, other
    engine = make_engine(url_of(url))
    tables.drop_all(engine)
    engine.dispose()


def routes(edge: Edge, count: int) -> list[str]:
    messages = [edge.next() for _ in range(count)]
    for message in messages:
        edge.acknowledge(message)
    return [f"{message.route.operation} {message.route.resource}" for message in messages]


def test_nodes_of_the_other_cloudcore_get_a_change(clouds: Clouds) -> None:
    one, other = clouds
    with other.edge() as edge:
        one.client.run(Apply([pod()]))
        assert routes(edge, 1) == ["insert default/pod/web"]
        one.client.run(Delete("pod", "web", grace=0))
        assert routes(edge, 2) == ["update default/pod/web", "delete default/pod/web"], "each change, as at the first"


def test_a_report_of_a_node_to_one_is_known_to_the_other(clouds: Clouds) -> None:
    one, other = clouds
    with other.edge() as edge:
        edge.ask("null/node/n1", "insert", node())
        (item,) = one.client.run(Get("node", "n1"))
        assert item.object is not None, item.error
        assert item.object["metadata"]["name"] == "n1"


def test_the_newest_connection_of_a_node_wins_wherever_it_is(clouds: Clouds) -> None:
    one, other = clouds
    one.client.run(Apply([pod()]))
    with one.edge() as first:
        assert routes(first, 1) == ["insert default/pod/web"]
        wait_until(lambda: acknowledged(one.config.database_url, "n1") == 1, "it is written down")
        with other.edge() as second:
            with pytest.raises(ConnectionClosed):
                first.receive()
            one.client.run(Apply([configmap(), pod("later")]))
            assert routes(second, 1) == ["insert default/pod/later"], "the first it has acknowledged there"
            wait_until(lambda: acknowledged(one.config.database_url, "n1") == 2, "it is written down")
    with one.edge() as third:
        third.ask("default/lease/none", "query")
        assert third.unasked == []


def test_both_change_one_object_and_nothing_is_lost(clouds: Clouds) -> None:
    versions = set()
    for number in range(20):
        (item,) = clouds[number % 2].client.run(Apply([configmap(**{f"k{number}": "1"})]))
        assert item.object is not None
        versions.add(item.object["metadata"]["resourceVersion"])
    assert len(versions) == 20
    for cloud in clouds:
        wait_until(lambda cloud=cloud: "k19" in _data(cloud), "it has the last")  # type: ignore[misc]


def _data(cloud: Stub) -> dict[str, str]:
    (item,) = cloud.client.run(Get("configmap", "settings"))
    return (item.object or {}).get("data") or {}


@pytest.mark.modules_fail
@needs_postgresql
def test_a_database_that_goes_away_and_comes_back_costs_no_connection_of_a_node(tmp_path: Path) -> None:
    """Requests meanwhile go unanswered, as with an API server that is away; nodes ask again."""
    with PrivatePostgresql() as server, Stub(tmp_path, database=server.url) as stub, stub.edge() as edge:
        stub.client.run(Apply([pod()]))
        assert routes(edge, 1) == ["insert default/pod/web"]
        server.stop()
        server.start()

        def applied() -> bool:
            with suppress(ControlError):
                return not any(item.error for item in stub.client.run(Apply([pod("later")])))
            return False

        wait_until(applied, "it works again", 60)
        assert routes(edge, 1) == ["insert default/pod/later"]
