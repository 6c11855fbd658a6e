"""`edgecore trace show`: a line for each record, filters, JSON, colour on a terminal, progress on long files."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from beehive.trace import (
    Change,
    CriCall,
    CriEvent,
    Delivered,
    Direction,
    LinkFrame,
    Note,
    Record,
    RecordedMessage,
    StoreCommit,
    TimerFired,
    TraceError,
    TraceHeader,
)
from beehive.trace.format import FORMAT
from beehive.trace.writer import FileWriter
from modules.processes.common.exit_codes import ExitCode
from modules.processes.edgecore import cli
from modules.processes.edgecore.trace import progress
from modules.processes.edgecore.trace_commands import show as show_command
from modules.processes.edgecore.trace_commands.selection import seconds_of

BEGAN = 1_800_000_000.0
"""15 January 2027, 08:00:00 UTC."""

POD = "default/pod/nginx"


def message(identity: str, operation: str, resource: str = POD, parent: str = "") -> RecordedMessage:
    """A message with a short content."""
    return RecordedMessage(
        identity, parent, 5, "", sync=False, type="", source="websocket", destination="", group="resource",
        operation=operation, resource=resource, content=b'{"kind":"Pod"}',
    )  # fmt: skip


def delivered(time: float, what: RecordedMessage, *, sender: str, module: str, **fields: Any) -> Delivered:
    """A delivery; `fields` replace the ordinary ones."""
    ordinary = {"way": "send", "outcome": "handled", "reason": "", "depth": 0, "waited": 0.0, "handled": 0.002}
    return Delivered(time, 3, 1, 1, sender, module, message=what, **{**ordinary, **fields})


FRAME = b'{"header":{"msg_id":"frame-1"},"route":{"operation":"insert","resource":"default/pod/nginx"},"content":{}}'
REQUEST = b'{"config":{"metadata":{"name":"app"}},"sandbox_config":{"metadata":{"name":"nginx","namespace":"default"}}}'

RECORDS: list[Record] = [
    LinkFrame(1.0, 1, 0, 1, Direction.IN, 1, 104, FRAME),
    delivered(1.5, message("aaaa-1", "insert"), sender="websocket/Runner", module="metamanager", waited=0.5, depth=3),
    StoreCommit(2.0, 4, 3, 1, "commit", 0.001, "", (Change("put", POD, "pod", b"{}"), Change("put", "x", "", b""))),
    delivered(2.5, message("bbbb-2", "response", POD, "aaaa-1"), sender="metamanager", module="edged", way="response"),
    CriCall(3.0, 5, 3, 1, "edged/worker-1", "create_container", REQUEST, b"", "RefusedError", "no such image", 1.25),
    CriEvent(3.5, 6, 0, 6, "changed", "uid-1", b"{}"),
    TimerFired(4.0, 7, 0, 7, "edged", "Edged._tick", 10.0, periodic=True, handled=0.001),
    delivered(4.5, message("cccc-3", "query", "default/configmap/c"), sender="edged", module="metamanager",
              outcome="dead", reason="no handler"),
    Note(5.0, 0, 0, 0, "link", "websocket", "up", 1),
]  # fmt: skip


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """A trace with one record of each kind, and some messages."""
    path = tmp_path / "run.trace"
    writer = FileWriter(path, TraceHeader(FORMAT, "edgecore 1", "node", BEGAN, prefix=9))
    writer.write(RECORDS)
    writer.close()
    return path


def shown(trace: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    """The lines that the command prints."""
    assert cli.main(["trace", "show", str(trace), *arguments]) == ExitCode.OK
    return capsys.readouterr().out.splitlines()


def test_one_line_each_with_time_who_whom_what_and_how(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [" ".join(line.split()) for line in shown(trace, capsys)]
    assert lines == [
        f"08:00:01.000000 cloud → websocket insert {POD} frame-1 104 bytes",
        f"08:00:01.500000 websocket/Runner → metamanager insert {POD} aaaa-1 2.00 ms after 500.00 ms behind 3",
        f"08:00:02.000000 metamanager → store commit put {POD} and 1 more 1.00 ms",
        f"08:00:02.500000 metamanager → edged response {POD} bbbb-2 answers aaaa-1",
        f"08:00:03.000000 edged/worker-1 → runtime create_container {POD}/app 1.250 s RefusedError: no such image",
        "08:00:03.500000 runtime → edged changed uid-1",
        "08:00:04.000000 edged timer Edged._tick every 10 s 1.00 ms",
        "08:00:04.500000 edged → metamanager query default/configmap/c cccc-3 2.00 ms DEAD: no handler",
        "08:00:05.000000 websocket link up",
    ]


@pytest.mark.parametrize(
    ("arguments", "numbers"),
    [
        ("--module metamanager", (1, 2, 3, 7)),
        ("--module edged", (3, 4, 5, 6, 7)),
        ("--module cloud", (0,)),
        ("--module runtime", (4, 5)),
        (f"--resource {POD}", (0, 1, 2, 3, 4)),
        ("--resource default/*map/*", (7,)),
        ("--resource nginx --operation insert", (0, 1)),
        ("--operation create_container", (4,)),
        ("--id aaaa", (1, 3)),
        ("--id frame-1", (0,)),
        ("--from 2.5 --to 3.5", (3, 4, 5)),
        ("--from 08:00:04", (6, 7, 8)),
        ("--to 2027-01-15T08:00:01Z", (0,)),
        ("--only timers --only notes", (6, 8)),
        ("--only cri --module nobody", ()),
    ],
)
def test_filters(trace: Path, capsys: pytest.CaptureFixture[str], arguments: str, numbers: tuple[int, ...]) -> None:
    """Each narrows; several must all agree."""
    everything = shown(trace, capsys)
    assert shown(trace, capsys, *arguments.split()) == [everything[number] for number in numbers]


def test_json_has_everything_with_contents_as_values(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    objects = [json.loads(line) for line in shown(trace, capsys, "--json")]
    assert [each["record"] for each in objects] == [
        "frames", "messages", "commits", "messages", "cri", "events", "timers", "messages", "notes",
    ]  # fmt: skip
    sent = objects[1]
    assert (sent["at"], sent["sender"], sent["module"]) == (
        "2027-01-15T08:00:01.500000Z", "websocket/Runner", "metamanager",
    )  # fmt: skip
    assert sent["message"]["content"] == {"kind": "Pod"}
    assert sent["traceparent"] == f"00-{9:016x}{1:016x}-{1:016x}-01"
    assert objects[4]["request"]["config"]["metadata"]["name"] == "app"
    assert objects[2]["changes"][0]["key"] == POD


def test_colour_only_where_it_is_wanted(
    trace: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "\x1b" not in "".join(shown(trace, capsys))
    painted = shown(trace, capsys, "--color", "always")
    assert all("\x1b[" in line for line in painted)
    assert "\x1b[31m" in painted[4]
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert show_command._colour("auto")
    monkeypatch.setenv("NO_COLOR", "1")
    assert not show_command._colour("auto")


def test_progress_on_a_terminal_when_the_file_is_long(
    trace: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    shown(trace, capsys)
    assert terminal.getvalue() == ""
    monkeypatch.setattr(progress, "LONG", 0)
    monkeypatch.setattr(progress, "_STEP", 2)
    shown(trace, capsys, "--only", "notes")
    assert "MB (" in terminal.getvalue()
    assert terminal.getvalue().endswith("\x1b[K")


def test_a_trace_that_ends_early_is_marked(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace.write_bytes(trace.read_bytes()[:-5])
    assert cli.main(["trace", "show", str(trace)]) == ExitCode.OK
    captured = capsys.readouterr()
    assert len(captured.out.splitlines()) == len(RECORDS) - 1
    assert "ends early" in captured.err


def test_a_wrong_time_is_refused_with_the_right_form(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["trace", "show", str(trace), "--from", "noon"]) == ExitCode.USAGE
    assert "HH:MM:SS" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("12.5", 12.5), ("08:00:01.5", 1.5), ("07:59:59", 86399.0), ("2027-01-15T09:00:00+01:00", 0.0)],
)
def test_times(text: str, seconds: float) -> None:
    """Since the beginning; a time of day is the next one; a date has its zone, or UTC."""
    assert seconds_of(text, BEGAN) == seconds


def test_no_time() -> None:
    with pytest.raises(TraceError):
        seconds_of("25:00", BEGAN)
