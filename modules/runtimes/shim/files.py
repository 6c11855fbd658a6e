"""Records of a container, as its shim writes them."""

import json
from pathlib import Path
from typing import Any

from beehive.files.durable import make_durable, replace_file, replace_soon

__all__ = ["make_durable", "write_json", "write_json_soon"]


def write_json(path: Path, content: Any) -> None:
    """Replace the file at `path`, durably; readable by its owner only, because environments hold secrets."""
    replace_file(path, json.dumps(content).encode())


def write_json_soon(path: Path, content: Any) -> None:
    """Replace the file at `path` for all readers; it is durable after `make_durable`."""
    replace_soon(path, json.dumps(content).encode())
