"""The links, files and sections that the pages in docs/ and docstrings name exist, and the tests of threats."""

import ast
import re
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Final

import pytest

from modules.lab.site.behaviours import threats
from tests.docs import PAGES, PRODUCT, REPOSITORY, TOP_PAGES, absent, anchors, code_named, files_named, is_code, links

_WITH_DOCSTRINGS: Final = (
    "beehive", "edgecore_mapper", "edged", "edgehub", "examples", "metamanager", "modules", "protos", "tests",
)  # fmt: skip
"""Directories with tracked files only: others come and go while tests run."""


MOST_WORDS: Final = 78_100
"""In the README and all pages."""


def _name(page: Path) -> str:
    return str(page.relative_to(REPOSITORY))


@pytest.mark.parametrize("page", [*TOP_PAGES, *PAGES], ids=_name)
def test_every_link_leads_somewhere(page: Path) -> None:
    wrong = []
    for line, target in links(page.read_text()):
        path, _, anchor = target.partition("#")
        file = page.parent / path if path else page
        if not file.exists() or (anchor and anchor not in anchors(file.read_text())):
            wrong.append(f"{page.name}:{line}: {target}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("page", [*TOP_PAGES, REPOSITORY / "CHANGELOG.md", *PAGES], ids=_name)
def test_no_page_has_the_marks_of_a_merge(page: Path) -> None:
    assert not re.search(r"^(<{7}|>{7}) ", page.read_text(), re.MULTILINE)


def test_every_file_that_a_table_of_files_names_is_there() -> None:
    """Its path begins at the top of the repository, or in the page's package."""
    wrong = [
        f"{page.name}:{line}: {path}"
        for page in PAGES
        for line, path in files_named(page.read_text(), "file")
        if not any((root / path).exists() for root in (REPOSITORY, REPOSITORY / page.stem))
    ]
    assert not wrong, "\n".join(wrong)


def test_the_code_that_a_page_names_exists() -> None:
    """Not the module that one page lets its reader write."""
    pages = [page for page in [*TOP_PAGES, *PAGES] if page.name != "add-a-module.md"]
    wrong = [
        f"{page.name}:{line}: {name}"
        for page in pages
        for line, name in code_named(page.read_text())
        if not is_code(name)
    ]
    assert not wrong, "\n".join(wrong)


def test_every_section_that_a_docstring_cites_is_there() -> None:
    """`docs/protocol.md, "Acknowledgements" and "Repetition"` names two headings of that page."""
    citation = re.compile(r'docs/([\w/-]+\.md)((?:,?\s+(?:and\s+)?"[^"]{3,60}")+)')
    wrong = []
    for file in chain.from_iterable((REPOSITORY / name).rglob("*.py") for name in _WITH_DOCSTRINGS):
        for found in citation.finditer(file.read_text()):
            page = REPOSITORY / "docs" / found[1]
            heads = {line.lstrip("# ").strip() for line in page.read_text().splitlines() if line.startswith("#")}
            cited = {" ".join(name.split()) for name in re.findall(r'"([^"]+)"', found[2])}
            wrong += [f"{file.relative_to(REPOSITORY)}: {page.name}: {name}" for name in sorted(cited - heads)]
    assert not wrong, "\n".join(wrong)


def test_what_a_docstring_names_in_the_product_is_there() -> None:
    """`edged.pods.labels` is a module or defined in one; a package has the modules that its own docstring names.

    `modules.edgeHub` is a section of the configuration, not a package.
    """
    dotted = re.compile(rf"`((?:{'|'.join(PRODUCT)})(?:\.(?!sock)[a-z][a-z_0-9]*)+)(?:\.[A-Z]\w*)?(?:\(\))?`")
    strings = re.compile(r'"([a-z]+)"')
    commands = {word for file in (REPOSITORY / "modules").rglob("*.py") for word in strings.findall(file.read_text())}
    wrong = []
    for file in chain.from_iterable((REPOSITORY / name).rglob("*.py") for name in _WITH_DOCSTRINGS):
        text = file.read_text()
        wrong += [f"{file.relative_to(REPOSITORY)}: {name}" for name in dotted.findall(text) if not _is_module(name)]
        if file.name == "__init__.py" and (found := ast.get_docstring(ast.parse(text))):
            names = [name for name in re.findall(r"`([a-z]\w*)`", found) if name not in commands]
            wrong += [f"{file.relative_to(REPOSITORY)}: {name}" for name in names if not _has_word(file.parent, name)]
    assert not wrong, "docstrings that name what is not there:\n" + "\n".join(wrong)


def _is_module(name: str) -> bool:
    path = REPOSITORY / name.replace(".", "/")
    if name.startswith("modules.") and not (REPOSITORY / "modules" / name.split(".")[1]).is_dir():
        return True
    if path.is_dir() or path.with_suffix(".py").is_file():
        return True
    file = path.parent / "__init__.py" if path.parent.is_dir() else path.parent.with_suffix(".py")
    return file.is_file() and re.search(rf"\b{path.name}\b", file.read_text()) is not None


def _has_word(package: Path, name: str) -> bool:
    """Whether a package has a file or directory of a name, or its code a function, an option or a command."""
    files, directories = _below(package)
    return name in directories or any(name == file.stem or name in _words_of_file(file) for file in files)


@cache
def _below(package: Path) -> tuple[list[Path], set[str]]:
    """The files of a package, and the names of its directories."""
    below = list(package.rglob("*"))
    return [path for path in below if path.suffix == ".py"], {path.stem for path in below if path.is_dir()}


@cache
def _words_of_file(path: Path) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", re.sub(r'"{3}.*?"{3}|#[^\n]*', "", path.read_text(), flags=re.DOTALL)))


def test_every_test_that_a_threat_names_is_there() -> None:
    named = [test.partition("::") for each in threats() for test in each.tests]
    wrong = [f"{path}::{name}" for path, _, name in named if absent(REPOSITORY / path, name)]
    assert not wrong, "\n".join(wrong)
    assert all(each.tests for each in threats())


def test_the_pages_have_room_for_what_a_reader_can_act_on() -> None:
    """A page that needs more takes it from another: what two pages say, what was, what nobody can act on."""
    words = {page: len(page.read_text().split()) for page in [REPOSITORY / "README.md", *PAGES]}
    assert sum(words.values()) <= MOST_WORDS, sorted(((number, page.name) for page, number in words.items()))[-5:]
