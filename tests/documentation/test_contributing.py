"""What CONTRIBUTING.md and `.pre-commit-config.yaml` name is there, and the hooks are a part of `make check`."""

import re
import sys
from pathlib import Path
from typing import Final

import pytest
import yaml

from tests.documentation.blocks import PAGES, REPOSITORY, blocks

MAKEFILE: Final = (REPOSITORY / "Makefile").read_text()
CONTRIBUTING: Final = (REPOSITORY / "CONTRIBUTING.md").read_text()
HOOKS: Final = [
    hook
    for repository in yaml.safe_load((REPOSITORY / ".pre-commit-config.yaml").read_text())["repos"]
    for hook in repository["hooks"]
]
_MAKE: Final = re.compile(r"(?:^|`)make(?: [A-Z]+=\S+)* ([a-z-]+)\b", re.MULTILINE)


def _recipe(target: str) -> list[str]:
    found = re.search(rf"^{target}:[^=\n]*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)
    assert found is not None, target
    return [line.strip().lstrip("@").replace("$(BIN)", ".venv/bin") for line in found[1].splitlines()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_target_of_make_on_a_page_is_in_the_makefile(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))
    assert set(_MAKE.findall(page.read_text())) - targets == set()


def test_every_test_that_contributing_runs_is_there() -> None:
    commands = [line for block in blocks(CONTRIBUTING) for line in block.text.splitlines() if "/pytest " in line]
    named = [path for line in commands for path in re.findall(r"tests/\S+", line.partition("#")[0])]
    assert len(named) == len(commands) > 1
    assert [path for path in named if not (REPOSITORY / path).exists()] == []


def test_the_hooks_are_commands_of_make_check_from_the_environment_of_make_install() -> None:
    entries = [hook["entry"] for hook in HOOKS]
    assert len(entries) == 3
    assert set(entries) <= set(_recipe("check"))
    programs = [Path(entry.split()[0]) for entry in entries]
    assert {program.parent for program in programs} == {Path(".venv/bin")}
    assert [program.name for program in programs if not Path(sys.executable).with_name(program.name).is_file()] == []


def test_no_hook_downloads_anything() -> None:
    """`system` runs what is installed; all other languages make an environment of their own."""
    assert {hook["language"] for hook in HOOKS} == {"system"}
