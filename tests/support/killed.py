"""A process that is killed in the middle of its work, and what it had said by then to be done."""

import subprocess
import sys
from pathlib import Path


def told_until_kill(program: str, path: Path, lines: int) -> list[str]:
    """Run a module on a file, kill it (SIGKILL) when it has said so many lines; all that it has said, line by line."""
    with subprocess.Popen([sys.executable, "-m", program, str(path)], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        told = [child.stdout.readline().strip() for _ in range(lines)]
        child.kill()
        told += [line.strip() for line in child.stdout if line.endswith("\n")]
    assert all(told), "it ended by itself"
    return told
