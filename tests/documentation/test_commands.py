"""The programs accept every command in the documentation, and whatever can run is run."""

import io
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path

import pytest

from modules.lab.site.commands import parser_of
from tests.documentation import session
from tests.documentation.blocks import PAGES, REPOSITORY, blocks, commands

_parser = cache(parser_of)
_LONGEST = 160
_QUICK = ("devices.md", "first-five-minutes.md", "oci-runtime.md", "run-a-pod.md")
"""Pages that are run without `make slow`."""
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


def _refusal(program: str, arguments: list[str]) -> str:
    """Return what the program's parser says against arguments; empty if it takes them."""
    errors = io.StringIO()
    try:
        with redirect_stderr(errors), redirect_stdout(io.StringIO()):
            _parser(program).parse_args(arguments)
    except SystemExit as end:
        return errors.getvalue().strip().splitlines()[-1][:_LONGEST] if end.code else ""
    return ""
