"""The programs accept every command in the documentation, and whatever can run is run."""

import io
import re
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path

import pytest

from modules.lab.site.commands import parser_of
from tests.documentation import session
from tests.documentation.blocks import PAGES, REPOSITORY, Block, blocks, commands

_parser = cache(parser_of)
_LONGEST = 160
_QUICK = ("devices.md", "first-five-minutes.md", "oci-runtime.md", "run-a-pod.md")
"""Pages that are run without `make slow`."""
_NEXT = """\
cloudcore logs hello
echo --
cloudcore top pods
echo --
edgecore exec hello -- echo done on the node
cloudcore exec hello -- echo done from the cloud
(cloudcore port-forward hello 8080:80 & echo $! > forwarding) | head -1
kill $(cat forwarding)
"""
_RUN = [page for page in PAGES if any(block.runs for block in blocks(page.read_text()))]


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(REPOSITORY)) for page in PAGES])
def test_every_command_is_one(page: Path) -> None:
    """No option is invented, none that is gone is left."""
    wrong = [
        f"{page.name}:{block.line}: {program} {' '.join(arguments)}: {error}"
        for block in blocks(page.read_text())
        for program, arguments in commands(block)
        if (error := _refusal(program, arguments))
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "page", [pytest.param(page, id=page.name, marks=[] if page.name in _QUICK else [pytest.mark.slow]) for page in _RUN]
)
def test_the_commands_of_a_page_work(page: Path) -> None:
    """Its blocks in order, as an ordinary user with an empty home directory, end with status 0."""
    missing = session.reason_missing()
    if missing:
        pytest.skip(missing)
    output = session.run(page.name, [block for block in blocks(page.read_text()) if block.runs])
    assert "Traceback" not in output, output


def test_after_the_first_page_the_next_commands_work() -> None:
    """The tunnel is on by default, and the process runtime has streams."""
    missing = session.reason_missing()
    if missing:
        pytest.skip(missing)
    page = (REPOSITORY / "docs" / "first-five-minutes.md").read_text()
    until_the_end = [block for block in blocks(page) if block.runs and "delete" not in block.text]
    output = session.run("second", [*until_the_end, Block(1, "sh", _NEXT, "")])
    said_by_commands = re.sub(r"^\d{4}-.*\n", "", output, flags=re.MULTILINE)
    logged, usage, streamed = said_by_commands.rpartition("=== second:1\n")[2].split("--\n")
    assert "hello from hello" in logged
    assert re.search(r"^hello +\d+m +\d+Mi$", usage, re.MULTILINE), usage
    forwarding = "Forwarding from 127.0.0.1:8080 -> 80"
    assert streamed.splitlines() == ["done on the node", "done from the cloud", forwarding], streamed


def _refusal(program: str, arguments: list[str]) -> str:
    """Return what the program's parser says against arguments; empty if it takes them."""
    errors = io.StringIO()
    try:
        with redirect_stderr(errors), redirect_stdout(io.StringIO()):
            _parser(program).parse_args(arguments)
    except SystemExit as end:
        return errors.getvalue().strip().splitlines()[-1][:_LONGEST] if end.code else ""
    return ""
