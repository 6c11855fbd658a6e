"""Kills a process in the middle of its work and returns its output."""

import subprocess
import sys
from pathlib import Path


def output_until_kill(program: str, path: Path, lines: int) -> list[str]:
    """Run a module on a file, kill it (SIGKILL) after so many lines of output, and return all lines."""
    with subprocess.Popen([sys.executable, "-m", program, str(path)], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        told = [child.stdout.readline().strip() for _ in range(lines)]
        child.kill()
        told += [line.strip() for line in child.stdout if line.endswith("\n")]
    assert all(told), "it ended by itself"
    return told
