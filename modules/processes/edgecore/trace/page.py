"""`edgecore trace view`: a trace as one self-contained HTML page.

The page contains its style, its script and the packed trace. Its content security policy forbids every request and
every other script, so data of a trace can neither run nor leave the page.
"""

import base64
import hashlib
from collections.abc import Iterator
from importlib.resources import files
from typing import Final

from modules.processes.edgecore.trace.columns import PackedTrace

_SCRIPTS: Final = ("data.js", "view.js", "paint.js", "minimap.js", "list.js", "detail.js", "filter.js", "main.js")
"""Parts of the page's script, in the order of their dependencies."""


def page(packed: PackedTrace) -> Iterator[str]:
    """Yield the page in pieces."""
    style, script = _part("style.css"), _script()
    head = _part("page.html").replace("{policy}", _policy(style, script)).replace("{style}", style)
    before, after = head.split("{data}")
    yield before
    yield _block("index", packed.index)
    for number, chunk in enumerate(packed.bodies):
        yield _block(f"bodies-{number}", chunk)
    yield after.replace("{script}", script)


def _script() -> str:
    parts = "\n".join(_part(name) for name in _SCRIPTS)
    return f'"use strict";\n(() => {{\n{parts}\n}})();\n'


def _policy(style: str, script: str) -> str:
    return f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; img-src data:"


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _block(name: str, data: bytes) -> str:
    return f'<script type="application/gzip" id="{name}">{base64.b64encode(data).decode()}</script>\n'


def _part(name: str) -> str:
    return (files("modules.processes.edgecore.trace") / "page" / name).read_text(encoding="utf-8")
