"""The command line of the updater."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from .installation import Installation
from .node_control import LocalNodeControl
from .phases import carry_out

_LOCK_SECONDS: Final = 60.0


def main(words: Sequence[str]) -> int:
    """Carry the upgrade of an installation to its end."""
    installation, deadline = Installation(Path(words[0])), time.monotonic() + _LOCK_SECONDS
    while True:
        with installation.locked() as is_free:
            if is_free:
                journal = installation.journal()
                if journal is not None:
                    node = LocalNodeControl(installation, journal.node)
                    carry_out(installation, journal, node, is_starting="starting" in words[1:])
                return 0
        if time.monotonic() > deadline:
            sys.stderr.write("updater: another upgrade is under way\n")
            return 0
        time.sleep(0.1)
