"""The module alone on the bus: what clients read is watched in the cloud."""

from collections.abc import Iterator
from typing import Any, ClassVar

import msgspec
import pytest

from beehive import Group, Message, Module, ModuleName, handles
from beehive.names import CLOUD_CONNECTED, CLOUD_DISCONNECTED, CONNECTION_RESOURCE
from beehive.testing import Harness
from modules.apimachinery.application import (
    FOLLOW,
    FOLLOW_RESOURCE,
    FOLLOWED,
    Application,
    Progress,
    StatusError,
    Target,
    target_of,
)
from modules.edge.metaserver.watch_agent import MOST, MOST_NAMESPACED, ClientWatches, WatchAgent

SERVICES = Target("", "v1", "services")
RULES = Target("networking.istio.io", "v1alpha3", "destinationrules")
POLICIES = Target("networking.k8s.io", "v1", "networkpolicies")
RESPONSE = "applicationResponse"
SLICES = Target("discovery.k8s.io", "v1", "endpointslices", "shop")


@pytest.fixture
def bee() -> Iterator[Harness]:
    with Harness() as made:
        made.add(WatchAgent, "n1", ClientWatches())
        made.start()
        yield made


def follow(bee: Harness, target: Target) -> None:
    """A client reads a collection."""
    bee.send(ModuleName.METASERVER, bee.message(FOLLOW_RESOURCE, FOLLOW, target))
    bee.settle()


def link_is(bee: Harness, state: str) -> None:
    """edgehub says so."""
    bee.send(ModuleName.METASERVER, bee.message(CONNECTION_RESOURCE, "connect", state, source="edgehub"))
    bee.settle()


def asked(bee: Harness) -> list[Message]:
    """What went to the cloud since the last look."""
    sent = bee.sent_to(ModuleName.EDGEHUB)
    bee.forget()
    return sent


def test_a_collection_is_watched_once(bee: Harness) -> None:
    follow(bee, SERVICES)
    follow(bee, SERVICES)
    follow(bee, SLICES)
    first, second = asked(bee)
    assert (first.route.source, first.route.group, first.route.resource) == ("metaserver", "dynamiccontroller", "null")
    apps = [one.content_as(Application) for one in (first, second)]
    assert [(app.verb, app.option, target_of(app)) for app in apps] == [
        ("watch", b'{"watch":true}', SERVICES),
        ("watch", b'{"watch":true}', SLICES),
    ]


def test_each_new_connection_repeats_the_watches(bee: Harness) -> None:
    """Without watches, there is no message."""
    link_is(bee, CLOUD_CONNECTED)
    assert asked(bee) == []
    follow(bee, SERVICES)
    follow(bee, SLICES)
    watches = {app.id: app for app in (one.content_as(Application) for one in asked(bee))}
    link_is(bee, CLOUD_DISCONNECTED)
    assert asked(bee) == []
    link_is(bee, CLOUD_CONNECTED)
    (repeated,) = asked(bee)
    assert (repeated.route.source, repeated.route.group) == ("metaserver", "dynamiccontroller")
    assert (repeated.route.resource, repeated.route.operation) == ("watchapp/sync", "null")
    follow(bee, POLICIES)  # a message that is on its way does not change
    assert repeated.content_as(dict[str, Application]) == watches


def test_the_answer_to_repeated_watches_says_nothing_of_a_later_one() -> None:
    """edgemesh would take objects that the cloud has not sent yet for ones that do not exist."""

    class Mesh(Module):
        name: ClassVar[str] = ModuleName.EDGEMESH
        group: ClassVar[str] = Group.MESH

        @handles(None, FOLLOWED)
        def told(self, message: Message) -> None:
            """Note it."""
            followed.append(message.content_as(Target))

    followed = list[Target]()
    with Harness() as bee:
        bee.add(WatchAgent, "n1", ClientWatches())
        bee.add(Mesh)
        bee.start()
        follow(bee, SERVICES)
        link_is(bee, CLOUD_CONNECTED)
        *_, repeated = asked(bee)
        follow(bee, SLICES)
        (own,) = asked(bee)
        bee.hive.respond(repeated.reply(bee.clock, {}).with_route(operation=RESPONSE), ModuleName.EDGEHUB)
        bee.settle()
        assert followed == [SERVICES]
        approved = msgspec.structs.replace(own.content_as(Application), status=Progress.APPROVED)
        bee.hive.respond(own.reply(bee.clock, approved).with_route(operation=RESPONSE), ModuleName.EDGEHUB)
        bee.settle()
        assert followed == [SERVICES, SLICES]


def test_a_registered_node_repeats_them_too(bee: Harness) -> None:
    """A cloud forgets the watches of a node that registers, and a new node has watches before that."""
    bee.send(ModuleName.METASERVER, bee.message("node/registration", "connected", source="edged"))
    assert asked(bee) == []
    follow(bee, SERVICES)
    (watch,) = asked(bee)
    bee.send(ModuleName.METASERVER, bee.message("node/registration", "connected", source="edged"))
    (repeated,) = asked(bee)
    assert list(repeated.content_as(dict[str, Application])) == [watch.content_as(Application).id]


