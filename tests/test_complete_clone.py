"""A clone is complete: the recordings of the tests are in it, and no file reads, names or links a place beside it."""

import re
import subprocess
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Final

import pytest

from tests.docs import REPOSITORY, links
from tests.interop import kubernetes_forms
from tests.interop.traces import FILES, KUBEEDGE_FILES, KUBEEDGE_MQTT, RECORDINGS, recordings

_NEIGHBOURS: Final = ("config", "count", "design", "hooks", "recordings", "spec", "traces")
_BESIDE: Final = re.compile(
    r"\.\./shared\b|\bshared/(?:{0})\b|[\"']shared[\"'] */ *[\"'](?:{0})\b".format("|".join(_NEIGHBOURS))
)
"""Names of the directory that stood beside the repository when its tests were written."""
_ABOVE: Final = re.compile(r"__file__\)(?:\.resolve\(\)|\.absolute\(\))?\.parents\[(\d+)\]")
"""A directory above the file that says this."""


_PLACES: Final = (
    "beehive",
    "deploy",
    "docs",
    "edged",
    "edgehub",
    "examples",
    "metamanager",
    "modules",
    "protos",
    "tests",
)
_WRITTEN: Final = (".cfg", ".md", ".proto", ".py", ".sh", ".toml", ".txt", ".yaml", ".yml")


@cache
def _texts() -> dict[Path, str]:
    """Return what people have written, by path in the repository; this file and the recordings are left out."""
    inside = chain.from_iterable((REPOSITORY / place).rglob("*") for place in _PLACES)
    files = [file for file in chain(REPOSITORY.iterdir(), inside) if file.suffix in _WRITTEN and file != Path(__file__)]
    files += [REPOSITORY / "Makefile", *(file for file in (REPOSITORY / ".ci").iterdir() if file.is_file())]
    return {file.relative_to(REPOSITORY): file.read_text() for file in files}


def test_every_recording_that_is_named_is_there_and_the_other_way_round() -> None:
    """A name that is spelt wrongly is a test that never runs; a file that no test reads is weight."""
    named = {*recordings(), *KUBEEDGE_FILES, *KUBEEDGE_MQTT, kubernetes_forms.FILE}
    assert set(RECORDINGS.rglob("*.jsonl")) == named
    assert set(FILES) == {path.parent.name for path in recordings()}


def test_the_page_describes_each_recording() -> None:
    page = (RECORDINGS / "README.md").read_text()
    described = set(re.findall(r"^\| `([\w-]+)` \|", page, re.MULTILINE))
    scenarios = {path.name.partition(".")[0] for path in (*recordings(), *KUBEEDGE_FILES, *KUBEEDGE_MQTT)}
    assert scenarios - described == set()


@pytest.mark.parametrize(
    "text",
    ["(../shared/spec/11, section 2)", '"shared" / "traces"', "shared/recordings/kubernetes-api", "`shared/spec/14`"],
)
def test_names_of_the_neighbour_are_found(text: str) -> None:
    assert _BESIDE.search(text)


def test_nothing_names_the_directory_that_stood_beside_the_repository() -> None:
    texts = [(path, text) for path, text in _texts().items() if "shared" in text]
    found = [f"{path}: {match[0]}" for path, text in texts for match in _BESIDE.finditer(text)]
    assert found == []


def test_no_file_looks_above_the_repository() -> None:
    """`Path(__file__).parents[n]` is inside, however deep the file is."""
    found = [
        f"{path}: {match[0]}"
        for path, text in _texts().items()
        for match in _ABOVE.finditer(text)
        if int(match[1]) >= len(path.parts)
    ]
    assert found == []


def test_no_page_links_a_place_outside() -> None:
    found = [
        f"{path}:{line}: {target}"
        for path, text in _texts().items()
        if path.suffix == ".md"
        for line, target in links(text)
        if not (REPOSITORY / path.parent / target.partition("#")[0]).resolve().is_relative_to(REPOSITORY)
    ]
    assert found == []


def test_no_link_is_part_of_the_repository() -> None:
    """A link to another clone's `.venv` was once, and took the place of the environment wherever it was checked out."""
    listed = subprocess.run(["git", "ls-files", "--stage"], cwd=REPOSITORY, check=True, capture_output=True, text=True)
    assert [entry for entry in listed.stdout.splitlines() if not entry.startswith("100")] == []
