"""The reference of behaviours as Markdown: each test of an area in words, from its name and its docstring; and the
known threats, of `tests/threats.toml`, each with its defence and its tests.
"""

from __future__ import annotations

import ast
import tomllib
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_REPOSITORY: Final = Path(__file__).parents[3]
_TESTS: Final = "tests"
_PREFIX: Final = "test_"

_HEAD: Final = """# {title}

Each row is a test that fails without the behaviour. This page is made from the names and docstrings of the tests.

"""


_THREATS_HEAD: Final = """# Threats, with their tests

Each row names an attack or a failure as it would succeed without the defence, and the tests of the defence.

"""


class Area(NamedTuple):
    """The tests that a page shows, below `tests/`."""

    title: str
    directories: tuple[str, ...]


AREAS: Final = {
    "behaviours-pods": Area("Behaviours of pods", ("end_to_end/crowd", "edged")),
    "behaviours-runtimes": Area("Behaviours of runtimes", ("cri_contract", "modules/runtimes")),
    "behaviours-link": Area("Behaviours of the link and the store", ("edgehub", "metamanager")),
    "behaviours-workloads": Area("Behaviours of workloads", ("modules/cloud/controllers",)),
    "behaviours-rights": Area("Rights and attacks", ("modules/cloud/authorization", "modules/cloud/identities")),
}
"""By name of the page."""


class Behaviour(NamedTuple):
    """A test in words.

    Attributes:
        file: its path below `tests/`.
        text: its name as a sentence, and the first paragraph of its docstring.
    """

    file: str
    text: str


def behaviour_page(name: str) -> str:
    """Return the page of an area."""
    area = AREAS[name]
    found = (each for directory in area.directories for each in behaviours(directory))
    return _HEAD.format(title=area.title) + "\n".join(
        f"## {directory}\n\n| behaviour | test in `{_TESTS}/{directory}` |\n|---|---|\n"
        + "".join(f"| {each.text} | `{Path(each.file).name}` |\n" for each in rows)
        for directory, rows in groupby(found, lambda each: str(Path(each.file).parent))
    )


def behaviours(directory: str) -> Iterator[Behaviour]:
    """Yield the tests below a directory of `tests/`, by directory and file, in the order of the file."""
    root = _REPOSITORY / _TESTS
    for file in sorted((root / directory).rglob(f"{_PREFIX}*.py"), key=lambda each: (each.parent, each.name)):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith(_PREFIX):
                yield Behaviour(str(file.relative_to(root)), _in_words(node))


def _in_words(test: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    name = test.name.removeprefix(_PREFIX).replace("_", " ")
    paragraph = " ".join((ast.get_docstring(test) or "").partition("\n\n")[0].split())
    return _cell(f"{name}: {paragraph}" if paragraph else name)


class Threat(NamedTuple):
    """An attack or a failure.

    Attributes:
        section: the heading of its table.
        attack: what would happen without the defence.
        by: the attacker, or the cause.
        defence: what prevents it.
        tests: files, or `file::test`, from the top of the repository.
    """

    section: str
    attack: str
    by: str
    defence: str
    tests: tuple[str, ...]


def threat_page() -> str:
    """Return the page of all threats."""
    return _THREATS_HEAD + "\n".join(
        f"## {section}\n\n| threat | attacker or cause | defence | tests |\n|---|---|---|---|\n"
        + "".join(f"| {_cell(each.attack)} | {_cell(each.by)} | {_cell(each.defence)} | {_named(each.tests)} |\n"
                  for each in rows)
        for section, rows in groupby(threats(), lambda each: each.section)
    )  # fmt: skip


def threats() -> list[Threat]:
    """Return the known threats, in the order of the file."""
    rows = tomllib.loads((_REPOSITORY / _TESTS / "threats.toml").read_text(encoding="utf-8"))["threat"]
    return [Threat(**row | {"tests": tuple(row["tests"])}) for row in rows]


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _named(tests: Iterable[str]) -> str:
    return ", ".join(f"`{each}`" for each in tests)
