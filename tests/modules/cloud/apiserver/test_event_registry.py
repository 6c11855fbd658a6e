"""The Events that are kept, and those that make room."""

from collections.abc import Iterator

import pytest

from beehive.simulation import Simulation
from modules.apimachinery.kinds import JsonObject, Kind, kind_named
from modules.cloud.apiserver.event_registry import EventRegistry
from modules.cloud.storage.object_storage import Storage

EVENT = kind_named("Event")


@pytest.fixture
def storage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Storage]:
    """A storage that keeps twenty Events, and at times five more."""
    monkeypatch.setattr("modules.cloud.apiserver.event_registry._KEPT", 20)
    monkeypatch.setattr("modules.cloud.apiserver.event_registry._SURPLUS", 5)
    yield Storage(Simulation(1).clock)


def event(name: str, namespace: str, host: str = "", about: str = "p") -> JsonObject:
    """An Event of a reporter."""
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": {"kind": "Pod", "namespace": namespace, "name": about},
        "source": {"host": host} if host else {},
    }


def kept_in(storage: Storage, namespace: str) -> list[str]:
    """The names of a namespace's Events."""
    return [each["metadata"]["name"] for each in storage.list(EVENT, namespace)]


def test_made_up_reporters_push_out_no_events_of_another_namespace(storage: Storage) -> None:
    events = EventRegistry(storage)
    for number in range(4):
        events.keep(event(f"theirs-{number}", "shop", "n1"))
    for number in range(60):
        events.keep(event(f"made-up-{number}", "evil", f"host-{number}"))
    assert len(kept_in(storage, "shop")) == 4
    assert 20 <= storage.count(EVENT) <= 25
    assert "made-up-59" in kept_in(storage, "evil")


def test_a_node_that_names_no_reporter_pushes_out_events_about_its_own_pods(storage: Storage) -> None:
    events = EventRegistry(storage)
    for number in range(4):
        events.keep(event(f"theirs-{number}", "shop", about=f"web-{number}"))
    for number in range(60):
        events.keep(event(f"noise-{number}", "shop", about="of-the-node"))
    assert [name for name in kept_in(storage, "shop") if name.startswith("theirs")] == [
        f"theirs-{number}" for number in range(4)
    ]
    assert "noise-0" not in kept_in(storage, "shop")


def test_events_are_gone_through_once_for_many(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    """To go through a thousand for each Event would cost more than all else of a pod."""
    events, passes = EventRegistry(storage), 0
    whole = storage.list

    def counted(kind: Kind) -> list[JsonObject]:
        nonlocal passes
        passes += 1
        return whole(kind)

    monkeypatch.setattr(storage, "list", counted)
    for number in range(50):
        events.keep(event(f"e-{number}", "shop", "n1"))
    assert passes == 5
