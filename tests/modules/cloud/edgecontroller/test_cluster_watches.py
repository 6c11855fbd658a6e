"""Watches of metaservers of a cluster's custom resources."""

from typing import Any

import pytest

from beehive import Message
from beehive.testing import Harness
from modules.cloud.client.calls import ApiCall, ApiResult
from modules.cloud.edgecontroller.module import EdgeController
from tests.modules.cloud.apiextensions.definition import definition, device
from tests.modules.cloud.edgecontroller.cluster_server import (
    DISCOVERY,
    ClusterController,
    ClusterServer,
    FakeExchange,
    code,
)
from tests.modules.cloud.edgecontroller.controller import Controller

WHERE: dict[str, Any] = {"api_version": "devices.example.io/v1", "plural": "devices", "namespace": "default"}


def server_with(bee: Harness, *objects: dict[str, Any], allowed: bool = True) -> ClusterServer:
    """A cluster with a custom kind, whose RBAC lets nodes watch it."""
    server = ClusterServer(bee.clock)
    server.apply(definition(), *objects)

    def review(exchange: FakeExchange) -> None:
        exchange.answer(201, {**exchange.call.body, "status": {"allowed": allowed}})

    server.answers["selfsubjectaccessreviews"] = review
    return server


def watches(core: Controller, node: str = "n1", **fields: Any) -> ApiResult:
    """The answer to a watch of a metaserver."""
    call = ApiCall(verb="watch", node=node, **{**WHERE, **fields})
    request = core.bee.message("cloudcore/objects", "call", call, source="dynamiccontroller")
    return core.bee.ask(EdgeController.name, request).content_as(ApiResult)


def labelled(name: str, **labels: str) -> dict[str, Any]:
    made = device(name)
    return {**made, "metadata": {**made["metadata"], "labels": labels}}


def sent(core: ClusterController, after: float = 0.0) -> list[str]:
    """What nodes were sent unasked since the last look, once each, some seconds later; n1 acknowledges it."""
    core.pass_time(after)
    messages = core.unasked()
    for each in messages:
        _acknowledge(core, each)
    core.bee.settle()
    core.bee.forget()
    return list(dict.fromkeys(f"{each.route.operation} {each.route.resource}" for each in messages))


def _acknowledge(core: ClusterController, message: Message) -> None:
    assert message.route.source == "dynamiccontroller"
    content = message.content_as(dict[str, Any])
    is_delete = message.route.operation == "delete"
    core.acknowledged(content["metadata"]["uid"], int(message.header.resourceversion or 0), is_delete=is_delete)


def test_a_node_gets_what_its_watch_selects_and_each_change(bee: Harness) -> None:
    """Present ones, later ones, and what leaves the selection; the review is made in the node's name."""
    core = ClusterController(bee, server_with(bee, labelled("pump", at="hall"), device("fan")))
    assert code(watches(core, options={"labelSelector": "at=hall"})) == 0
    assert core.server.impersonated == ["system:node:n1"]
    assert sent(core) == ["insert node/n1/default/device/pump"]
    core.server.apply(labelled("lamp", at="hall"), labelled("oven", at="kitchen"))
    assert sent(core) == ["insert node/n1/default/device/lamp"]
    core.server.apply(labelled("lamp", at="kitchen"))
    assert sent(core) == ["update node/n1/default/device/lamp"]
    core.server.remove("devices", "pump")
    assert sent(core) == ["delete node/n1/default/device/pump"]


def test_a_restarted_cloudcore_deletes_nothing_before_the_watch_is_repeated(bee: Harness) -> None:
    """It does not know the kind until then; a metaserver repeats its watches at each connection."""
    server = server_with(bee, device("pump"), device("fan"))
    core = ClusterController(bee, server)
    watches(core)
    assert len(sent(core)) == 2
    with Harness() as other:
        server._clock = other.clock
        server.remove("devices", "pump")
        again = ClusterController(other, server, core.database)
        assert sent(again, after=60) == []
        watches(again)
        assert sent(again) == ["delete node/n1/default/device/pump"]


