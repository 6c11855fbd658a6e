"""A watch, in virtual time."""

import json
import select
from collections.abc import Callable
from typing import Any

import pytest

from beehive.simulation import Simulation
from modules.apimachinery.object_encoder import ObjectEncoder
from modules.apimachinery.options import ReadOptions
from modules.edge.metaserver import watching
from modules.edge.metaserver.watch_cache import CacheChange, WatchCache
from modules.edge.metaserver.watching import BOOKMARK_SECONDS, Watcher
from tests.modules.edge.metaserver.objects import cache_of, obj, put, resource


class Client:
    """A client that goes after some waits, before each of which something happens."""

    def __init__(self, simulation: Simulation, waits: int, happens: Callable[[], object] = lambda: None) -> None:
        self._simulation = simulation
        self._waits = waits
        self._happens = happens

    def gone_within(self, seconds: float, wake: int | None = None) -> bool:
        self._happens()
        self._simulation.run_for(seconds)
        self._waits -= 1
        return self._waits < 0


def events(cache: WatchCache, client: Client, simulation: Simulation, **options: Any) -> list[tuple[str, str]]:
    """The events of a watch of the pods in `default`: types and names."""
    stream = Watcher(cache, simulation.clock).watch(resource(), "default", ReadOptions(watch=True, **options))
    lines = [json.loads(line) for piece in stream.pieces(client) for line in piece.splitlines()]
    return [(each["type"], each["object"]["metadata"].get("name", "")) for each in lines]


def test_the_ages_in_tables_are_of_the_wall_clock(simulation: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    began, times = simulation.clock.now(), list[float]()

    def encoder(*given: Any) -> ObjectEncoder:
        times.append(given[3])
        return ObjectEncoder(*given)

    monkeypatch.setattr(watching, "ObjectEncoder", encoder)
    assert events(cache_of(obj("a")), Client(simulation, 0), simulation) == [("ADDED", "a")]
    assert set(times) == {began}


@pytest.fixture
def simulation() -> Simulation:
    return Simulation(0)


def test_a_watch_of_a_namespace_has_no_changes_of_others(simulation: Simulation) -> None:
    cache = cache_of(obj("a"), obj("b", namespace="other"))

    def happens() -> None:
        put(cache, obj("a", spec={"x": 1}), obj("b", namespace="other", spec={"x": 1}))

    assert events(cache, Client(simulation, 1, happens), simulation) == [("ADDED", "a"), ("MODIFIED", "a")]


@pytest.mark.parametrize("revision", ["", "0"])
def test_a_watch_of_no_revision_begins_with_the_present_objects_unless_they_are_refused(
    simulation: Simulation, revision: str
) -> None:
    """And a client that takes bookmarks learns where they end."""
    cache = cache_of(obj("a"))
    watched = Watcher(cache, simulation.clock).watch(resource(), "", ReadOptions(revision=revision, bookmarks=True))
    added, mark = [json.loads(line) for piece in watched.pieces(Client(simulation, 0)) for line in piece.splitlines()]
    assert (added["type"], mark["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"]) == ("ADDED", "true")
    refusing = {"revision": revision, "initial_events": False}
    assert events(cache, Client(simulation, 1, lambda: put(cache, obj("b"))), simulation, **refusing) == [
        ("ADDED", "b")
    ]


def test_a_watch_that_fails_listens_no_more(simulation: Simulation) -> None:
    cache = cache_of(obj("a"))
    with pytest.raises(ZeroDivisionError):
        events(cache, Client(simulation, 1, lambda: 1 // 0), simulation)
    assert not cache._listeners


def test_a_bookmark_comes_each_minute_to_who_asks_for_it(simulation: Simulation) -> None:
    cache = cache_of(obj("a"))
    begun = simulation.clock.monotonic()
    found = events(cache, Client(simulation, 3), simulation, bookmarks=True)
    assert found == [("ADDED", "a"), *([("BOOKMARK", "")] * 4)]
    assert simulation.clock.monotonic() - begun == 4 * BOOKMARK_SECONDS
    assert events(cache, Client(simulation, 3), simulation) == [("ADDED", "a")]


class _Changing(WatchCache):
    """Has a change just after the first read of its changes."""

    reads = 0

    def since(self, revision: int, token: str) -> tuple[int, list[CacheChange]]:
        found = super().since(revision, token)
        self.reads += 1
        if self.reads == 1:
            put(self, obj("a"))
        return found


class _Woken(Client):
    """A client that goes as soon as nothing is to be read for it."""

    def gone_within(self, seconds: float, wake: int | None = None) -> bool:
        assert wake is not None
        return not select.select([wake], [], [], 0)[0]


def test_a_change_that_comes_after_the_read_wakes_the_watch(simulation: Simulation) -> None:
    assert events(_Changing(1), _Woken(simulation, 0), simulation) == [("ADDED", "a")]
