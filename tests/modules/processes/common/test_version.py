"""`version` and `--version`, of both programs."""

import json

import pytest

from modules.processes.common.source_version import checked_out
from modules.processes.common.version import CRI_VERSIONS, VERSION
from tests.end_to_end.processes import run_program

PROGRAMS = ("edgecore", "cloudcore")


def said(program: str, *arguments: str) -> str:
    """Run a program in a process of its own, and return what it prints."""
    done = run_program(program, *arguments)
    done.check_returncode()
    return done.stdout


@pytest.mark.parametrize("program", PROGRAMS)
def test_both_forms(program: str) -> None:
    """The option prints a line, the command more, and as JSON for programs."""
    assert said(program, "--version") == f"{program} {VERSION}\n"
    assert said(program, "version").startswith(f"{program} {VERSION}\nbuild: ")
    found = json.loads(said(program, "version", "-o", "json"))
    assert (found["program"], found["version"]) == (program, VERSION)
    assert found["containerRuntimeInterface"] == list(CRI_VERSIONS)
    source = checked_out()
    assert found["build"]["commit"] == ("" if source is None else source.hash)
