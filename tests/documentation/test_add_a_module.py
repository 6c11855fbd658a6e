"""docs/add-a-module.md: its blocks add a module to a copy of the tree, and a node starts it by its configuration."""

import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.documentation.blocks import REPOSITORY, blocks
from tests.end_to_end.processes import Process, wait_until
from tests.support.patience import PATIENCE
from tests.support.ports import free_port

PAGE: Final = (REPOSITORY / "docs" / "add-a-module.md").read_text()
COPIED: Final = ("beehive", "docs", "edgecore_mapper", "edged", "edgehub", "metamanager", "modules", "protos", "tests")
PLACES: Final = (
    "docs/architecture.md",
    "modules/edge/clockwatch",
    "modules/processes/edgecore/config/model.py",
    "modules/processes/edgecore/optional_modules.py",
)
_STEP: Final = re.compile(r"^`([\w./-]+)`:\n\n```(python|diff)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def apply(page: str, tree: Path) -> list[str]:
    """Make the new files of a page in a tree, and the changes of its diffs; return the paths.

    Raises:
        ValueError: a new file is there already, or the lines that a diff changes are not there exactly once.
    """
    paths = []
    for path, language, text in _STEP.findall(page):
        file = tree / path
        if language == "python":
            if file.exists():
                raise ValueError(f"{path} is there already")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        else:
            before = _lines(text, " -")
            old = file.read_text()
            if old.count(before) != 1:
                raise ValueError(f"{path} has these lines {old.count(before)} times:\n{before}")
            file.write_text(old.replace(before, _lines(text, " +")))
        paths.append(path)
    return paths


def _lines(diff: str, marks: str) -> str:
    return "".join(line[1:] or "\n" for line in diff.splitlines(keepends=True) if (line[0] in marks or line == "\n"))


def test_a_diff_applies_once_or_not_at_all(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text("one\n\ntwo\nthree\n")
    page = "`a.py`:\n\n```diff\n one\n\n-two\n+2\n```\n"
    assert apply(page, tmp_path) == ["a.py"]
    assert file.read_text() == "one\n\n2\nthree\n"
    with pytest.raises(ValueError, match=r"a\.py has these lines 0 times"):
        apply(page, tmp_path)
    with pytest.raises(ValueError, match=r"a\.py is there already"):
        apply("`a.py`:\n\n```python\none\n```\n", tmp_path)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tree with the page's module."""
    tree = tmp_path_factory.mktemp("tree")
    for name in COPIED:
        shutil.copytree(REPOSITORY / name, tree / name, ignore=shutil.ignore_patterns("*.pyc.*", "recordings"))
    shutil.copy(REPOSITORY / "pyproject.toml", tree)
    (tree / ".venv").symlink_to(sys.prefix)
    paths = apply(PAGE, tree)
    assert {path for path in paths if not path.startswith("tests/") and not path.startswith(PLACES)} == set()
    return tree


def test_the_commands_of_the_page_pass(tree: Path) -> None:
    """The inner pytest does without this run's conftest.py, which looks for what a run leaves on the machine."""
    script = "set -eux\n" + "".join(block.text for block in blocks(PAGE) if block.language == "sh")
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTEST_ADDOPTS": "--noconftest -p no:cacheprovider"}
    done = subprocess.run(["sh", "-c", script], cwd=tree, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert "## `modules.clockWatch`\n" in (tree / "docs" / "configuration.md").read_text()


def test_ruff_is_content_with_it(tree: Path) -> None:
    new = [
        "modules/edge/clockwatch",
        "tests/modules/edge/clockwatch",
        *(place for place in PLACES if place[-3:] == ".py"),
    ]
    for command in (["check"], ["format", "--check"]):
        subprocess.run([tree / ".venv/bin/ruff", *command, "--no-cache", *new], cwd=tree, check=True)


@pytest.fixture
def started(tree: Path, tmp_path: Path) -> Iterator[tuple[Process, int]]:
    """A node of nothing but the module, by the page's configuration; and the port of its metrics."""
    port = free_port()
    [text] = [block.text for block in blocks(PAGE) if block.language == "yaml"]
    config: dict[str, Any] = yaml.safe_load(text)
    config["database"] = {"dataSource": str(tmp_path / "edgecore.db")}
    kubelet = {"address": "127.0.0.1", "readOnlyPort": port}
    edged = {"enable": False, "rootDirectory": str(tmp_path / "edged"), "tailoredKubeletConfig": kubelet}
    config["modules"] |= {"edged": edged, "edgeHub": {"enable": False}, "deviceTwin": {"enable": False}}
    file = tmp_path / "edgecore.yaml"
    file.write_text(yaml.safe_dump(config))
    arguments = ["run", "--config", str(file)]
    process = Process("modules.processes.edgecore", arguments, tmp_path / "edgecore.log", tree=tree)
    yield process, port
    if process.runs:
        process.kill()


def test_a_node_starts_it_by_its_configuration(started: tuple[Process, int]) -> None:
    process, port = started
    wait_until(lambda: "is running" in process.text() or not process.runs, "edgecore is running")
    assert "watching the clock every 10 s" in process.text(), process.tail()
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE) as answer:
        assert "clockwatch_steps_total 0" in answer.read().decode()
    process.signal(signal.SIGTERM)
    assert process.wait() == 0, process.tail()
