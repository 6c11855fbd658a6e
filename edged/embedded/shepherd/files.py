"""Records of a container, as its shepherd writes them."""

import json
from pathlib import Path
from typing import Any

from beehive.files.durable import replace_file


def write_json(path: Path, content: Any) -> None:
    """Replace the file at `path`, durably; readable by its owner only, for environments hold secrets."""
    replace_file(path, json.dumps(content).encode())
