"""Commands that are not here name others that are."""

import re

import pytest

from modules.processes.cloudcore.cli import command_line as cloud_commands
from modules.processes.edgecore.cli import command_line, main
from modules.processes.edgecore.local import ANSWERS


@pytest.mark.parametrize("word", ANSWERS)
def test_an_answer_names_commands_that_exist(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([word, "with", "--other=words"]) != 0
    said = capsys.readouterr().err
    assert said.startswith(f"error: edgecore has no `{word}`: ") and said.count("\n") == 1
    known = {
        "edgecore": command_line([])[1].choices.keys() - ANSWERS.keys(),
        "cloudcore": cloud_commands([])[1].choices.keys(),
    }
    named = re.findall(r"`(edgecore|cloudcore) ([a-z-]+)", said)
    assert all(name in known[program] for program, name in named), said


@pytest.mark.parametrize(
    ("option", "command"),
    [("--minconfig", "config minimal"), ("--defaultconfig", "config default"), ("--config", "run --config FILE")],
)
def test_options_of_kubeedges_edgecore(option: str, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It has no commands."""
    with pytest.raises(SystemExit):
        main([option, "x.yaml"])
    assert f"edgecore {command}" in capsys.readouterr().err
