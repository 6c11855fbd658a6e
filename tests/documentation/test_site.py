"""The documentation as a site: it builds without a warning, loads nothing from others, and is searched on the disk."""

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from modules.lab.site.behaviours import behaviour_page, behaviours, threat_page, threats
from modules.lab.site.commands import command_page
from modules.lab.site.metrics import metric_names
from tests.documentation.blocks import REPOSITORY
from tests.support.browser import browser, why_none

_LOADED = re.compile(
    r"""<(?:script|img|iframe|source)[^>]+src=["'](?:https?:)?//|<link[^>]+href=["'](?:https?:)?//[^>]*>"""
)
_ELSEWHERE = re.compile(r"""url\(["']?(?:https?:)?//""")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The site as `make docs` builds it; a link or an anchor that leads nowhere is an error (not so with --quiet)."""
    if importlib.util.find_spec("mkdocs") is None:
        pytest.skip("MkDocs is not installed (pip install 'edgecore[docs]')")
    directory = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(directory)],
        cwd=REPOSITORY, env={**os.environ, "PYTHONPATH": str(REPOSITORY), "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    yield directory


def test_nothing_is_loaded_from_other_servers(site: Path) -> None:
    """No script, style, picture or font; a link that a reader follows may lead anywhere."""
    for page in site.rglob("*.html"):
        assert not _LOADED.findall(page.read_text()), page
    for style in site.rglob("*.css"):
        assert not _ELSEWHERE.findall(style.read_text()), style


def test_every_page_is_in_it(site: Path) -> None:
    docs = REPOSITORY / "docs"
    pages = {page.relative_to(docs).with_suffix("") for page in docs.rglob("*.md")} | {Path("index"), Path("changelog")}
    assert {page.relative_to(site).with_suffix("") for page in site.rglob("*.html")} >= pages
    assert (site / "source" / "examples" / "hello.yaml.txt").read_text() == _example("hello")


def test_a_page_on_the_disk_can_be_searched(site: Path) -> None:
    """Without a server and without a network."""
    if why_none():
        pytest.skip(why_none())
    with browser() as window:
        window.open((site / "index.html").as_uri())
        window.keys("CrashLoopBackOff", ".md-search__input")
        assert ".html" in window.wait("document.querySelector('.md-search-result__list a')?.href")
        assert (window.console(), window.requests()) == ([], [])


def test_the_reference_has_every_command() -> None:
    page = command_page("edgecore")
    for command in ("edgecore run", "edgecore join", "edgecore trace explain", "edgecore config check"):
        assert f"\n## {command}\n" in page
    assert "| `--config FILE` |" in page
    assert "\n## cloudcore run\n" in command_page("cloudcore")


def test_the_reference_has_the_metrics_with_type_and_text() -> None:
    found = {each.name: each for each in metric_names()}
    assert found["edgehub_connected"].kind == "gauge"
    assert found["beehive_messages_total"].kind == "counter"
    assert found["beehive_waiting_seconds"].kind == "histogram"
    assert all(each.text for each in found.values())


def test_the_behaviours_are_the_names_and_docstrings_of_tests() -> None:
    """A bar, as in `a | b`, does not end a cell.

    Further paragraphs are for who reads the test.
    """
    own = next(each for each in behaviours("documentation") if each.text.startswith("the behaviours are"))
    assert own.file == "documentation/test_site.py"
    assert own.text.endswith(r"docstrings of tests: A bar, as in `a \| b`, does not end a cell.")
    page = behaviour_page("behaviours-pods")
    for text in ("a missing key is named", "a path that leads out is refused until an annotation mends it"):
        assert f"| {text} |" in page
    assert "\n## edged/probes\n" in page


def test_each_threat_is_in_the_reference_with_its_tests() -> None:
    page = threat_page()
    assert "| a pod fills the disk, is evicted, and its emptyDir keeps the disk full | a pod |" in page
    assert page.count("\n| ") - page.count("\n## ") == len(threats())


def _example(name: str) -> str:
    return (REPOSITORY / "examples" / f"{name}.yaml").read_text()