def test_a_watch_of_another_kind_outlives_a_restart_of_edgecontroller(bee: Harness) -> None:
    bee.expect_failures()
    core = ClusterController(bee, server_with(bee, device("pump")))
    watches(core)
    assert sent(core) == ["insert node/n1/default/device/pump"]
    core.database_fails()
    core.asks("null/node/n1", "query")
    bee.run_for(30)
    assert bee.hive.restarts()[EdgeController.name] == 1
    bee.forget()
    core.server.apply(device("fan"))
    assert sent(core) == ["insert node/n1/default/device/fan"]
    core.server.remove("devices", "pump")
    assert sent(core) == ["delete node/n1/default/device/pump"]


def test_a_watch_that_may_not_be_ends_alone(bee: Harness) -> None:
    """Of a kind that RBAC denies to nodes, of an unknown kind, and with a wrong selector."""
    core = ClusterController(bee, server_with(bee, device("pump"), allowed=False))
    assert code(watches(core)) == 403
    with Harness() as other:
        core = ClusterController(other, server_with(other, device("pump")))
        assert code(watches(core, plural="nones")) == 404
        assert code(watches(core, api_version="none.example.io/v1")) == 404
        for odd in ("../v1", "a%2fb/v1", "x/", "a/b/c"):
            assert code(watches(core, api_version=odd)) == 404
        assert code(watches(core, options={"labelSelector": "!!"})) == 400
        assert code(watches(core)) == 0
        assert sent(core) == ["insert node/n1/default/device/pump"]


def test_kinds_of_a_version_are_asked_once_and_missing_ones_again(bee: Harness) -> None:
    """A kind may be defined at any time."""
    server = server_with(bee)
    asked = []
    serve = server._discover

    def discover(exchange: FakeExchange) -> None:
        asked.append(exchange.call.api_version)
        serve(exchange)

    server._discover = discover  # type: ignore[method-assign]
    core = ClusterController(bee, server, nodes=("n1", "n2"))
    for node in ("n1", "n2"):
        assert code(watches(core, node)) == 0
    assert asked == ["devices.example.io/v1"]
    for _ in range(3):
        assert code(watches(core, plural="pumps")) == 404
    server.apply(definition("Pump", "pumps"))
    bee.run_for(11)
    assert code(watches(core, plural="pumps")) == 0
    assert len(asked) == 2


def test_versions_of_groups_are_bounded(bee: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """The least recently asked one is asked for again."""
    monkeypatch.setattr("modules.cloud.edgecontroller.cluster.resources._MOST_VERSIONS", 2)
    server, asked = server_with(bee), list[str]()

    def answer(exchange: FakeExchange) -> None:
        asked.append(exchange.call.api_version.rpartition("/")[2])
        exchange.answer(404, {"kind": "Status", "code": 404})

    server.answers[""] = answer
    core = ClusterController(bee, server)
    for version in ("v1", "v2", "v1", "v3", "v3", "v2", "v1"):
        assert code(watches(core, api_version=f"devices.example.io/{version}")) == 404
    assert asked == ["v1", "v2", "v3", "v1"]
    assert bee.clock.monotonic() < 1.0, "no answer waits for the next message"


@pytest.mark.parametrize("status", [403, 500])
def test_a_refused_discovery_is_reported_and_repeated(bee: Harness, status: int) -> None:
    server = server_with(bee)
    server.answers[""] = lambda exchange: exchange.answer(status, {"kind": "Status", "code": status, "message": "no"})
    core = ClusterController(bee, server)
    assert code(watches(core)) == 404
    del server.answers[""]
    assert code(watches(core)) == 0


def test_a_discovery_of_any_form_names_no_kind(bee: Harness) -> None:
    server = server_with(bee)
    forms: list[Any] = [{}, {"resources": 7}, {"resources": [7, {}, {"name": "devices"}, {"name": 1, "kind": 2}]}]

    def answer(exchange: FakeExchange) -> None:
        assert exchange.call.verb == DISCOVERY
        exchange.answer(200, forms.pop())

    server.answers[""] = answer
    core = ClusterController(bee, server)
    while forms:
        assert code(watches(core)) == 404
        bee.run_for(11)


def test_other_kinds_that_are_watched_for_nodes_are_bounded(bee: Harness) -> None:
    """Each takes a connection to the API server."""
    server = server_with(bee)
    server.apply(*(definition(f"Kind{at}", f"kinds{at}") for at in range(13)))
    core = ClusterController(bee, server)
    assert [code(watches(core, plural=f"kinds{at}")) for at in range(13)] == [0] * 12 + [429]
