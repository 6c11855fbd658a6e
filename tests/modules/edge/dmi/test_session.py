"""One mapper's session, in virtual time: when it is called, and what it is sent again."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock

import pytest

from beehive import Module
from beehive.testing import FakeContext
from edged.errors import PluginCallError
from modules.edge.dmi import session as session_module
from modules.edge.dmi.catalogue import Catalogue
from modules.edge.dmi.counters import DmiCounters
from modules.edge.dmi.mappers import MapperRow
from modules.edge.dmi.objects import read_mapped_device, read_mapped_model
from modules.edge.dmi.registered_mappers import RegisteredMappers
from modules.edge.dmi.session import FIRST_DELAY, REGISTRATION_SECONDS, SETTLE_SECONDS, MapperSession
from modules.edge.dmi.settings import DmiSettings
from tests.modules.edge.dmi.node import device, model

ROW = MapperRow("mapper", protocol="demo", address=b"/mapper.sock")
ALL = ["CreateDeviceModel", "UpdateDevice"]


class Mapper:
    """A mapper's process and its socket."""

    def __init__(self) -> None:
        self.stamp = 1
        """Of the socket."""
        self.is_up = True
        self.calls: list[str] = []
        self.behave: Callable[[], str] = lambda: ""
        """Return the code of the failure of a call, empty for none."""


class Channel:
    """In the place of `PluginSocket`: connected to the process that had the socket then."""

    def __init__(self, mapper: Mapper) -> None:
        self._mapper = mapper
        self._stamp = mapper.stamp

    def call(self, method: str, *_: Any) -> None:
        """Call the process."""
        name = method.rpartition("/")[2]
        self._mapper.calls.append(name)
        is_there = self._mapper.is_up and self._stamp == self._mapper.stamp
        code = self._mapper.behave() if is_there else "UNAVAILABLE"
        if code:
            raise PluginCallError(name, "mapper", code, "as the test has it")

    def close(self) -> None:
        """Do nothing."""