@pytest.mark.parametrize("target", [SERVICES, RULES])
@pytest.mark.parametrize("content", [{"ID": []}, "{", None, []])
def test_an_answer_that_cannot_be_read_costs_no_watch(bee: Harness, target: Target, content: Any) -> None:
    """Neither one to a watch, nor to a listing, nor to repeated watches: the next connection repeats them."""
    bee.answer(ModuleName.EDGEHUB, lambda one: one.reply(bee.clock, content).with_route(operation=RESPONSE))
    follow(bee, target)
    (first,) = asked(bee)
    for _ in range(2):
        link_is(bee, CLOUD_CONNECTED)
        (again,) = asked(bee)
        if target == SERVICES:
            assert list(again.content_as(dict[str, Application])) == [first.content_as(Application).id]
        else:
            assert target_of(again.content_as(Application)) == target


def test_a_restart_costs_no_watch(bee: Harness) -> None:
    """Clients do not read again for it. The definition of an optional kind may come later."""
    bee.expect_failures()
    follow(bee, SERVICES)
    follow(bee, RULES)
    watch, listing = asked(bee)
    bee.hive.send(ModuleName.METASERVER, bee.message(FOLLOW_RESOURCE, FOLLOW, "no target"))
    bee.run_for(10)
    assert bee.hive.restarts()[ModuleName.METASERVER] >= 1
    repeated, listed = asked(bee)[-2:]
    assert list(repeated.content_as(dict[str, Application])) == [watch.content_as(Application).id]
    assert target_of(listed.content_as(Application)) == target_of(listing.content_as(Application)) == RULES


@pytest.mark.parametrize("target", [SERVICES, RULES])
def test_a_node_watches_so_many_collections(bee: Harness, caplog: pytest.LogCaptureFixture, target: Target) -> None:
    """Those that the cloud need not have count, too."""
    for number in range(MOST):
        follow(bee, msgspec.structs.replace(target, namespace=f"n{number}"))
    assert len(asked(bee)) == MOST_NAMESPACED
    assert "watch all namespaces" in caplog.text
    for number in range(MOST):
        follow(bee, Target("", "v1", f"kind{number}"))
    assert len(asked(bee)) == MOST - MOST_NAMESPACED


def test_collections_of_all_namespaces_take_no_place_of_single_ones(bee: Harness) -> None:
    for number in range(MOST - MOST_NAMESPACED + 1):
        follow(bee, Target("", "v1", f"kind{number}"))
    for number in range(MOST):
        follow(bee, msgspec.structs.replace(SERVICES, namespace=f"n{number}"))
    assert len(asked(bee)) == MOST


@pytest.mark.parametrize("repeats", [False, True])
def test_a_refusal_is_reported(bee: Harness, caplog: pytest.LogCaptureFixture, *, repeats: bool) -> None:
    """By the answer, or by being among the failed ones; the watch is tried again with the next connection."""

    def answer(message: Message) -> Message:
        apps: Any = message.content_as(dict[str, Application]) if repeated(message) else message.content_as(Application)
        refused = apps if repeated(message) else Application(key=apps.key, verb="watch", status=progress, reason="no")
        return message.reply(bee.clock, refused).with_route(operation="applicationResponse")

    progress = Progress.APPROVED if repeats else Progress.REJECTED
    bee.answer(ModuleName.EDGEHUB, answer)
    follow(bee, SERVICES)
    if repeats:
        link_is(bee, CLOUD_CONNECTED)
    why = "it did not say why" if repeats else "no"
    assert f"the cloud refuses the watch of /core/v1/services/null/null: {why}\n" in caplog.text


def repeated(message: Message) -> bool:
    """Whether a message has all watches."""
    return message.route.resource == "watchapp/sync"


def test_without_an_answer_nothing_is_lost(bee: Harness) -> None:
    """The watch is repeated with the next connection."""
    follow(bee, SERVICES)
    bee.run_for(11.0)
    bee.forget()
    link_is(bee, CLOUD_CONNECTED)
    assert len(asked(bee)) == 1


@pytest.mark.parametrize("code", [0, 503, 403])
def test_a_cloud_that_cannot_serve_a_watch_yet_is_asked_again(bee: Harness, code: int) -> None:
    """A connection may last for weeks. It is silent (0) as a cloud that has just started, or without its API server;
    a refusal for good is not repeated.
    """
    codes = [code, code, 200] if code else [0, 0, 200]

    def answer(message: Message) -> Message | None:
        found = codes.pop(0) if codes else 200
        if not found:
            return None
        error = StatusError({"kind": "Status", "code": found, "message": "of this test"})
        status = Progress.APPROVED if found == 200 else Progress.REJECTED
        if repeated(message):
            apps = message.content_as(dict[str, Application])
            failed = (
                {} if found == 200 else {name: msgspec.structs.replace(app, error=error) for name, app in apps.items()}
            )
            return message.reply(bee.clock, failed).with_route(operation=RESPONSE)
        app = msgspec.structs.replace(message.content_as(Application), status=status, error=error)
        return message.reply(bee.clock, app).with_route(operation=RESPONSE)

    bee.answer(ModuleName.EDGEHUB, answer)
    follow(bee, SERVICES)
    bee.run_for(29.0)
    assert len(asked(bee)) == 1
    bee.run_for(3600.0)
    assert sum(map(repeated, asked(bee))) == (0 if code == 403 else 2)


