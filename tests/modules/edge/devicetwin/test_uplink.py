"""What the cloud's answers to values mean, and what becomes of the values."""

from typing import Any

import pytest

from beehive import Message
from beehive.message import Route
from modules.edge.devicetwin.state import Device, Side, Twin, moved_after, state_confirmed
from modules.edge.devicetwin.uplink import verdict_of


@pytest.mark.parametrize(
    ("operation", "content", "taken", "final"),
    [
        ("response", "OK", True, True),
        ("response", "no", False, False),
        ("response", {"code": 200}, True, True),
        ("response", {"code": 299}, True, True),
        ("response", {"code": 300}, False, False),
        ("error", {"code": 404}, False, True),
        ("error", {"code": 408}, False, False),
        ("error", {"code": 429}, False, False),
        ("error", {"code": 500}, False, False),
        ("error", {"code": 409}, False, True),
        ("error", "away", False, False),
        ("error", {}, False, False),
    ],
)
def test_which_refusals_are_final(operation: str, content: Any, taken: bool, final: bool) -> None:
    """A value that is refused for good is not sent again; 429 asks to send it later."""
    verdict = verdict_of(Message(route=Route("devicecontroller", "twin", "device/d", operation), content=content))
    assert (verdict.taken, verdict.final) == (taken, final)


@pytest.mark.parametrize("code", [200, 404, 409, 500])
def test_only_a_conflict_has_later_times(code: int) -> None:
    """A value that the cloud refuses for another reason keeps its time."""
    content = {"code": code, "twin": {"t": {"actual": {"metadata": {"timestamp": 9}}}}}
    verdict = verdict_of(Message(route=Route("devicecontroller", "twin", "device/d", "response"), content=content))
    assert verdict.later == ({"t": {"actual": 9}} if code == 409 else None)


@pytest.mark.parametrize(("time", "is_one"), [(1, True), (2**53 - 1, True), (2**53, False), (0, False), (True, False)])
def test_which_numbers_are_times(time: int, *, is_one: bool) -> None:
    """Others would move the values of a device for ever."""
    content = {"code": 409, "twin": {"t": {"actual": {"metadata": {"timestamp": time}}}}}
    verdict = verdict_of(Message(route=Route("devicecontroller", "twin", "device/d", "response"), content=content))
    assert bool(verdict.later) is is_one


@pytest.mark.parametrize(("later", "timestamp"), [(6, 7), (7, 8), (9, 10)])
def test_a_value_is_moved_behind_the_clouds(later: int, timestamp: int) -> None:
    """Also of an equal time, at which the cloud keeps its own."""
    device = Device("ns/d", twins={"t": Twin(Side("1"), Side("1", timestamp=7)), "u": Twin(Side("1"), Side("1"))})
    moved = moved_after(device, {"t": {"actual": later}, "u": {"expected": later}, "other": {"actual": later}}).twins
    times = [side and side.timestamp for twin in moved.values() for side in (twin.expected, twin.actual)]
    assert times == [0, timestamp, later + 1, 0], "and the other side is not"


@pytest.mark.parametrize(("number", "due"), [(2, 3), (3, 0)])
def test_an_answer_to_an_older_state_confirms_no_newer_one(number: int, due: int) -> None:
    assert state_confirmed(Device("ns/d", number=3, state_due=3), number).state_due == due
