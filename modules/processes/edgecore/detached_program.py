"""A command of edgecore for the jobs of the cloud, as a program of its own that outlives this process."""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from modules.edge.taskmanager.programs import ProgramEnd
from modules.processes.edgecore.location import NodeLocation, add_location, located

if TYPE_CHECKING:
    from modules.processes.edgecore.upgrade.updater.installation import Installation
    from modules.processes.edgecore.upgrade.updater.journal import UpgradeJournal

_LONGEST: Final = 1000
"""Bytes of the program's last words."""
STAGED_SECONDS: Final = 60.0
"""Seconds after which a staged program is not begun any more: whoever has staged it is dead."""


class DetachedProgram:
    """The program, and whether what it has begun is under way.

    Args:
        monotonic: returns the time.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._program: subprocess.Popen[bytes] | None = None
        self._log = Path()
        self._staged_since: float | None = None

    def start(self, words: Sequence[str], log: Path, standard_input: bytes = b"") -> None:
        """Start it. Raises OSError.

        Args:
            words: of its command line.
            log: file of its output.
            standard_input: its input.
        """
        self._log = log
        with log.open("wb") as said, tempfile.TemporaryFile() as given:
            given.write(standard_input)
            given.seek(0)
            self._program = subprocess.Popen(
                words, cwd="/", stdin=given, stdout=said, stderr=said, start_new_session=True
            )

    def end(self) -> ProgramEnd | None:
        """Return how the program has ended; None while it runs, and without one."""
        program = self._program
        if program is None or program.poll() is None:
            return None
        self._program = None
        with self._log.open("rb") as log:
            log.seek(max(0, os.fstat(log.fileno()).st_size - _LONGEST))
            lines = log.read(_LONGEST).decode(errors="replace").strip().splitlines()
        return ProgramEnd(program.returncode, " ".join(lines[-3:]))

    def last_change(self, installation: Installation) -> tuple[UpgradeJournal | None, bool]:
        """Return the last change of an installation, and whether one is prepared or carried out."""
        from modules.processes.edgecore.upgrade.updater.journal import UNFINISHED, Phase  # noqa: PLC0415 - most nodes need none

        if not installation.state.is_dir():
            return None, False
        is_free = not installation.is_locked()
        try:
            journal = installation.journal()
        except (OSError, ValueError):
            journal = None
        is_staged = is_free and journal is not None and journal.phase is Phase.STAGED
        if not is_staged:
            self._staged_since = None
        elif self._staged_since is None:
            self._staged_since = self._monotonic()
        waits = self._staged_since is not None and self._monotonic() - self._staged_since < STAGED_SECONDS
        is_unfinished = journal is not None and journal.phase in UNFINISHED
        return journal, not is_free or is_unfinished or waits


def location_of(words: Sequence[str]) -> NodeLocation:
    """Return where the configuration of the node is that a process runs, by its command line."""
    parser = argparse.ArgumentParser(add_help=False)
    add_location(parser)
    chosen, _ = parser.parse_known_args(list(words))
    return located(chosen.config, chosen.root)
