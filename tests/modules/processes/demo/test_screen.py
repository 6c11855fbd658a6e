"""The table in place on a terminal, lines in a pipe."""

import io
import re

import pytest

from modules.processes.demo.rows import Row
from modules.processes.demo.screen import Pipe, Screen, Terminal, screen_for

_ROW = Row("p", there=False, phase="Pending", ready="0/1", restarts=0, message="", age="1s")


class _Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("out", "term", "kind"), [(_Tty(), "xterm", Terminal), (_Tty(), "dumb", Pipe), (io.StringIO(), "xterm", Pipe)]
)
def test_choice(out: io.StringIO, term: str, kind: type[Screen], monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a terminal that can move its cursor gets a table in place."""
    monkeypatch.setenv("TERM", term)
    assert type(screen_for(out)) is kind


def test_a_pipe_gets_a_line_for_each_change_but_not_for_ages() -> None:
    """The same pod a second older is not worth a line; a pod that is not known yet neither."""
    out = io.StringIO()
    pipe = Pipe(out)
    for row in (_ROW._replace(phase="-"), _ROW, _ROW._replace(age="2s"), _ROW._replace(phase="Running", age="3s")):
        pipe.show([row])
    assert out.getvalue() == "p: Pending, 0/1 ready, 1s old\np: Running, 0/1 ready, 3s old\n"


def test_a_terminal_shows_the_table_once() -> None:
    """After any drawing and printing, the table is there once, in its last state, below all messages."""
    out = _Tty()
    terminal = Terminal(out)
    terminal.print_lines("hello")
    terminal.show([_ROW])
    terminal.print_lines("something", "happened")
    terminal.show([_ROW._replace(phase="Running", there=True)])
    lines = _seen(out.getvalue())
    assert lines[:3] == ["hello", "something", "happened"]
    assert lines[3].split()[:2] == ["NAME", "PHASE"]
    assert lines[4].split()[:3] == ["ok", "p", "Running"]
    assert len(lines) == 5


def test_a_terminal_colours_pods_in_their_wanted_state() -> None:
    """Green is the row that is there, not the other."""
    out = _Tty()
    Terminal(out).show([_ROW, _ROW._replace(name="q", there=True)])
    _, first, second = out.getvalue().splitlines()
    assert "\x1b[32m" not in first
    assert second.startswith("\x1b[32m")


def _seen(written: str) -> list[str]:
    """What a terminal shows after this, as far as the demo uses it: cursor up, erase below, colours."""
    lines = [""]
    row = 0
    for part in re.findall(r"\x1b\[\d*\w|\n|\r|[^\x1b\n\r]+", written):
        if part.startswith("\x1b["):
            if part.endswith("A"):
                row -= int(part[2:-1])
            elif part.endswith("J"):
                lines[row:] = [""]
        elif part == "\n":
            row += 1
            if row == len(lines):
                lines.append("")
        elif part != "\r":
            lines[row] += part
    return lines[:-1]
