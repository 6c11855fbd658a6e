"""Remedies advise what there is, and every command that a message names can be typed."""

import argparse
import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from modules.processes.cloudcore import cli as cloudcore
from modules.processes.edgecore import cli as edgecore
from modules.processes.edgecore.doctor.checks import check_running
from modules.processes.edgecore.doctor.facts import Running
from modules.processes.edgecore.doctor.machine import directory, has_unit

REPOSITORY = Path(__file__).parents[5]
PACKAGES = ("beehive", "edgecore_mapper", "edged", "edgehub", "metamanager", "modules")
_COMMAND = re.compile(r"`((?:edgecore|cloudcore) [^`]*)`")
_PLACEHOLDER = "\0"


def named_commands() -> Iterator[tuple[str, str]]:
    """Where a text that is no docstring names a command, and the command; what is filled in is a placeholder."""
    for package in PACKAGES:
        for file in sorted((REPOSITORY / package).rglob("*.py")):
            source = file.read_text()
            if not any(f"{program} " in source for program in ("edgecore", "cloudcore")):
                continue
            for text in _texts(ast.parse(source)):
                for command in _COMMAND.findall(text):
                    yield str(file.relative_to(REPOSITORY)), command


def _texts(tree: ast.Module) -> Iterator[str]:
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    parts: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts.update(id(part) for part in node.values)
            yield "".join(str(p.value) if isinstance(p, ast.Constant) else _PLACEHOLDER for p in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and not {id(node)} & (docstrings | parts):
            yield node.value


def problem_of(command: str, parser: argparse.ArgumentParser) -> str:
    """Why a command cannot be typed; empty if it can. What it leaves out is not missed."""
    _, *words = command.split()
    while words and (commands := _subcommands(parser)) is not None and not words[0].startswith("-"):
        word = words.pop(0)
        if _PLACEHOLDER in word or word.startswith("{"):
            return ""
        if word not in commands:
            return f"there is no {word}"
        parser = commands[word]
    known = parser._option_string_actions
    words = words[: words.index("--")] if "--" in words else words
    unknown = [word for word in words if word.startswith("-") and word != "-" and word.partition("=")[0] not in known]
    return f"there is no {', '.join(unknown)}" if unknown else ""


def _subcommands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser] | None:
    found = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    action = next(found, None)
    return None if action is None else action.choices


def test_every_command_that_a_message_names_is_there() -> None:
    parsers = {"edgecore": edgecore.command_line(None)[0], "cloudcore": cloudcore.command_line(None)[0]}
    found = list(named_commands())
    assert len(found) > 20
    wrong = {
        f"{where}: {command}: {problem}"
        for where, command in found
        if (problem := problem_of(command, parsers[command.split()[0]]))
    }
    assert wrong == set()


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("edgecore run --root /x", ""),
        ("edgecore trace dump", ""),
        ("edgecore join --cloud HOST --token -", ""),
        ("edgecore start", "there is no start"),
        ("edgecore trace dmp", "there is no dmp"),
        ("edgecore run --rot /x", "there is no --rot"),
    ],
)
def test_a_wrong_command_is_found(command: str, problem: str) -> None:
    assert problem_of(command, edgecore.command_line(None)[0]) == problem


def test_a_node_that_does_not_run_is_started_by_what_there_is(tmp_path: Path) -> None:
    """`systemctl` only with a unit; else the command that leads to this very node."""
    (by_unit,) = check_running(Running(has_unit=True), "--root /x")
    assert by_unit.hint == "start it: `systemctl start edgecore`"
    (by_hand,) = check_running(Running(), "--root /x")
    assert "`edgecore run --root /x`" in by_hand.hint
    assert "`edgecore unit --root /x`" in by_hand.hint
    assert "systemctl" not in by_hand.hint
    assert not has_unit([tmp_path])
    (tmp_path / "edgecore.service").touch()
    assert has_unit([tmp_path / "none", tmp_path])


def test_a_file_system_that_is_mounted_read_only_is_named() -> None:
    """/sys is one in most containers; elsewhere the test is skipped."""
    places = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines() if " ro," in line]
    place = next((Path(each) for each in places if Path(each).is_dir()), None)
    if place is None:
        pytest.skip("no directory of this machine is mounted read-only")
    assert directory("test", place / "there").read_only.startswith("/")
    assert not directory("test", Path("/tmp")).read_only
