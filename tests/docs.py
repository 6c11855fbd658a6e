"""Reads the pages in docs/: their tables, links, and the code and files that they name."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

REPOSITORY: Final = Path(__file__).parents[1]
PAGES: Final = sorted((REPOSITORY / "docs").rglob("*.md"))
TOP_PAGES: Final = [REPOSITORY / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]

PRODUCT: Final = ("beehive", "edgecore_mapper", "edged", "edgehub", "metamanager", "modules", "protos")

_QUOTED = re.compile(r"`([^`]+)`")
_CODE = re.compile(rf"(?:{'|'.join(PRODUCT)})/[\w/]+\.py|[A-Z]\w+\.[a-z]\w+(?:\(\))?")
_DEFINED = re.compile(r"^ *(?:async )?def (test_\w+)|^(?:class )?(Test\w+)", re.MULTILINE)


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


def absent(path: Path, name: str) -> bool:
    """Whether a test, or without a name its file or directory, does not exist."""
    return not path.exists() or (name != "" and name not in defined(path))


def _cells(line: str) -> tuple[str, ...]:
    return tuple(cell.strip() for cell in line.strip().strip("|").split("|"))
