"""What a node of 0.3 has, as it was before `edgecore upgrade`: configuration, database, command line.

`kept-0.3` was written by the code of that time, and does not change any more; traces of that time are in
`tests/replay/fixtures`.
"""

import argparse
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from metamanager.sqlite_migrations import NEWEST
from modules.processes.cloudcore import cli as cloudcore
from modules.processes.common.exit_codes import ExitCode
from modules.processes.edgecore import cli as edgecore
from modules.processes.edgecore.config import EdgeCoreConfig, load
from modules.processes.edgecore.upgrade.updater.database import schema_of
from tests.end_to_end.processes import REPOSITORY

KEPT = REPOSITORY / "tests" / "compatibility" / "kept-0.3"


def test_every_key_of_the_configuration_is_known_and_has_its_meaning() -> None:
    """Its file of all defaults is today's default: without a warning, and without a key that does nothing."""
    loaded = load(KEPT / "edgecore.yaml")
    assert not loaded.warnings
    assert not loaded.without_effect
    default = EdgeCoreConfig.default()
    edged = loaded.config.modules.edged
    assert edged.hostname_override == "edge-1"
    kept = loaded.config.modules.edged.tailored_kubelet_config
    assert kept == default.modules.edged.tailored_kubelet_config
    assert loaded.config.modules.edge_hub == default.modules.edge_hub


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """Return a copy of its database."""
    path = tmp_path / "edgecore.db"
    with closing(sqlite3.connect(path)) as opened:
        opened.executescript((KEPT / "edgecore.sql").read_text())
    return path


def test_the_database_is_brought_forward_with_its_objects(database: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its history, too."""
    assert edgecore.main(["store", "migrate", str(database)]) == ExitCode.OK
    assert schema_of(database) == NEWEST
    capsys.readouterr()
    assert edgecore.main(["store", "list", "--json", "--database", str(database)]) == ExitCode.OK
    listed = json.loads(capsys.readouterr().out)
    assert [each["key"] for each in listed] == ["default/pod/web", "null/node/edge-1"]
    assert edgecore.main(["store", "get", "default/pod/web", "--json", "--database", str(database)]) == ExitCode.OK
    assert json.loads(capsys.readouterr().out)["spec"]["containers"] == [{"name": "main", "image": "web:1"}]
    assert edgecore.main(["store", "history", "--database", str(database)]) == ExitCode.OK
    assert "default/pod/web" in capsys.readouterr().out


def words_of(parser: argparse.ArgumentParser, name: str) -> Iterator[str]:
    """Yield a program's commands and long options."""
    yield name
    for action in parser._actions:
        choices: Any = action.choices
        if isinstance(action, argparse._SubParsersAction):
            for word, below in choices.items():
                yield from words_of(below, f"{name} {word}")
        yield from (f"{name} {option}" for option in action.option_strings if option.startswith("--"))


def test_no_command_and_no_option_has_gone() -> None:
    programs = {"edgecore": edgecore.command_line()[0], "cloudcore": cloudcore.command_line()[0]}
    present = {word for name, parser in programs.items() for word in words_of(parser, name)}
    assert not set((KEPT / "commands.txt").read_text().splitlines()) - present
