"""The lines around the table."""

import pytest

from modules.processes.edgecore.top.header import gone_lines, header_lines, queue_line
from modules.processes.edgecore.top.look import Unreachable
from modules.processes.edgecore.top.spans import Tone, clipped_line, span, text_of
from modules.processes.edgecore.top.state import HeldMessages, LinkReport, ModuleReport, WorkReport
from tests.modules.processes.edgecore.top.made import NOW, READY, condition, look, pod, running


def test_a_node_that_is_well() -> None:
    lines = [text_of(line) for line in header_lines(look(pod("web", running())), 200)]
    assert lines == [
        "edgecore edge-1   ● Ready   up 3h12m   runtime embedded://0.1.0",
        "cloud ● connected 3h11m to cloud.example:10000",
        "cpu █░░░░░░░ 12% 480m of 4 cores   memory ███░░░░░ 39% 3.0Gi of 7.8Gi   disk ███░░░░░ 40% 40.0Gi of 100Gi   "
        "pods 1 of 110",
    ]


@pytest.mark.parametrize(("width", "found"), [(100, "cpu █░░░░░░░ 12%   memory"), (50, "cpu 12%   memory 39%   disk")])
def test_details_go_where_there_is_no_room(width: int, found: str) -> None:
    line = text_of(header_lines(look(), width)[2])
    assert line.startswith(found)
    assert len(line) <= width


def test_why_it_is_not_ready() -> None:
    conditions = (condition("Ready", "False", "KubeletNotReady", "the runtime\x1b[2J does not answer"),)
    line = header_lines(look(conditions=conditions), 80)[0]
    assert "● NotReady the runtime\\x1b[2J does not answer" in text_of(line)
    assert "starting" in text_of(header_lines(look(conditions=()), 80)[0])


@pytest.mark.parametrize(
    ("link", "said"),
    [
        (LinkReport(), "cloud none (edgehub is disabled)"),
        (LinkReport(enabled=True), "cloud ● not connected, trying now"),
        (
            LinkReport(enabled=True, lost_at=NOW - 60, failures=1, why="refused", next_try=3.6),
            "cloud ● not connected since 60s, 1 attempt failed, next try in 4 s: refused",
        ),
        (
            LinkReport(enabled=True, failures=12, why="no such host", next_try=0.2),
            "cloud ● not connected, 12 attempts failed, next try in 0 s: no such host",
        ),
    ],
)
def test_the_link(link: LinkReport, said: str) -> None:
    assert text_of(header_lines(look(link=link), 120)[1]) == said


def test_pressure_and_full_resources_are_bad() -> None:
    line = header_lines(look(conditions=(READY[0], condition("DiskPressure", "True", "full"))), 200)[2]
    assert "40.0Gi of 100Gi PRESSURE" in text_of(line)
    assert [each.tone for each in line if "PRESSURE" in each.text] == [Tone.BAD]


def test_missing_measurements_are_not_made_up() -> None:
    """Nor does a malformed amount break the view."""
    shown = look(capacity={"cpu": "four", "memory": ""})._replace(usage=None, disk=None)
    assert text_of(header_lines(shown, 80)[2]) == "cpu ?   memory ?   pods 0"


def test_queues() -> None:
    modules = {"edged": ModuleReport("ready", inbox=7), "websocket": ModuleReport("ready")}
    held = {"state": HeldMessages(2, 10), "event": HeldMessages(0, 0)}
    shown = look(modules=modules, held=held, work=WorkReport(1, 2, {"a": 1.0}))
    assert (
        text_of(queue_line(shown, 200)) == "inbox edged 7 edgehub 0   queued 1   working 2   later 1   outbox state 2"
    )
    assert text_of(queue_line(look(work=None), 200)) == "inbox metamanager 0 edged 0 edgehub 0   outbox 0"
    usual = look(work=WorkReport(1, 2, {"a": 1.0}))
    assert len(text_of(queue_line(usual, 80))) <= 80


def test_a_node_that_is_away() -> None:
    gone = Unreachable("edgecore is not running")
    assert [text_of(line) for line in gone_lines(gone, 12.9, look())] == [
        "edgecore edge-1   edgecore is not running (since 12 s)",
        "what it last said is below; this view goes on when it is back",
        "",
    ]
    assert text_of(gone_lines(gone, 0, None)[0]) == "edgecore is not running (since 0 s)"


def test_lines_are_cut() -> None:
    line = (span("one", Tone.BAD), span(" two"))
    assert text_of(clipped_line(line, 5)) == "one …"
    assert clipped_line(line, 7) == line
