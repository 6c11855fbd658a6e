"""The watches of nodes' metaservers, with the embedded API server and with a cluster's, in virtual time."""

from collections.abc import Iterator
from typing import Any

import pytest

from beehive.testing import Harness
from modules.apimachinery.kinds import ObjectKey, uid_of, version_of
from modules.cloud.client.calls import MOST_WATCHES, ApiCall, ApiResult
from modules.cloud.edgecontroller.module import EdgeController
from tests.modules.cloud.edgecontroller.cluster_server import ClusterController, ClusterServer
from tests.modules.cloud.edgecontroller.controller import Controller
from tests.modules.cloud.objects import configmap, pod, service

WEB = ObjectKey("Service", "default", "web")
MADE = "insert node/n1/default/service/web"


class World:
    """edgecontroller with one of the API servers."""

    def __init__(self, bee: Harness, *, of_cluster: bool) -> None:
        self.server = ClusterServer(bee.clock) if of_cluster else None
        self.core: Controller = ClusterController(bee, self.server) if self.server else Controller(bee)
        self.cluster = self.server.cluster if self.server else self.core.cluster

    def apply(self, *documents: Any) -> list[str]:
        """As kubectl does; return what nodes were sent since the last look."""
        if self.server:
            self.server.apply(*documents)
        else:
            assert not [result.refusal for result in self.core.apply(*documents) if result.refusal]
        return self.core.down()

    def delete(self, key: ObjectKey) -> list[str]:
        """As kubectl does; return what nodes were sent since the last look."""
        if self.server:
            self.server.remove(key.kind, key.name)
        else:
            self.core.remove(key.kind, key.name)
        return self.core.down()

    def asked(self, verb: str, plural: str, node: str = "n1", **fields: Any) -> ApiResult:
        """A call of a node's metaserver."""
        version = {"endpointslices": "discovery.k8s.io/v1"}.get(plural, "v1")
        call = ApiCall(**{"verb": verb, "api_version": version, "plural": plural, "node": node, **fields})
        request = self.core.bee.message("cloudcore/objects", "call", call, source="dynamiccontroller")
        result = self.core.bee.ask(EdgeController.name, request).content_as(ApiResult)
        self.core.bee.settle()
        return result

    def watches(self, plural: str, node: str = "n1", **fields: Any) -> None:
        """A watch that is allowed."""
        assert self.asked("watch", plural, node, **fields) == ApiResult()

    def stored(self, node: str = "n1") -> None:
        """The node acknowledges the Service's present version."""
        live = self.cluster.storage.get(WEB)
        assert node == "n1"
        self.core.acknowledged(uid_of(live), int(version_of(live)))
        self.core.bee.settle()


