"""The reading of the stored devices and models when the first mapper registers."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from beehive import BeehiveError, Message, ModuleName, RealClock
from metamanager.errors import CallError, NoAnswerError
from modules.edge.dmi import catalogue as catalogue_module
from modules.edge.dmi.catalogue import Catalogue, Key
from modules.edge.dmi.loading import CatalogueLoader
from modules.edge.dmi.objects import read_mapped_device, read_mapped_model
from tests.modules.edge.dmi.node import Json, device, model

Rows = list[bytes] | CallError


class FakeNode:
    """The store and the modules that a loader asks: each list is answered at once with what is given."""

    def __init__(self, *lists: Rows) -> None:
        self._lists = list(lists)
        self.happens: Callable[[], object] = lambda: None
        """Called before a list that cannot be read is answered."""

    def list_all(self, kind: str, *, then: Callable[[Rows], None]) -> None:
        """Answer a list."""
        found = self._lists.pop(0)
        if isinstance(found, CallError):
            self.happens()
        then(found)

    def message(self, resource: str, operation: str) -> Message:
        """Return a message of the module."""
        return Message.new(RealClock(), source="dmi", resource=resource, operation=operation, content={})

    def request(self, to: str, asked: Message, seconds: float, then: Callable[[Message | BeehiveError], None]) -> None:
        """Answer as devicetwin without desired values of the owner."""
        assert to == ModuleName.DEVICETWIN
        then(asked)


def row(obj: Json) -> bytes:
    return json.dumps({**obj, "metadata": {**obj["metadata"], "namespace": "ns"}}).encode()


def stored(name: str) -> Message:
    """Return the message that a model was stored."""
    content = json.loads(row(model(name)))
    resource = f"ns/devicemodel/{name}"
    return Message.new(RealClock(), source="twin", resource=resource, operation="insert", content=content)


def test_what_goes_after_a_reading_that_failed_is_not_told_at_the_next() -> None:
    """Changes are followed only from the reading on; those of the reading that failed may be old by then."""
    catalogue = Catalogue()
    read_in_part = [row(model("tm")), row(model("gone"))], NoAnswerError("busy")
    there: Any = FakeNode(*read_in_part, [row(model("tm"))], [row(device())])
    loader = CatalogueLoader(there, there, catalogue)
    made = stored("old")
    there.happens = lambda: loader.changed(made)
    ends: list[BeehiveError | None] = []
    loader.when_loaded(ends.append)
    loader.changed(made)
    loader.when_loaded(ends.append)
    assert [type(one) for one in ends] == [NoAnswerError, type(None)]
    assert list(catalogue.keys("demo")) == [Key("model", "ns/tm"), Key("device", "ns/thermo")]


@pytest.mark.parametrize("is_answered", [True, False])
def test_a_refusal_of_devicetwin_is_a_reading_that_failed(*, is_answered: bool) -> None:
    """It has no room while it reads its own devices, or does not answer. The next reading begins anew."""
    catalogue = Catalogue()
    rows = [row(model("tm"))], [row(device())]
    there: Any = FakeNode(*rows, *rows)
    loader = CatalogueLoader(there, there, catalogue)
    ends: list[BeehiveError | None] = []
    there.request = lambda _to, asked, _seconds, then: then(
        asked.error(RealClock(), "not read yet") if is_answered else BeehiveError("no answer in time")
    )
    loader.when_loaded(ends.append)
    del there.request
    loader.when_loaded(ends.append)
    assert [isinstance(end, BeehiveError) for end in ends] == [True, False]


def test_what_changes_during_a_reading_is_there_when_it_ends() -> None:
    """The mapper that has asked is told what there is then, and of later changes only."""
    catalogue = Catalogue()
    there: Any = FakeNode([row(model("tm"))], [row(device())])
    loader = CatalogueLoader(there, there, catalogue)
    there.request = lambda _to, asked, _seconds, then: (loader.changed(stored("later")), then(asked))
    seen: list[bool] = []
    loader.when_loaded(lambda _: seen.append(Key("model", "ns/later") in catalogue.keys("demo") and loader.is_loaded))
    assert seen == [True]


def test_a_cleared_catalogue_is_a_new_one() -> None:
    """Else a device would get what its owner wished before, or a model would look for devices that are gone."""
    catalogue = Catalogue()
    catalogue.put_model(read_mapped_model(row(model("tm"))))
    catalogue.put_device(read_mapped_device(row(device())))
    catalogue.put_desired("ns/thermo", {"limit": "5"})
    catalogue.clear()
    assert vars(catalogue) == vars(Catalogue())


def test_a_full_catalogue_takes_changes_and_nothing_new(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue_module, "MAX_OBJECTS", 1)
    catalogue = Catalogue()
    for name in ("tm", "more", "tm"):
        assert bool(catalogue.put_model(read_mapped_model(row(model(name))))) is (name == "tm")
    for name in ("thermo", "more", "thermo"):
        assert bool(catalogue.put_device(read_mapped_device(row(device(name))))) is (name == "thermo")


def test_of_what_changes_again_and_again_during_a_reading_the_last_is_kept() -> None:
    catalogue = Catalogue()
    there: Any = FakeNode([row(model("tm"))], [row(device())])
    loader = CatalogueLoader(there, there, catalogue)
    here, gone = stored("here"), stored("gone")

    def change(_to: str, asked: Message, _seconds: float, then: Callable[[Message | BeehiveError], None]) -> None:
        for _ in range(100):
            for message in (here, gone):
                loader.changed(message.with_route(operation="delete"))
                loader.changed(message)
        loader.changed(gone.with_route(operation="delete"))
        assert len(loader._held) == 4
        then(asked)

    there.request = change
    loader.when_loaded(lambda _: None)
    assert set(catalogue.keys("demo")) == {Key("model", "ns/tm"), Key("model", "ns/here"), Key("device", "ns/thermo")}
    assert not loader._held