class Node:
    """A node with one model, one device, and their mapper."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.mapper = Mapper()
        patch.setattr(session_module, "_stamp", lambda _: (self.mapper.stamp, 0))
        patch.setattr(session_module, "is_served", lambda _: self.mapper.is_up)
        patch.setattr(session_module, "PluginSocket", lambda _: Channel(self.mapper))
        self.catalogue = Catalogue()
        self.catalogue.put_model(read_mapped_model(_text(model())))
        self.catalogue.put_device(read_mapped_device(_text(device())))
        self.context = FakeContext()
        self.judged: list[tuple[str, str]] = []
        self.session = MapperSession(
            cast("Module", self.context), ROW, self.catalogue, lambda *device: self.judged.append(device)
        )

    def calls(self, seconds: float = 5.0) -> list[str]:
        """Let time pass, and return the new calls."""
        self.context.simulation.run_for(seconds)
        made, self.mapper.calls = self.mapper.calls, []
        return made

    def look(self) -> float:
        """Let the session look at the socket, and return for how long it has then been lost."""
        self.session.check_socket()
        self.context.simulation.run_for(0.1)
        return self.session.lost_for(self.context.clock.monotonic())

    def change(self, desired: str) -> None:
        """Change the device."""
        marks = self.catalogue.put_device(read_mapped_device(_text(device(desired=desired))))
        self.session.mark(mark.key for mark in marks)


def _text(obj: dict[str, Any]) -> bytes:
    return json.dumps({**obj, "metadata": {"namespace": "ns", **obj["metadata"]}}).encode()


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Node:
    return Node(monkeypatch)


def test_a_registered_mapper_has_time_to_open_its_socket(node: Node) -> None:
    node.session.register(ROW, with_data=False)
    assert node.calls(SETTLE_SECONDS * 0.9) == []
    assert node.calls(SETTLE_SECONDS * 0.2) == ALL


def test_objects_beyond_the_answers_size_are_sent_by_calls(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module, "MOST_BYTES", 200)
    answer = node.session.register(ROW, with_data=True)
    assert (len(answer.modelList), len(answer.deviceList)) == (1, 0)
    assert node.calls() == ["UpdateDevice"]


def test_of_many_parts_that_are_left_out_some_are_logged(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    """Hundreds of thousands fit into a Device, and would hold up all mappers."""
    changed = device()
    changed["spec"]["properties"][0]["visitors"]["configData"] = {f"key{number}": [] for number in range(1000)}
    node.catalogue.put_device(read_mapped_device(_text(changed)))
    node.session.register(ROW, with_data=True)
    assert len(caplog.messages) == 11
    assert caplog.messages[-1] == "ns/thermo: 990 further parts are left out"


def test_an_answer_that_takes_too_long_is_cut_short(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module, "MOST_SECONDS", -1.0)
    assert node.session.register(ROW, with_data=True).ByteSize() == 0
    assert node.calls() == ALL


def test_the_end_of_a_call_to_the_earlier_process_changes_nothing(node: Node) -> None:
    """The mapper registers during a call to it, and gets everything in the answer; the object of the call again."""

    def registers() -> str:
        node.mapper.behave = lambda: ""
        node.session.register(ROW, with_data=True)
        return "CANCELLED"

    node.mapper.behave = registers
    node.session.begin()
    assert node.calls() == ["CreateDeviceModel", "UpdateDeviceModel"]


@pytest.mark.parametrize(
    ("seconds", "again"),
    [(REGISTRATION_SECONDS - 1, ["UpdateDeviceModel", "UpdateDevice"]), (REGISTRATION_SECONDS, [])],
)
def test_what_a_waiting_mapper_was_called_with_is_sent_again(node: Node, seconds: float, again: list[str]) -> None:
    """It keeps the object of a call that came while it waited for the answer, for it may be newer than the answer."""
    node.session.begin()
    assert node.calls(seconds) == ALL
    node.catalogue.put_device(read_mapped_device(_text(device(desired="true"))))
    node.session.register(ROW, with_data=True)
    assert node.calls() == again


def test_what_no_mapper_took_is_in_the_answer_only(node: Node) -> None:
    node.mapper.is_up = False
    node.session.begin()
    assert node.calls(0.1) == ["CreateDeviceModel"]
    node.mapper.is_up = True
    node.session.register(ROW, with_data=True)
    assert node.calls() == []


@pytest.mark.parametrize(("code", "why"), [("UNKNOWN", "as the test has it"), ("DEADLINE_EXCEEDED", "")])
def test_a_device_that_is_refused_twice_is_refused(node: Node, code: str, why: str) -> None:
    """Some mappers refuse the first call; one that is busy refuses nothing."""
    node.session.register(ROW, with_data=True)
    node.calls()
    node.mapper.behave = lambda: code
    node.change("true")
    assert node.calls(0.2) == ["UpdateDevice", "RegisterDevice"]
    assert node.judged == ([("ns/thermo", why)] if why else [])
    node.mapper.behave = lambda: ""
    node.calls(100.0)
    assert node.judged[-1] == ("ns/thermo", "")


def test_a_closed_session_makes_no_call(node: Node) -> None:
    """Not even the one that the calling actor has not begun."""
    node.session.begin()
    node.session.close()
    assert node.calls() == []


def test_a_removed_device_that_the_mapper_lacks_is_removed(node: Node) -> None:
    node.session.register(ROW, with_data=True)
    node.mapper.behave = lambda: "NOT_FOUND"
    node.session.mark(mark.key for mark in node.catalogue.remove_device("ns/thermo"))
    assert node.calls() == ["RemoveDevice"]


def test_a_mapper_that_was_away_gets_everything_again(node: Node) -> None:
    node.session.register(ROW, with_data=True)
    node.calls()
    node.mapper.is_up = False
    node.change("true")
    assert set(node.calls(0.1)) == {"UpdateDevice"}
    node.mapper.is_up = True
    assert node.calls() == ALL


def test_a_new_process_is_called_on_its_new_socket(node: Node) -> None:
    node.session.begin()
    node.calls()
    node.mapper.stamp = 2
    node.look()
    assert node.calls() == ALL


def test_a_mapper_is_lost_until_it_listens_again(node: Node) -> None:
    node.look()
    node.mapper.is_up = False
    node.look()
    node.context.simulation.run_for(7.0)
    assert node.look() == pytest.approx(7.2, abs=0.2)
    node.mapper.is_up = True
    assert node.look() == 0.0


def test_a_mapper_that_takes_a_call_is_not_lost(node: Node) -> None:
    """Before the next look at its socket, which would end the state of its devices."""
    node.mapper.is_up = False
    assert node.look() > 0.0
    node.mapper.is_up = True
    node.session.begin()
    node.calls()
    assert node.session.lost_for(node.context.clock.monotonic()) == 0.0


def test_a_registration_forgets_that_the_mapper_was_away(node: Node) -> None:
    """It is not lost, nor looked at before it has opened its socket, and is soon called again after a failure."""
    node.mapper.is_up = False
    node.session.begin()
    node.calls(300.0)
    assert node.look() > 0.0
    node.session.register(ROW, with_data=False)
    assert node.session.lost_for(node.context.clock.monotonic()) == 0.0
    assert node.look() == 0.0
    assert len(node.calls(SETTLE_SECONDS + FIRST_DELAY)) == 2


def test_a_registration_during_a_look_at_the_socket_ends_no_later_look(node: Node) -> None:
    node.session.check_socket()
    node.session.register(ROW, with_data=True)
    node.calls()
    node.mapper.is_up = False
    node.look()
    assert node.look() > 0.0


def _away_for_long(node: Node) -> None:
    node.session.begin()
    node.calls()
    node.mapper.is_up = False
    node.change("true")
    assert len(node.calls(1000.0)) > 10


def test_a_mapper_that_was_away_for_long_is_called_soon_the_next_time(node: Node) -> None:
    _away_for_long(node)
    node.mapper.is_up = True
    node.calls(100.0)
    node.mapper.is_up = False
    node.change("false")
    assert len(node.calls(2 * FIRST_DELAY)) > 1


def test_a_new_socket_of_a_mapper_that_was_away_for_long_is_called_soon(node: Node) -> None:
    _away_for_long(node)
    node.mapper.stamp, node.mapper.is_up = 2, True
    node.look()
    assert node.calls(2 * SETTLE_SECONDS)


def test_the_last_events_of_mappers_are_sent_at_the_end() -> None:
    """Those of the last second wait for others."""
    made = RegisteredMappers(Mock(), DmiSettings(Path("/absent"), "n1"), DmiCounters(), Mock())
    ended = Mock()
    made._events, made._sessions = ended.events, {"demo": ended.session}
    made.close()
    assert (ended.events.close.call_count, ended.session.close.call_count) == (1, 1)


def test_a_device_that_a_mapper_takes_again_is_told_once() -> None:
    made = RegisteredMappers(Mock(), DmiSettings(Path("/absent"), "n1"), DmiCounters(), Mock())
    reporter = made._reporter = Mock()
    made._catalogue = Mock(patience=lambda _: 60.0)
    for why in ("no such register", "", ""):
        made._judge_device("ns/d", why)
    assert reporter.set_state.call_count == 2


def test_a_device_that_is_made_again_and_refused_again_is_told_again() -> None:
    """Nothing is kept of devices that are gone: the new one would seem to be well."""
    made = RegisteredMappers(Mock(), DmiSettings(Path("/absent"), "n1"), DmiCounters(), Mock())
    reporter = made._reporter = Mock()
    for _ in range(2):
        made._judge_device("ns/d", "no such register")
        made.watch()
    assert reporter.set_state.call_count == 2


@pytest.mark.parametrize("other", [("second", "stored"), ("first", "NOT_FOUND")])
def test_calls_are_counted_by_mapper_and_result(other: tuple[str, str]) -> None:
    counters = DmiCounters()
    for each in (("first", "stored"), other, other):
        counters.count(*each)
    assert counters.reports == {("first", "stored"): 1, other: 2}
