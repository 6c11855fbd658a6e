"""Runs the blocks of a page as an ordinary user would, one after the other, in one shell.

The shell has a network of its own (so the ports in the documentation are free, and nothing is reached from outside), a
home directory of its own, and is an ordinary user, whoever runs the tests. A process that a block leaves in the
background is waited for until it answers: a reader takes longer than that to type the next line.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

from tests.documentation.blocks import REPOSITORY, Block
from tests.end_to_end.processes import mounts_below, processes_of, wait_until
from tests.support.directories import new_directory

_ORDINARY: Final = "1000"
_NETWORK: Final = ("unshare", "--user", "--map-root-user", "--net")
_USER: Final = ("unshare", "--user", f"--map-user={_ORDINARY}", f"--map-group={_ORDINARY}")
_BACKGROUND: Final = re.compile(r"^\s*(?:\.venv/bin/)?(edgecore|cloudcore) run\b([^#&]*)&", re.MULTILINE)
_PLACE: Final = re.compile(r"--(?:root|config|socket)[ =]\S+")
_OVER_THE_TUNNEL: Final = re.compile(r"^cloudcore (?:logs|top) [^&|>]*$")
_QUESTION: Final = {"cloudcore": "get nodes", "edgecore": "pods"}

_OF_THE_MACHINE: Final = "/var/tmp/edgecore-example"
"""The hostPath of an example; here it is below the page's own directory."""

_PRELUDE: Final = """\
set -eu
until_it_answers() { until "$@" >answer 2>&1; do kill -0 $! || { cat answer; exit 1; }; sleep 0.3; done; }
finish() { trap - EXIT; kill $(jobs -p) 2>/dev/null || true; wait; }
trap finish EXIT
"""


@cache
def reason_missing() -> str | None:
    """Why this machine cannot give a test a network and a user of its own, for `pytest.skip`; None when it can."""
    try:
        done = subprocess.run([*_inside(), "unshare", "--user", "--mount", "true"], capture_output=True, check=False)
    except OSError as error:
        return f"unshare: {error.strerror}"
    return None if done.returncode == 0 else f"no namespaces for ordinary users: {done.stderr.decode().strip()}"


def run(name: str, blocks: Iterable[Block]) -> str:
    """Run the blocks; return what they printed, with a line before each. The assertion error has the same."""
    directory = new_directory("doc-")
    try:
        return _run(name, blocks, directory)
    finally:
        _clear(directory)


def _run(name: str, blocks: Iterable[Block], directory: Path) -> str:
    shutil.copytree(REPOSITORY / "examples", directory / "examples")
    for manifest in (directory / "examples").rglob("*.yaml"):
        manifest.write_text(manifest.read_text().replace(_OF_THE_MACHINE, str(directory / "stays")))
    (directory / ".venv").mkdir()
    programs = directory / ".venv" / "bin"
    programs.symlink_to(Path(sys.executable).parent)
    script = _PRELUDE + "".join(f"\necho '=== {name}:{each.line}'\n{_waiting(each.text)}" for each in blocks)
    script = script.replace(_OF_THE_MACHINE, str(directory / "stays"))
    environment = {
        "HOME": str(directory),
        "LANG": "C.UTF-8",
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PYTHONPATH": str(REPOSITORY),
        "TMPDIR": str(directory),
    }
    output = directory / "output"
    with output.open("wb") as file:
        done = subprocess.run(
            [*_inside(), "bash", "-c", script],
            cwd=directory, env=environment, stdin=subprocess.DEVNULL, stdout=file, stderr=file, check=False,
        )  # fmt: skip
    text = output.read_text(errors="replace")
    assert done.returncode == 0, f"exit status {done.returncode}\n{text[-4000:]}"
    return text


def _inside() -> list[str]:
    loopback = (sys.executable, str(Path(__file__).with_name("loopback.py")))
    return [*_NETWORK, *loopback, *_USER]


def _waiting(text: str) -> str:
    """Return the block with a question after each process that it leaves in the background, until that answers; and
    before each that a node answers over its tunnel, which it dials a moment later.
    """
    lines = []
    for line in text.splitlines():
        if _OVER_THE_TUNNEL.match(line):
            lines.append(f"until_it_answers {line}")
        lines.append(line)
        if started := _BACKGROUND.match(line):
            where = " ".join(_PLACE.findall(started[2]))
            lines.append(f"until_it_answers {started[1]} {_QUESTION[started[1]]} {where}")
    return "\n".join(lines) + "\n"


def _clear(directory: Path) -> None:
    """Containers live longer than edgecore: end what is left, and wait for it."""

    def gone() -> bool:
        for pid in processes_of(directory):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not processes_of(directory)

    def removed() -> bool:
        shutil.rmtree(directory, ignore_errors=True)  # a shim that is dying still renames its last file
        return not directory.exists()

    wait_until(gone, "all processes of the page have ended")
    assert mounts_below(directory) == []
    wait_until(removed, "nothing is left of the page")
