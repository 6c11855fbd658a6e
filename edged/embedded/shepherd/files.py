"""Small files that are either whole or absent: what the state directory is made of.

They are renamed into place but not forced to the disk: what ran before a power failure does not run after it,
so losing the last records of it costs nothing, and an edge node's flash memory is slow.
"""

import json
import os
from pathlib import Path
from typing import Any


def write_atomically(path: Path, content: bytes) -> None:
    """Replace the file at `path`; readable by its owner only, because container environments hold secrets."""
    temporary = path.with_name(f"{path.name}.new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    temporary.rename(path)


def write_json(path: Path, content: Any) -> None:
    """As `write_atomically`, of `content` as JSON."""
    write_atomically(path, json.dumps(content).encode())
