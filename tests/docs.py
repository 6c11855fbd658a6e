"""Reads the pages in docs/: the tests and files that their tables name.

A table with a column `test` promises that each of its rows is shown by a test. A reference is written in backticks:

    `tests/edged/pods/test_env.py`   a file or a directory
    `test_env.py::test_a_name`       a file in the directory that the table's head, or the text before it, names
    `::test_a_name`                  in the last named file; at the beginning of a row the table head's
    `::test_a_long_na…`              the beginning of a name
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

REPOSITORY: Final = Path(__file__).parents[1]
PAGES: Final = sorted((REPOSITORY / "docs").rglob("*.md"))
TOP_PAGES: Final = [REPOSITORY / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]

PRODUCT: Final = ("beehive", "edged", "edgehub", "metamanager", "modules", "protos")

_QUOTED = re.compile(r"`([^`]+)`")
_TEST = re.compile(r"^(tests/\S+|(?:\w+/)*test_\w+\.py(?:::\S+)?|::test_\S+)$")
_CODE = re.compile(rf"(?:{'|'.join(PRODUCT)})/[\w/]+\.py|[A-Z]\w+\.[a-z]\w+(?:\(\))?")
_DEFINED = re.compile(r"^ *(?:async )?def (test_\w+)|^(?:class )?(Test\w+)", re.MULTILINE)
_CUT = "…"


class Row(NamedTuple):
    """A row of a table.

    Attributes:
        line: its line in the page, from 1.
        cells: its texts.
        head: the texts of its table's head.
    """

    line: int
    cells: tuple[str, ...]
    head: tuple[str, ...]


class Claim(NamedTuple):
    """A row of a table with a column `test`, and the tests that it names; `tests` is empty when it names no test."""

    line: int
    what: str
    tests: tuple[tuple[Path | None, str], ...]
    """File or directory (None: not named) and the test's name, or its beginning with an ellipsis."""


def tables(text: str) -> Iterator[Row]:
    """Yield all rows of all tables, without their heads."""
    head: tuple[str, ...] | None = None
    for number, line in enumerate(text.splitlines(), 1):
        if not line.startswith("|"):
            head = None
        elif head is None:
            head = _cells(line)
        elif set(line) - set("|-: "):
            yield Row(number, _cells(line), head)


def claims(text: str, root: Path = REPOSITORY) -> Iterator[Claim]:
    """Yield the rows of all tables with a column `test`, with the tests that they name."""
    lines = re.sub(r"(\b[Tt]ests are in)\n(`tests/[^`]*`)", r"\1 \2\n", text).splitlines()
    base: Path | None = None
    last: Path | None = None
    read = depth = depth_of_base = 0
    for row in tables(text):
        column = _test_column(row.head)
        if column is None:
            continue
        for line in lines[read : row.line]:
            if line.startswith("#"):
                depth = len(line) - len(line.lstrip("#"))
                if depth <= depth_of_base:
                    base = last = None
            elif (named := _base_named(line)) is not None:
                base, last, depth_of_base = root / named, None, depth
        read = row.line
        last = base if base is not None and base.suffix == ".py" else last
        tests = []
        for token in _QUOTED.findall(row.cells[column]):
            if _TEST.match(token):
                path, _, name = token.partition("::")
                last = _resolved(path, base, root) if path else last
                tests.append((last, name))
        yield Claim(row.line, row.cells[0], tuple(tests))


def missing(claim: Claim) -> list[str]:
    """Return the errors of a claim: it names no test, a file does not exist, or a test is not in its file."""
    if not claim.tests:
        return ["names no test"]
    return [
        wrong
        for path, name in claim.tests
        for wrong in ([f"{name or 'a file'}, but where?"] if path is None else _absent(path, name))
    ]


def files_named(text: str, column: str) -> Iterator[tuple[int, str]]:
    """Yield line and path of each file in backticks in a column of that name."""
    for row in tables(text):
        if column in row.head:
            for token in _QUOTED.findall(row.cells[row.head.index(column)]):
                yield row.line, token


def links(text: str) -> Iterator[tuple[int, str]]:
    """Yield line and target of each link inside this repository."""
    for number, line in enumerate(text.splitlines(), 1):
        for target in re.findall(r"\]\(([^)\s]+)\)", line):
            if "://" not in target:
                yield number, target


def code_named(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines and names of product code: `edged/sync/loop.py`, `SyncLoop.handle`."""
    for number, line in enumerate(text.splitlines(), 1):
        yield from ((number, name) for name in _QUOTED.findall(line) if _CODE.fullmatch(name))


def is_code(name: str) -> bool:
    """Whether product code of a name exists. Classes of other programs, as of CRI, count as existing."""
    if "/" in name:
        return (REPOSITORY / name).exists()
    class_name, _, member = name.partition(".")
    member = member.removesuffix("()")
    files = _files_of_classes().get(class_name, [])
    return not files or any(re.search(rf"\b{member}\b", text) for text in files)


@cache
def _files_of_classes() -> dict[str, list[str]]:
    """Return the text of the files that define a class of each name."""
    texts = (path.read_text() for name in PRODUCT for path in (REPOSITORY / name).rglob("*.py"))
    found: dict[str, list[str]] = {}
    for text in texts:
        for name in re.findall(r"^class (\w+)", text, re.MULTILINE):
            found.setdefault(name, []).append(text)
    return found


def anchors(text: str) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    heads = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@cache
def defined(path: Path) -> frozenset[str]:
    """Return the names of the tests in a file, or in all files of a directory."""
    files = [path] if path.is_file() else sorted(path.rglob("test_*.py"))
    return frozenset(name for file in files for pair in _DEFINED.findall(file.read_text()) for name in pair if name)


def _cells(line: str) -> tuple[str, ...]:
    return tuple(cell.strip() for cell in line.strip().strip("|").split("|"))


def _test_column(head: Iterable[str]) -> int | None:
    return next((n for n, cell in enumerate(head) if re.match(r"(shown by )?tests?\b", cell)), None)


def _base_named(line: str) -> str | None:
    """Return the directory or file that a table's head, or a sentence about tests, names."""
    is_head = line.startswith("|") and _test_column(_cells(line)) is not None
    if is_head or (not line.startswith("|") and re.search(r"\b[Tt]ests?\b.*`tests/", line)) or "in `tests/" in line:
        found = re.search(r"`(tests/[\w/.]+)`", line)
        return found.group(1) if found else None
    return None


def _resolved(path: str, base: Path | None, root: Path) -> Path | None:
    if path.startswith("tests/"):
        return root / path
    if base is None:
        return None
    return (base if base.suffix != ".py" else base.parent) / path


def _absent(path: Path, name: str) -> list[str]:
    if not path.exists():
        return [f"{path} is not there"]
    if not name:
        return []
    names = defined(path)
    wanted = name.partition("[")[0]
    if wanted.endswith(_CUT):
        there = any(each.startswith(wanted.removesuffix(_CUT)) for each in names)
    else:
        there = wanted in names
    return [] if there else [f"no {name} in {path}"]
