"""The tests, links, files and sections that the pages in docs/ and docstrings name exist."""

from __future__ import annotations

import re
from itertools import chain
from pathlib import Path
from typing import Final

import pytest

from tests.docs import (
    PAGES,
    REPOSITORY,
    TOP_PAGES,
    anchors,
    claims,
    code_named,
    defined,
    files_named,
    is_code,
    links,
    missing,
    tables,
)

_WITH_DOCSTRINGS: Final = ("beehive", "edged", "edgehub", "examples", "metamanager", "modules", "protos", "tests")
"""Directories with tracked files only: others come and go while tests run."""

_BEHAVIOURS: Final = [page for page in PAGES if page.parent.name == "behaviours"]

_PAGE = """\
# Page
Rules. Tests are in `tests/area` unless they say otherwise.

| behaviour | test |
|---|---|
| whole | `test_a.py::test_one` |
| of the same file, cut | `::test_tw…`, `tests/other` |
| gone | `test_a.py::test_three` |
| without | by looking at it |
| no file | `test_b.py` |

## Below it
| behaviour | test |
|---|---|
| below | `test_a.py::test_two` |

| what | other |
|---|---|
| not a claim | `test_b.py` |

# Another
| behaviour | test (`tests/area/test_a.py`) |
|---|---|
| by the head | `::test_one` |

# No file is named
| behaviour | test |
|---|---|
| lost | `::test_one` |
"""


def _name(page: Path) -> str:
    return str(page.relative_to(REPOSITORY))


def test_a_page_is_read_as_its_author_means_it(tmp_path: Path) -> None:
    area = tmp_path / "tests" / "area"
    area.mkdir(parents=True)
    (tmp_path / "tests" / "other").mkdir()
    (area / "test_a.py").write_text("def test_one() -> None: ...\ndef test_two() -> None: ...\n")
    found = {claim.what: missing(claim) for claim in claims(_PAGE, tmp_path)}
    assert found == {
        "whole": [],
        "of the same file, cut": [],
        "gone": [f"no test_three in {area}/test_a.py"],
        "without": ["names no test"],
        "no file": [f"{area}/test_b.py is not there"],
        "below": [],
        "by the head": [],
        "lost": ["test_one, but where?"],
    }


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_row_of_a_table_of_behaviours_is_shown_by_a_test_that_is_there(page: Path) -> None:
    wrong = [f"{page.name}:{claim.line}: {claim.what}: {each}" for claim in claims(page.read_text())
             for each in missing(claim)]  # fmt: skip
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("page", _BEHAVIOURS, ids=_name)
def test_every_row_of_a_page_of_behaviours_names_its_tests(page: Path) -> None:
    """Such a page has no table without a column `test`, which the check above would pass over."""
    text = page.read_text()
    rows = [row.line for row in tables(text)]
    assert rows
    assert [claim.line for claim in claims(text)] == rows


@pytest.mark.parametrize("page", [*TOP_PAGES, *PAGES], ids=_name)
def test_every_link_leads_somewhere(page: Path) -> None:
    wrong = []
    for line, target in links(page.read_text()):
        path, _, anchor = target.partition("#")
        file = page.parent / path if path else page
        if not file.exists() or (anchor and anchor not in anchors(file.read_text())):
            wrong.append(f"{page.name}:{line}: {target}")
    assert not wrong, "\n".join(wrong)


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


def test_every_case_of_the_crowd_is_on_the_page_of_behaviours() -> None:
    page = (REPOSITORY / "docs" / "kubelet-behaviours.md").read_text()
    named = {name for claim in claims(page) for _, name in claim.tests}
    cases = defined(REPOSITORY / "tests" / "end_to_end" / "crowd")
    assert cases - named == set()
