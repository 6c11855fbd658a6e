"""The decisions about pods are pure: nothing in `edged/pods` reads a clock, a file or a socket."""

import ast
from pathlib import Path

import pytest

import edged.pods

MODULES = sorted(Path(edged.pods.__path__[0]).rglob("*.py"))
OUTSIDE = {"datetime", "io", "os", "random", "secrets", "select", "shutil", "socket", "subprocess", "tempfile", "time"}
READING = {
    "exists",
    "glob",
    "is_dir",
    "is_file",
    "iterdir",
    "lstat",
    "now",
    "now_ns",
    "monotonic",
    "open",
    "read_bytes",
}
READING |= {"read_text", "resolve", "rglob", "stat", "today"}


@pytest.mark.parametrize("module", MODULES, ids=[path.stem for path in MODULES])
def test_a_decision_reads_no_clock_file_or_socket(module: Path) -> None:
    reached = set()
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            reached |= {alias.name.partition(".")[0] for alias in node.names} & OUTSIDE
        elif isinstance(node, ast.ImportFrom):
            reached |= {(node.module or "").partition(".")[0]} & OUTSIDE
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute | ast.Name):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
            reached |= {called} & READING
    assert not reached
