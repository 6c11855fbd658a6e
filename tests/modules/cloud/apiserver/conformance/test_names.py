"""The tests of this directory have the names of Kubernetes' conformance tests."""

from __future__ import annotations

import ast
import re
from pathlib import Path

_NAME = re.compile(r"\[sig-(api-machinery|apps|auth|instrumentation|network|node|storage)\] .+ \[Conformance\]")
_ENOUGH = 40


def test_each_test_has_the_name_of_a_kubernetes_conformance_test() -> None:
    names = []
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        if path.name == Path(__file__).name:
            continue
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                text = " ".join((ast.get_docstring(node) or "").split())
                assert _NAME.fullmatch(text), f"{path.name}: {node.name}"
                names.append(text)
    assert len(names) == len(set(names))
    assert len(names) >= _ENOUGH
