"""Commands of edgecore that ask a node something and end, in this process: most of such a process is its start."""

import io
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from unittest.mock import patch

from modules.processes.edgecore.cli import main


def edgecore(*arguments: str) -> subprocess.CompletedProcess[str]:
    """What `edgecore <arguments>` prints, and its exit status. There is no input."""
    output, errors = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    with redirect_stdout(output), redirect_stderr(errors), patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO())):
        try:
            status = main(arguments)
        except SystemExit as ended:
            status = ended.code if isinstance(ended.code, int) else 1
    return subprocess.CompletedProcess(["edgecore", *arguments], status, _text(output), _text(errors))


def _text(stream: io.TextIOWrapper) -> str:
    assert isinstance(stream.buffer, io.BytesIO)
    return stream.buffer.getvalue().decode()
