"""`edgecore top --live` where it cannot run."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from modules.processes.common.exit_codes import ExitCode
from tests.support.patience import PATIENCE

REPOSITORY = Path(__file__).parents[5]


def run(*words: str, terminal: int | None = None) -> subprocess.CompletedProcess[str]:
    """Runs the command, with a terminal or without one."""
    output = subprocess.PIPE if terminal is None else terminal
    return subprocess.run(
        [sys.executable, *words], cwd=REPOSITORY, stdin=subprocess.DEVNULL if terminal is None else terminal,
        stdout=output, stderr=output, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip


def test_without_a_terminal(tmp_path: Path) -> None:
    """One line; nothing is loaded for it."""
    done = run("-m", "modules.processes.edgecore", "top", "--live", "--root", str(tmp_path))
    assert (done.returncode, done.stdout) == (ExitCode.USAGE, "")
    assert done.stderr.startswith("edgecore: error: top --live needs a terminal")
    assert done.stderr.count("\n") == 1


WITHOUT = """
import sys
sys.modules["textual"] = None
from modules.processes.edgecore.cli import main
from tests.support.patience import PATIENCE
sys.exit(main(["top", "--live", "--root", sys.argv[1]]))
"""


def test_without_textual(tmp_path: Path) -> None:
    """One line that says how to get it."""
    controller, terminal = pty.openpty()
    try:
        done = run("-c", WITHOUT, str(tmp_path), terminal=terminal)
        told = os.read(controller, 4096).decode()
    finally:
        os.close(controller)
        os.close(terminal)
    assert done.returncode == ExitCode.NOT_INSTALLED
    assert told == "edgecore: error: top --live needs textual: pip install 'edgecore[tui]'\r\n"


@pytest.mark.parametrize("module", ["textual", "rich", "modules.processes.edgecore.top.run"])
def test_other_commands_load_nothing_of_it(module: str) -> None:
    code = "import sys, modules.processes.edgecore.process as p, modules.processes.edgecore.cli as c; "
    done = run("-c", f"{code}print({module!r} in sys.modules)")
    assert (done.stdout, done.stderr) == ("False\n", "")