@pytest.fixture(params=[False, True], ids=["embedded", "cluster"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    with Harness() as bee:
        yield World(bee, of_cluster=request.param)


def test_a_node_gets_the_objects_that_it_watches_and_their_changes(world: World) -> None:
    """In dynamiccontroller's name, with their versions; a node that does not watch gets nothing."""
    assert world.apply(service()) == []
    world.watches("services")
    (made,) = world.core.unasked()
    assert (made.route.operation, made.route.resource, made.route.source) == (
        "insert", "node/n1/default/service/web", "dynamiccontroller",
    )  # fmt: skip
    assert made.content["kind"] == "Service"
    assert made.header.resourceversion == version_of(world.cluster.storage.get(WEB))
    world.stored()
    world.core.down()
    assert sorted(world.apply(service(a="1"), service("other"))) == [
        "insert node/n1/default/service/other",
        "update node/n1/default/service/web",
    ]
    assert world.delete(WEB) == ["delete node/n1/default/service/web"]


def test_an_unacknowledged_object_is_sent_again(world: World) -> None:
    world.apply(service())
    world.watches("services")
    assert world.core.down() == [MADE]
    assert world.core.down(after=21) == [MADE]
    world.stored()
    assert world.core.down(after=21) == []


@pytest.mark.parametrize(
    "fields",
    [
        {"options": {"labelSelector": "a=1"}},
        {"options": {"fieldSelector": "metadata.name=web"}, "namespace": "default"},
        {"name": "web"},
    ],
)
def test_a_watch_brings_the_selected_objects(world: World, fields: dict[str, Any]) -> None:
    """Before and after its beginning."""
    world.apply(service(a="1"), service("other"))
    world.watches("services", **fields)
    world.watches("services", namespace="elsewhere")
    assert world.core.down() == [MADE]
    assert world.apply(service("other", b="1")) == []


def test_an_object_that_is_no_longer_selected_is_still_sent(world: World) -> None:
    """The metaserver reports to its client that the object has left the watch."""
    world.apply(service(a="1"))
    world.watches("services", options={"labelSelector": "a=1"})
    world.core.down()
    assert world.apply(service(a="2")) == ["update node/n1/default/service/web"]


def test_after_a_new_connection_a_node_gets_missing_objects(world: World) -> None:
    """What it has acknowledged is not sent again; what was made meanwhile is, and what was deleted meanwhile."""
    world.apply(service(), service("old"))
    world.watches("services")
    world.stored()
    old = world.cluster.storage.get(ObjectKey("Service", "default", "old"))
    world.core.acknowledged(uid_of(old), int(version_of(old)))
    world.core.of_link("disconnected", 1, "n1")
    world.core.bee.settle()
    world.apply(service("new"))
    world.delete(ObjectKey("Service", "default", "old"))
    world.core.connected()
    assert sorted(world.core.down()) == ["delete node/n1/default/service/old", "insert node/n1/default/service/new"]


def test_a_node_that_ends_its_watches_gets_changes_only(world: World) -> None:
    world.apply(service())
    world.watches("services")
    world.core.down()
    assert world.asked("unwatch", "") == ApiResult()
    assert world.apply(service("other"), service(a="1")) == ["update node/n1/default/service/web"]


@pytest.mark.parametrize(
    ("plural", "fields", "code"),
    [
        ("deployments", {"api_version": "apps/v1"}, 403),
        ("secrets", {"namespace": "default"}, 403),
        ("secrets", {"options": {"fieldSelector": "metadata.name=key"}}, 403),
        ("pods", {}, 403),
        ("nodes", {"options": {"fieldSelector": "metadata.name=n2"}}, 403),
        ("services", {"api_version": "v7"}, 404),
        ("services", {"options": {"fieldSelector": "spec.x=y"}}, 400),
        ("services", {"options": {"labelSelector": "a in"}}, 400),
    ],
)
def test_a_watch_that_is_refused_ends_no_other(world: World, plural: str, fields: dict[str, Any], code: int) -> None:
    """Not even when the pod refers to a secret of that name in one namespace, and the watch is of all."""
    world.apply(service(), pod(imagePullSecrets=[{"name": "key"}]))
    world.watches("services")
    refusal = world.asked("watch", plural, **fields).refusal or {}
    is_decided_there = plural == "deployments" and world.server is not None
    assert refusal["code"] == (404 if is_decided_there else code), "a cluster decides, and this one has no reviews"
    world.core.down()
    assert world.apply(service(a="1")) == ["update node/n1/default/service/web"]


def test_a_node_may_watch_objects_that_it_gets_in_any_case(world: World) -> None:
    """Its pods, itself, and by its name what they refer to; nothing is sent twice."""
    sent = world.apply(configmap(a="1"), pod(volumes=[{"name": "v", "configMap": {"name": "settings"}}]))
    assert "insert node/n1/default/configmap/settings" in sent
    world.watches("pods", options={"fieldSelector": "spec.nodeName=n1"})
    world.watches("nodes", options={"fieldSelector": "metadata.name=n1"})
    world.watches("configmaps", namespace="default", options={"fieldSelector": "metadata.name=settings"})
    assert world.core.down() == []


def test_a_node_has_so_many_watches(world: World) -> None:
    """Equal ones count once."""
    for number in (*range(MOST_WATCHES), 0, 1):
        world.watches("services", namespace=f"n{number}")
    refusal = world.asked("watch", "services", namespace="another").refusal or {}
    assert (refusal["code"], refusal["reason"]) == (429, "TooManyRequests")
    world.watches("services", "n2", namespace="another")


def test_a_watch_outlives_a_restart_of_edgecontroller(world: World) -> None:
    """It ends no connection, and nodes repeat their watches only when they connect."""
    world.core.bee.expect_failures()
    world.apply(service("old"))
    world.watches("services")
    world.core.acknowledged(*_present(world, "old"))
    world.core.database_fails()
    world.core.asks("null/node/n1", "query")
    world.core.bee.run_for(30)
    assert world.core.bee.hive.restarts()[EdgeController.name] == 1
    world.core.down()
    assert world.apply(service()) == [MADE]
    world.core.acknowledged(*_present(world, "old"))
    assert world.delete(ObjectKey("Service", "default", "old")) == ["delete node/n1/default/service/old"]
    world.asked("unwatch", "")
    assert world.apply(service("more")) == []


def _present(world: World, name: str) -> tuple[str, int]:
    live = world.cluster.storage.get(ObjectKey("Service", "default", name))
    return uid_of(live), int(version_of(live))


def test_objects_of_a_node_are_not_deleted_because_the_mirror_does_not_have_them_yet() -> None:
    """The lister's kinds that only watches need are listed after a start when a node has such objects."""
    with Harness() as bee:
        bee.expect_failures()
        world = World(bee, of_cluster=True)
        assert world.server is not None
        world.apply(service(), service("gone"))
        world.watches("services")
        for name in ("web", "gone"):
            live = world.cluster.storage.get(ObjectKey("Service", "default", name))
            world.core.acknowledged(uid_of(live), int(version_of(live)))
        bee.settle()
        world.core.down()
        world.server.hold("services")
        world.core.database_fails()
        world.core.asks("null/node/n1", "query")
        bee.run_for(30)
        assert bee.hive.restarts()[EdgeController.name] == 1
        assert world.core.down() == []
        world.server.remove("Service", "gone")
        world.server.release()
        bee.run_for(1)
        assert world.core.down() == ["delete node/n1/default/service/gone"]