def test_the_attempts_end_with_the_connection(bee: Harness) -> None:
    link_is(bee, CLOUD_CONNECTED)
    follow(bee, SERVICES)
    bee.run_for(11.0)
    link_is(bee, CLOUD_DISCONNECTED)
    bee.forget()
    bee.run_for(3600.0)
    assert asked(bee) == []


def test_a_silent_cloud_is_asked_each_hour_at_least(bee: Harness) -> None:
    link_is(bee, CLOUD_CONNECTED)
    follow(bee, SERVICES)
    bee.run_for(10 * 86_400.0)
    assert len(asked(bee)) >= 10 * 24


def test_a_new_connection_is_asked_again_as_early_as_the_first(bee: Harness) -> None:
    """However long the cloud before it was silent, which is asked ever later: this one may be another."""
    link_is(bee, CLOUD_CONNECTED)
    follow(bee, SERVICES)
    bee.run_for(3600.0)
    assert len(asked(bee)) == 7
    for state in (CLOUD_DISCONNECTED, CLOUD_CONNECTED):
        link_is(bee, state)
    asked(bee)
    bee.run_for(41.0)  # 10 s for the answer, and 30
    assert len(asked(bee)) == 1


class _Mesh(Module):
    """edgemesh, as a receiver of messages."""

    name = "edgemesh"
    group = "mesh"
    followed: ClassVar[list[str]] = []

    @handles(None, FOLLOWED)
    def take(self, message: Message) -> None:
        """Keep what the cloud sends."""
        self.followed.append(message.content_as(Target).plural)


def test_edgemesh_learns_which_collections_the_cloud_sends(caplog: pytest.LogCaptureFixture) -> None:
    """Once it has agreed, and again after each connection. Istio's kinds may be missing, without a warning: they are
    watched only where the cloud lists them, because KubeEdge's cloudcore exits when a node watches a kind that its API
    server does not serve.
    """
    _Mesh.followed.clear()
    with Harness() as bee:
        bee.add(WatchAgent, "n1")
        bee.add(_Mesh)
        cloud = _Cloud(bee)
        bee.answer(ModuleName.EDGEHUB, cloud.answer)
        bee.start()
        follow(bee, SERVICES)
        follow(bee, RULES)
        listed = len(bee.sent_to(ModuleName.EDGEHUB))
        follow(bee, RULES)
        assert len(bee.sent_to(ModuleName.EDGEHUB)) == listed, "once"
        assert (cloud.watched, _Mesh.followed) == (["services"], ["services"])
        assert not [each for each in caplog.records if each.levelname == "WARNING"]
        link_is(bee, CLOUD_CONNECTED)
        assert (cloud.watched, _Mesh.followed) == (["services"] * 2, ["services"] * 2)
        cloud.has_istio = True
        for _ in range(2):
            cloud.watched.clear()
            link_is(bee, CLOUD_CONNECTED)
            assert cloud.watched == ["services", "destinationrules"]
        assert _Mesh.followed[-2:] == ["services", "destinationrules"]


def test_edgemesh_is_not_told_of_a_watch_that_a_new_connection_refuses() -> None:
    _Mesh.followed.clear()
    with Harness() as bee:
        bee.add(WatchAgent, "n1")
        bee.add(_Mesh)

        def answer(message: Message) -> Message:
            content: Any = message.content_as(dict[str, Application]) if repeated(message) else {}
            if not repeated(message):
                content = msgspec.structs.replace(message.content_as(Application), status=Progress.APPROVED)
            return message.reply(bee.clock, content).with_route(operation="applicationResponse")

        bee.answer(ModuleName.EDGEHUB, answer)
        bee.start()
        follow(bee, SERVICES)
        link_is(bee, CLOUD_CONNECTED)
        assert _Mesh.followed == ["services"]


class _Cloud:
    """A cloud that may serve Istio's kinds, and of which nobody watches a kind that it does not serve."""

    def __init__(self, bee: Harness) -> None:
        self._bee = bee
        self.has_istio = False
        self.watched: list[str] = []

    def answer(self, request: Message) -> Message:
        """Answer a list or a watch, or all watches."""
        is_sync = repeated(request)
        apps = request.content_as(dict[str, Application]) if is_sync else {"": request.content_as(Application)}
        content: Any = {}
        for app in apps.values():
            is_served = self.has_istio or "istio" not in app.key
            if app.verb == "watch":
                assert is_served, "KubeEdge's cloudcore exits here"
                self.watched.append(app.key.split("/")[3])
            else:
                assert app.option == b'{"limit":1}'
            if not is_sync:
                content = msgspec.structs.replace(app, status=Progress.APPROVED if is_served else Progress.REJECTED)
        return request.reply(self._bee.clock, content).with_route(operation="applicationResponse")
