"""Longer texts, amounts, the terminal's background."""

import pytest

from modules.processes.edgecore.top.amounts import bar, gibibytes, kilobytes, mebibytes, millicores, percent
from modules.processes.edgecore.top.background import light_colour
from modules.processes.edgecore.top.texts import containers_of, events_table, yaml_of
from tests.modules.processes.edgecore.top.made import NOW, moment, pod, running

GIB = 1 << 30


def test_amounts() -> None:
    assert [millicores(each) for each in (None, 0, 12_400_000, 2_000_000_000)] == ["-", "0m", "12m", "2000m"]
    assert [mebibytes(each) for each in (None, 0, 34 << 20, 12 * GIB)] == ["-", "0Mi", "34Mi", "12.0Gi"]
    assert [gibibytes(each) for each in (5 << 20, 3.25 * GIB, 250 * GIB)] == ["5Mi", "3.2Gi", "250Gi"]
    assert [kilobytes(each) for each in (999, 4_500, 1_200_000)] == ["999 B", "4.5 kB", "1.2 MB"]
    assert (percent(1, 0), percent(1, 3)) == ("?", "33%")


@pytest.mark.parametrize(
    ("part", "whole", "shown"),
    [(0, 10, "░░░░"), (0.01, 10, "█░░░"), (5, 10, "██░░"), (10, 10, "████"), (99, 10, "████"), (1, 0, "░░░░")],
)
def test_bar(part: float, whole: float, shown: str) -> None:
    """What is used at all is seen; it never has another width."""
    assert bar(part, whole, 4) == shown


def test_containers_in_the_order_that_a_reader_wants() -> None:
    made = pod("p", running("app"), running("beside"))
    made["spec"]["initContainers"] = [{"name": "first"}]
    assert containers_of(made) == ["app", "beside", "first"]
    assert containers_of({}) == []


def test_yaml() -> None:
    assert yaml_of({"metadata": {"name": "web"}, "spec": {}}) == "metadata:\n  name: web\nspec: {}\n"


def test_events() -> None:
    events = [
        {"type": "Warning", "reason": "BackOff", "message": "Back-off\x1b[2J", "lastTimestamp": moment(5),
         "involvedObject": {"kind": "Pod", "name": "p"}},
        {"type": "Normal", "reason": "Pulled", "message": "there", "lastTimestamp": moment(60),
         "involvedObject": {"kind": "Pod", "name": "p"}},
    ]  # fmt: skip
    lines = events_table(events, NOW).splitlines()
    assert [line.split()[:3] for line in lines[1:]] == [["60s", "Normal", "Pulled"], ["5s", "Warning", "BackOff"]]
    assert "Back-off\\x1b[2J" in lines[2]
    assert events_table([], NOW) == "no events"


@pytest.mark.parametrize(
    ("answer", "light"),
    [
        (b"\x1b]11;rgb:ffff/ffff/ffff\x1b\\\x1b[?62;22c", True),
        (b"\x1b]11;rgb:fd/f6/e3\x07\x1b[?1;2c", True),
        (b"\x1b]11;rgb:0000/2b2b/3636\x1b\\", False),
        (b"\x1b[?62;22c", False),
        (b"", False),
    ],
)
def test_the_terminals_background(answer: bytes, light: bool) -> None:
    """A terminal that does not say is dark."""
    assert light_colour(answer) is light
