"""The first list of what a cloud sends only to nodes that watch it."""

import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from beehive.simulation import Simulation
from beehive.wakeup import Wakeup
from modules.apimachinery.application import Target, Verb
from modules.apimachinery.errors import ApiStatusError
from modules.edge.metaserver.first_lists import SECONDS, FirstLists
from modules.edge.metaserver.watch_cache import CacheKey, WatchCache
from tests.modules.edge.metaserver.objects import FIRST, obj, put, resource
from tests.support.failing import Failing, PlannedError

NAMESPACES = Target("", "v1", "namespaces")


class Cloud:
    """Answers lists in turn; before each answer something happens."""

    def __init__(self, *answers: bytes | ApiStatusError) -> None:
        self.simulation = Simulation(1)
        self.cache = WatchCache(FIRST)
        self.cache.load({})
        self.asked: list[Target] = []
        self.takes = 0.0
        """Seconds until the answer."""
        self.sends: list[dict[str, Any]] = []
        """Objects that the node has by then."""
        self._answers: Iterator[bytes | ApiStatusError] = iter(answers)
        self.lists = FirstLists(self.cache, self, self.simulation.clock)  # type: ignore[arg-type]

    def ask(self, target: Target, verb: Verb, option: bytes, *, seconds: float) -> bytes:
        """As `ApplicationAgent.ask`."""
        assert (verb, json.loads(option)["namesOnly"], seconds) == (Verb.LIST, True, SECONDS)
        self.asked.append(target)
        self.simulation.run_for(self.takes)
        put(self.cache, *self.sends)
        answer = next(self._answers)
        if isinstance(answer, ApiStatusError):
            raise answer
        return answer

    def read(self, name: str = "") -> None:
        """Read the namespaces, or one of them."""
        self.lists.await_objects(resource("namespaces"), Target("", "v1", "namespaces", name=name))


def names(*given: str) -> bytes:
    return json.dumps({"items": [{"metadata": {"name": name}} for name in given]}).encode()


def test_the_first_read_has_what_the_cloud_has_and_later_ones_do_not_ask() -> None:
    cloud = Cloud(names("a", "b"))
    cloud.sends = [obj(name, "", "Namespace") for name in "ab"]
    cloud.read("a")
    cloud.read()
    assert cloud.asked == [NAMESPACES]
    assert cloud.cache.get(CacheKey("namespace", "", "b"))


@pytest.mark.parametrize("other", [("pods", "ns"), ("configmaps", "other")])
def test_another_kind_or_namespace_is_asked_for(other: tuple[str, str]) -> None:
    cloud = Cloud(names(), names())
    for plural, namespace in (("configmaps", "ns"), other, ("configmaps", "ns")):
        cloud.lists.await_objects(resource(plural), Target("", "v1", plural, namespace))
    assert [(each.plural, each.namespace) for each in cloud.asked] == [("configmaps", "ns"), other]


def test_what_does_not_arrive_is_waited_for_no_longer_than_two_seconds_with_the_answer() -> None:
    cloud = Cloud(names("a"))
    cloud.takes = SECONDS
    for _ in range(2):
        cloud.read()
    assert cloud.cache.objects("namespace")[1] == []
    assert len(cloud.asked) == 1, "once"


def test_a_read_that_could_not_wait_was_not_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    cloud = Cloud(names("a"), names())
    monkeypatch.setattr(cloud.cache, "listening", Failing(0).call(cloud.cache.listening))
    with pytest.raises(PlannedError):
        cloud.read()
    cloud.read()
    assert len(cloud.asked) == 2


@pytest.mark.parametrize(("code", "at_once", "later"), [(503, 2, 2), (504, 1, 2), (403, 1, 1)])
def test_a_cloud_that_is_away_is_asked_again_a_silent_one_later_and_one_that_refuses_not(
    code: int, at_once: int, later: int
) -> None:
    """A slow cloud, or a connection that breaks, is no reason to take an empty list for the truth ever after."""
    cloud = Cloud(ApiStatusError(code, "no"), names())
    cloud.read()
    cloud.read()
    assert len(cloud.asked) == at_once
    assert cloud.asked[0] == NAMESPACES
    cloud.simulation.run_for(60.0)
    for _ in range(2):
        cloud.read()
    assert len(cloud.asked) == later


def test_an_answer_that_cannot_be_read_is_none() -> None:
    cloud = Cloud(b"[")
    cloud.read()
    cloud.read()
    assert len(cloud.asked) == 1


def test_a_wait_that_fails_listens_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    cloud = Cloud(names("a"))
    monkeypatch.setattr(cloud.cache, "get", Mock(side_effect=MemoryError))
    with pytest.raises(MemoryError):
        cloud.read()
    assert not cloud.cache._listeners


def test_only_so_many_collections_are_waited_for() -> None:
    cloud = Cloud(*[names()] * 100)
    for number in range(100):
        cloud.lists.await_objects(resource("services"), Target("", "v1", "services", namespace=f"ns-{number}"))
    assert len(cloud.asked) == 64


def test_it_waits_for_what_is_missing_and_for_news_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the end of its time; a notification that was seen is none any more."""
    cloud, waits, cleared = Cloud(names("a")), list[float](), list[Wakeup]()

    def poll(left: float) -> bool:
        waits.append(left)
        return len(waits) < 3

    def clear(wakeup: Wakeup) -> None:
        cleared.append(wakeup)

    cloud.simulation.run_for(7.0)
    cloud.takes = SECONDS - 0.5
    poller = SimpleNamespace(register=lambda *_: None, poll=poll)
    monkeypatch.setattr("modules.edge.metaserver.first_lists.select", SimpleNamespace(poll=lambda: poller, POLLIN=1))
    monkeypatch.setattr(Wakeup, "clear", clear)
    cloud.read()
    assert waits == [500.0] * 3
    assert len(cleared) == 2
