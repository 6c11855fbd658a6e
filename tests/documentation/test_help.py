"""`--help`: each command is in a group, says in sentences what it does, and has an example, which works."""

import argparse
import contextlib
import io
import re
import shlex
import socket
import sys
from collections.abc import Iterator
from typing import Final

import pytest

from modules.cli.help_texts import EXAMPLES, GROUPS
from modules.cli.parser import VerbParser
from modules.kubectl.cli import arranged
from modules.processes.cloudcore.cli import command_line as cloudcore
from modules.processes.edgecore.cli import command_line as edgecore
from tests.documentation.blocks import Block
from tests.documentation.session import reason_missing, run

PROGRAMS: Final = {"cloudcore": cloudcore, "edgecore": edgecore}

NOT_RUN: Final = {
    "cloudcore run": "it runs already", "edgecore run": "it runs already",
    "cloudcore restore": "not while the cloud runs", "edgecore restore": "not while the node runs",
    "cloudcore kubeconfig": "a cloud with a secure port", "cloudcore token": "a cloud with TLS",
    "cloudcore revoke": "a cloud with TLS", "cloudcore allow": "a cloud with TLS", "edgecore join": "a cloud with TLS",
    "cloudcore page": "until it is ended", "edgecore page": "until it is ended",
    "cloudcore attach": "until it is ended", "edgecore attach": "until it is ended",
    "cloudcore port-forward": "until it is ended", "edgecore port-forward": "until it is ended",
    "cloudcore devices history": "a device", "edgecore devices get": "a device",
    "edgecore devices history": "a device", "edgecore devices set": "a device",
    "edgecore devices watch": "a device", "edgecore devices call": "a device",
    "cloudcore upgrade nodes": "a cloud with bundles",
    "cloudcore upgrade status": "a job",
    "cloudcore upgrade resume": "a job",
    "cloudcore prepull": "nodes that pull",
    "edgecore services": "edgemesh", "edgecore resolve": "edgemesh",
    "edgecore config set": "a node with a file", "edgecore leave": "it ends the node",
    "edgecore restart": "it ends the node",
    "edgecore reset": "it ends the node", "edgecore uninstall": "it ends the node",
    "edgecore store migrate": "a copy of a database",
    "edgecore images list": "a runtime with images", "edgecore images pull": "a registry",
    "edgecore images import": "an archive", "edgecore images export": "an image", "edgecore images remove": "an image",
    "edgecore runtime": "until it is ended", "edgecore release": "a pod that waits",
    "edgecore trace record-fixture": "a recording", "edgecore replay": "a recording", "edgecore simulate": "minutes",
    "edgecore upgrade": "an installation", "edgecore rollback": "an installation",
    "edgecore versions": "an installation",
}  # fmt: skip
"""Examples that are only parsed, with what they lack in the test's cloud and node."""

_FINDS: Final = ("cloudcore diff", "cloudcore doctor", "edgecore doctor")
"""Commands that end with 1 if they find something."""
_HALF: Final = re.compile(r"(?:and|as|at|by|for|from|in|of|on|to|with) ")
_NO_VERB: Final = re.compile(r"(?:a|an|one|some|that|the|what|which) ", re.IGNORECASE)
_ANSWER: Final = re.compile(r"^=row ([^\n]+) (\d+)\n(.*?)^=end\n", re.MULTILINE | re.DOTALL)
_START: Final = f"""\
cloudcore run >cloud.log 2>&1 &
edgecore run >node.log 2>&1 &
cloudcore apply -f examples/hello.yaml -f examples/workloads.yaml
cloudcore wait --for=condition=Ready pod/hello --timeout=200s
cloudcore logs hello
export EDITOR=true
{sys.executable} -m tests.documentation.forks <<'=lines'
"""


def commands(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """The parsers of all commands without further commands."""
    further = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]
    if not further:
        yield parser
    for action in further:
        for shown in action._choices_actions:
            yield from commands(action.choices[shown.dest])


PARSERS: Final = [each for line in PROGRAMS.values() for each in commands(line(None)[0])]


@pytest.mark.parametrize("program", PROGRAMS)
def test_each_command_is_in_one_group(program: str) -> None:
    parser, action = PROGRAMS[program](None)
    grouped = [name for names in GROUPS[program].values() for name in names.split()]
    assert sorted(grouped) == sorted(each.dest for each in action._choices_actions)
    shown = parser.format_help()
    assert all(f"\n{title}:\n" in shown for title in GROUPS[program])
    assert all(re.search(f"^  {name}(?: |$)", shown, re.MULTILINE) for name in grouped)


def test_each_command_has_an_example_that_its_parser_takes() -> None:
    assert sorted(EXAMPLES) == sorted(each.prog for each in PARSERS)
    lines = {program: line(None) for program, line in PROGRAMS.items()}
    for name, example in EXAMPLES.items():
        asked = [words for words in _commands_of(example) if " ".join(words).startswith(name)]
        assert len(asked) == 1, example
        for program, *words in _commands_of(example):
            parser, choices = lines[program]
            said = io.StringIO()
            with contextlib.redirect_stderr(said):
                try:
                    parser.parse_args(arranged(parser, choices, words))
                except SystemExit:
                    pytest.fail(f"{example}: {said.getvalue()}")


def _commands_of(example: str) -> Iterator[list[str]]:
    """The commands of a line of the shell, without where their output goes."""
    for command in example.split(" | "):
        yield shlex.split(command.partition(" > ")[0])


def test_the_help_of_a_command_is_a_sentence_and_its_example() -> None:
    for parser in PARSERS:
        shown = parser.format_help()
        assert re.search(r"\n\n[A-Z`][^\n]+(?:\n[^\n]+)*\.\n\n", shown), shown
        assert shown.endswith(f"\nexample:\n  {EXAMPLES[parser.prog]}\n")
        assert parser.description is not None
        assert not _NO_VERB.match(parser.description), f"{parser.prog}: {parser.description}"


def test_the_help_of_an_option_can_be_read_without_its_name() -> None:
    halves = [
        f"{parser.prog} {' '.join(action.option_strings) or action.dest}: {action.help}"
        for parser in PARSERS
        for action in parser._actions
        if action.help and _HALF.match(action.help)
    ]
    assert not halves, "\n".join(halves)


def test_a_parser_without_texts_has_help() -> None:
    assert VerbParser(prog="other", description="Other.").format_help().startswith("usage: other [-h]\n\nOther.\n")


@pytest.mark.timeout(1200)
@pytest.mark.skipif(bool(reason_missing()), reason=str(reason_missing()))
def test_the_examples_work() -> None:
    """In their order, with one cloud and one node; `edge-1` is this machine."""
    rows = {name: example for name, example in EXAMPLES.items() if name not in NOT_RUN}
    asked = "".join(f"{name}\t{example.replace('edge-1', socket.gethostname())}\n" for name, example in rows.items())
    answers = {
        name: (int(status), said)
        for name, status, said in _ANSWER.findall(run("help", [Block(1, "sh", f"{_START}{asked}=lines\n", "")]))
    }
    assert answers.keys() == rows.keys()
    wrong = [
        f"{rows[name]}: status {status}: {said[:500]}"
        for name, (status, said) in answers.items()
        if status > (name in _FINDS) or "Traceback" in said
    ]
    assert not wrong, "\n".join(wrong)
