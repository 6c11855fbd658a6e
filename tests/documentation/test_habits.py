"""What people's fingers type is done, or refused with a line that helps: each row of habits.md is run."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.documentation.blocks import Block
from tests.documentation.session import reason_missing, run

PAGE: Final = Path(__file__).with_name("habits.md").read_text()

_ROW: Final = re.compile(r"^\| *(.*?) *\| `(.+)` \| (\d+) \| (?:`(.*)`)? *\|$", re.MULTILINE)
_SECTION: Final = re.compile(r"^## (.+?)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_ANSWER: Final = re.compile(r"^=row (\d+) (\d+)\n(.*?)^=end\n", re.MULTILINE | re.DOTALL)
_SILENT: Final = ("sh -c 'exit 3'",)
"""Ends of commands whose status says all."""

_START: Final = """\
cloudcore run >cloud.log 2>&1 &
edgecore run >node.log 2>&1 &
cloudcore apply -f examples/greeter.yaml -f examples/hello.yaml -f examples/crasher.yaml
cloudcore wait --for=condition=Ready pod/greeter pod/hello --timeout=200s
cloudcore events --for pod/crasher --watch >events & events=$!
until grep --quiet BackOff events; do kill -0 $events; done
kill $events
set +e
"""


class Habit(NamedTuple):
    """A row of the page."""

    command: str
    status: int
    says: str


def habits(section: str) -> list[Habit]:
    """Return the rows of a section."""
    found = _ROW.findall(section)
    return [Habit(command.replace("\\|", "|"), int(status), says) for _, command, status, says in found]


SECTIONS: Final = {title: habits(text) for title, text in _SECTION.findall(PAGE)}


def test_the_page_has_at_least_150_habits_and_each_row_is_one() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("|") and "`" in line]
    assert sum(len(section) for section in SECTIONS.values()) == len(rows) >= 150


@pytest.mark.timeout(1200)
@pytest.mark.skipif(bool(reason_missing()), reason=str(reason_missing()))
@pytest.mark.slow
@pytest.mark.parametrize("title", SECTIONS)
def test_each_habit_is_done_or_refused_with_a_line_that_helps(title: str) -> None:
    rows = SECTIONS[title]
    text = run("habits", [Block(1, "sh", _START + "".join(_asked(rows)) + "true\n", "")])
    answers = {int(number): (int(status), said) for number, status, said in _ANSWER.findall(text)}
    assert len(answers) == len(rows)
    wrong = [line for number, row in enumerate(rows) for line in _wrong(row, *answers[number])]
    assert not wrong, "\n".join(wrong)


def _asked(rows: list[Habit]) -> Iterator[str]:
    for number, row in enumerate(rows):
        yield f"{{ {row.command}\n}} >said 2>&1 </dev/null\n"
        yield f'echo "=row {number} $?"; cat said; printf "\\n=end\\n"\n'


def _wrong(row: Habit, status: int, said: str) -> Iterator[str]:
    """Yield what is wrong with an answer."""
    if status != row.status or row.says not in said:
        yield f"{row.command}: wanted {row.status} and {row.says!r}, got {status} and {said[:500]!r}"
    if "Traceback" in said:
        yield f"{row.command}: a traceback"
    if status and not said.strip() and not row.command.endswith(_SILENT):
        yield f"{row.command}: ended with {status} and said nothing"
    if status and len(said.strip().splitlines()) > 3:
        yield f"{row.command}: an error of many lines: {said[:500]!r}"
