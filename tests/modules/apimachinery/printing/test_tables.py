"""Tables: columns, widths, colours, and nothing that steers a terminal."""

import os
from typing import Any

import pytest

from modules.apimachinery.printing.columns import Column, columns_of
from modules.apimachinery.printing.tables import TableOptions, TableWriter, aligned, layout

NOW = 1_795_139_690.0
CREATED = "2026-11-20T01:54:00Z"


def pod(name: str = "web", **labels: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default", "creationTimestamp": CREATED, "labels": labels}
    status = {"phase": "Running", "containerStatuses": [{"ready": True, "state": {"running": {}}}]}
    return {"kind": "Pod", "metadata": metadata, "spec": {"containers": [{}]}, "status": status}


def table(*objects: dict[str, Any], kind: str = "Pod", prefix: str = "", **options: Any) -> list[str]:
    made = layout(columns_of(kind), objects, NOW, TableOptions(**options), prefix)
    return aligned([made.head, *made.rows])


def test_tables_are_aligned() -> None:
    assert table(pod(), namespaces=True) == [
        "NAMESPACE   NAME   READY   STATUS    RESTARTS   AGE",
        "default     web    1/1     Running   0          50s",
    ]


def test_labels_are_columns() -> None:
    shown = table(pod(app="web", tier="front"), pod("db"), labels=True, label_columns=("example.org/app", "app"))
    assert [line.split()[5:] for line in shown] == [["APP", "APP", "LABELS"], ["web", "app=web,tier=front"], ["<none>"]]


def test_a_cell_without_a_value_is_empty() -> None:
    """As kubectl shows a field that a custom object lacks."""
    columns = [Column("Rate", lambda *_: None, type="integer"), Column("On", lambda *_: False, type="boolean")]
    assert [*layout(columns, [pod()], NOW, TableOptions()).rows] == [["", "false"]]


def test_names_with_their_kind() -> None:
    assert table(pod(), kinds=True, prefix="pod/")[1].startswith("pod/web   1/1")


def test_wide_tables_have_more_columns() -> None:
    assert len(table(pod(), wide=True)[0].split()) > len(table(pod())[0].split())


def test_widths_of_one_table_hold_for_later_rows(capsys: pytest.CaptureFixture[str]) -> None:
    """The rows of a watch are printed one by one."""
    writer = TableWriter("never")
    writer.write(["NAME", "AGE"], [["a-long-name", "1s"]])
    writer.write(["NAME", "AGE"], [["b", "2s"]], with_head=False)
    assert capsys.readouterr().out.splitlines()[-1] == "b             2s"


@pytest.mark.parametrize("kind", ["Pod", "Node", "Event", "Thing"])
def test_no_text_of_a_node_moves_the_readers_cursor(kind: str) -> None:
    """CVE-2021-25743 was the same in kubectl."""
    evil = "\x1b[2J\x1b]0;owned\x07\u202e\nroot   Ready"
    obj = {
        "metadata": {"name": evil, "labels": {f"node-role.kubernetes.io/{evil}": evil}},
        "message": evil,
        "status": {"phase": evil, "nodeInfo": {"kubeletVersion": evil}, "reason": evil},
    }
    (line,) = table(obj, kind=kind, wide=True, labels=True)[1:]
    assert line.isprintable()
    assert "\\x1b[2J" in line


class _Terminal:
    """Standard output, as if it were a terminal."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, columns: int = 40) -> None:
        monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
        monkeypatch.setattr("shutil.get_terminal_size", lambda *_, **__: os.terminal_size((columns, 24)))
        monkeypatch.delenv("NO_COLOR", raising=False)


HEAD = ["NAME", "STATUS", "MESSAGE"]
ROWS = [["a", "Running", "short"], ["b", "CrashLoopBackOff", "a message that is much too long for this terminal"]]


def test_in_a_pipe_rows_are_whole_and_plain(capsys: pytest.CaptureFixture[str]) -> None:
    TableWriter().write(HEAD, ROWS)
    assert capsys.readouterr().out.splitlines() == aligned([HEAD, *ROWS])


def test_on_a_terminal_messages_are_cut_to_its_width(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _Terminal(monkeypatch)
    TableWriter("never").write(HEAD, ROWS)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) == 40
    assert lines[2].endswith("…")
    assert lines[1].endswith("short")


def test_other_columns_are_never_cut(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    _Terminal(monkeypatch, columns=10)
    TableWriter("never").write(["NAME", "STATUS"], [["a-long-name", "CrashLoopBackOff"]])
    assert "a-long-name   CrashLoopBackOff" in capsys.readouterr().out


def test_without_cutting_messages_are_whole(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _Terminal(monkeypatch)
    TableWriter("never", cut=False).write(HEAD, ROWS)
    assert ROWS[1][2] in capsys.readouterr().out


def test_a_terminal_has_colours_that_leave_the_columns_where_they_are(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _Terminal(monkeypatch, columns=200)
    TableWriter().write(HEAD, ROWS)
    coloured = capsys.readouterr().out
    assert "\x1b[32mRunning\x1b[0m" in coloured
    assert "\x1b[31mCrashLoopBackOff\x1b[0m" in coloured
    plain = coloured
    for code in ("32", "31", "1", "0"):
        plain = plain.replace(f"\x1b[{code}m", "")
    assert plain.splitlines() == aligned([HEAD, *ROWS])


def test_no_color_is_heeded_unless_colours_are_demanded(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _Terminal(monkeypatch)
    monkeypatch.setenv("NO_COLOR", "1")
    TableWriter().write(HEAD, ROWS)
    assert "\x1b" not in capsys.readouterr().out
    TableWriter("always").write(HEAD, ROWS)
    assert "\x1b[32m" in capsys.readouterr().out


def test_a_pod_that_has_ended_needs_no_ready_container(capsys: pytest.CaptureFixture[str]) -> None:
    TableWriter("always").write(["READY", "STATUS"], [["0/1", "Completed"]], with_head=False)
    assert capsys.readouterr().out.startswith("0/1   ")


def test_the_colour_of_a_long_text_is_not_looked_for(capsys: pytest.CaptureFixture[str]) -> None:
    """A node's reason of 40 kB kept an administrator's `get pods` for two seconds, a longer one by the square."""
    reason = "Error" * 200_000 + " x"
    TableWriter("always").write(["STATUS"], [[reason]], with_head=False)
    assert capsys.readouterr().out == f"{reason}\n"


@pytest.mark.parametrize(
    ("title", "cell", "colour"),
    [
        ("READY", "1/2", "33"), ("READY", "2/2", ""), ("RESTARTS", "0", ""), ("RESTARTS", "3 (5m ago)", "33"),
        ("STATUS", "Completed", "2"), ("STATUS", "Init:0/2", "33"), ("STATUS", "Init:CrashLoopBackOff", "31"),
        ("STATUS", "Ready,SchedulingDisabled", "33"), ("STATUS", "NotReady", "33"), ("STATUS", "OOMKilled", "31"),
        ("TYPE", "Warning", "33"), ("NAME", "Running", ""),
    ],
)  # fmt: skip
def test_colours(title: str, cell: str, colour: str, capsys: pytest.CaptureFixture[str]) -> None:
    TableWriter("always").write([title], [[cell]], with_head=False)
    wanted = f"\x1b[{colour}m{cell}\x1b[0m" if colour else cell
    assert capsys.readouterr().out == f"{wanted}\n"
