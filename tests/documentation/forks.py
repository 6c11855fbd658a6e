"""Runs commands of both programs, each in a fork of a process that has imported what they need in any case: importing
it would take most of the processor time of each.

    python -m tests.documentation.forks <LINES

For each line, a name, a tab and a command, it prints `=row NAME STATUS`, what the command has said, and `=end`.
"""

import os
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import modules.processes.cloudcore.cli
import modules.processes.edgecore.cli  # noqa: F401 - for the forks


def main() -> None:
    """Run the commands one after the other; in a fork, return as its command does."""
    for line in sys.stdin.read().splitlines():
        name, _, command = line.partition("\t")
        words, file = shlex.split(command), Path("said")
        with file.open("wb") as said:
            if {"|", ">"} & set(words):
                shell = ["sh", "-c", command]
                status = subprocess.run(
                    shell, stdin=subprocess.DEVNULL, stdout=said, stderr=said, check=False
                ).returncode
            elif child := os.fork():
                status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            else:
                os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
                os.dup2(said.fileno(), 1)
                os.dup2(said.fileno(), 2)
                sys.argv = words
                runpy.run_module(f"modules.processes.{words[0]}", run_name="__main__", alter_sys=True)
                return
        sys.stdout.write(f"=row {name} {status}\n{file.read_text()}\n=end\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
